"""A reader that sees prompts only does jobs with surprises, at the price of a plain tool loop."""

from __future__ import annotations

from bench.work import measure, missed, table
from bench.work.jobs import JOBS


def test_deciding_turn_by_turn_meets_its_goals_without_slips() -> None:
    figures = measure(slips=0.0, seeds=1)
    assert missed(figures) == []
    assert figures["work"]["done"] == 1.0
    assert figures["work"]["calls"] < figures["planned"]["calls"]
    assert all(job.name in table(figures) for job in JOBS)


def test_slips_of_form_cost_calls_and_lose_no_job() -> None:
    figures = measure(slips=0.5, seeds=2, only="flaky tool")
    assert figures["work"]["done"] == 1.0
    assert figures["work"]["wasted"] > 0
