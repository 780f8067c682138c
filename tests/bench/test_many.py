"""Many runs at once in one process all end, each with its own documents."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from lanes import NIGHT

from bench import many
from bench.__main__ import bench


@pytest.mark.night
@pytest.mark.alone
def test_many_runs_at_once_end_in_one_process() -> None:
    figures = many.measure([3, 15], times=1)
    assert {"runs", "runs_per_s", "cpu_ms_per_run", "rss_mb", "unfinished"} <= set(figures)
    assert (figures["runs"], figures["unfinished"]) == (15, 0)
    assert (
        not NIGHT
        or figures["by_runs"]["15"]["cpu_ms_per_run"] < 3 * figures["by_runs"]["3"]["cpu_ms_per_run"]
    )


@pytest.mark.parametrize("runs", ["", "0", "ten", "10,", "-3"])
def test_an_invalid_number_of_runs_is_refused(runs: str) -> None:
    ran = CliRunner().invoke(bench, ["many", f"--runs={runs}"])
    assert ran.exit_code == 2 and "--runs" in ran.stderr
