"""Many runs at once in one process end, each with its own documents."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_sixty_runs_at_once_end_in_one_process() -> None:
    command = [sys.executable, "-m", "runtime.cli", "bench", "many", "--runs", "10,60", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert {"runs", "runs_per_s", "cpu_ms_per_run", "rss_mb", "unfinished"} <= set(figures)
    assert (figures["runs"], figures["unfinished"]) == (60, 0)
    assert figures["by_runs"]["60"]["cpu_ms_per_run"] < 3 * figures["by_runs"]["10"]["cpu_ms_per_run"]


@pytest.mark.parametrize("runs", ["", "0", "ten", "10,", "-3"])
def test_a_wrong_number_of_runs_is_refused(runs: str) -> None:
    command = [sys.executable, "-m", "runtime.cli", "bench", "many", f"--runs={runs}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2 and "--runs" in ran.stderr
