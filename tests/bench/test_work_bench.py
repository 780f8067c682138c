"""A reader that sees prompts only does jobs with surprises, at the price of a plain tool loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.work import measure, missed, stream, table
from bench.work.coding_jobs import FALSE_FRIEND, KINDS, ONCE, CodingJob, Correction, coding_jobs
from bench.work.jobs import JOBS


@pytest.mark.night
def test_deciding_turn_by_turn_meets_its_goals_without_slips() -> None:
    figures = measure(slips=0.0, seeds=1)
    assert missed(figures) == []
    assert figures["turns"]["done"] == 1.0
    assert figures["turns"]["calls"] < figures["planned"]["calls"]
    assert all(job.name in table(figures) for job in JOBS)


def test_slips_of_form_cost_calls_and_lose_no_job() -> None:
    figures = measure(slips=0.5, seeds=2, only="flaky tool")
    assert figures["turns"]["done"] == 1.0
    assert figures["turns"]["wasted"] > 0


@pytest.mark.night
def test_of_each_correction_only_the_right_one_helps(tmp_path: Path) -> None:
    jobs = {(job.kind, job.task if job.kind == FALSE_FRIEND else ""): job for job in coding_jobs(100)}
    assert {kind for kind, _ in jobs} == {*KINDS, FALSE_FRIEND, ONCE}

    def holds(job: CodingJob, *corrections: Correction) -> bool:
        stream.lay_out(tmp_path, job)
        for each in corrections:
            path = tmp_path / each.path
            assert path.read_text().count(each.old) == 1
            path.write_text(path.read_text().replace(each.old, each.new))
        return stream.corrected(tmp_path)

    for job in jobs.values():
        wrong = [idea for idea in job.ideas if idea != job.right]
        assert not holds(job)
        assert not any(holds(job, idea) for idea in wrong)
        assert holds(job, job.right), job


@pytest.mark.night
def test_memory_of_corrections_saves_calls_and_tokens_of_the_next_ones() -> None:
    figures = stream.measure(jobs=12, embedder="lexical")
    assert figures["all"]["with"]["done"] == figures["all"]["without"]["done"] == 1.0
    assert stream.missed(figures) == []
