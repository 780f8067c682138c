"""The comparison of agents on real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.real.comparison import SETS, VARIANTS, for_peers, jobs, ladder
from bench.real.job import KINDS, create
from runtime.workspace.settings import Config


@pytest.mark.parametrize("agent", VARIANTS)
def test_the_ladder_of_each_variant_is_a_valid_setting(agent: str, tmp_path: Path):
    config = Config.model_validate({"ladder": ladder(agent, tmp_path / "model.gguf")})
    assert [rung.model.partition(":")[0] for rung in config.ladder] == ["reflex", "llama", "person"]


@pytest.mark.parametrize("which", SETS)
def test_each_set_has_all_kinds_and_the_peers_one_job_of_each_kind_that_they_can_do(which: str):
    assert {job.kind for job in jobs(which)} == set(KINDS)
    assert [job.kind for job in for_peers(jobs(which))] == [k for k in KINDS if k not in ("ask", "page")]


BY_DAY = {job.kind: job.name for job in jobs("viewed")}.values()
"""One job of each kind."""


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, id=job.name, marks=[] if job.name in BY_DAY else pytest.mark.night)
        for job in jobs("viewed")
    ],
)
def test_the_check_of_a_job_tells_its_solution_from_nothing(job, tmp_path: Path):
    create(job, tmp_path)
    try:
        done = job.check(tmp_path, "")
    except Exception:
        done = False
    assert not done
    assert job.check(tmp_path, job.solution(tmp_path))
