"""A reader that sees prompts only does jobs with surprises, at the price of a plain tool loop."""

from __future__ import annotations

from bench.work import measure, missed, stream, table
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


def test_memory_of_corrections_saves_calls_and_tokens_of_the_next_ones() -> None:
    figures = stream.measure(jobs=12, embedder="lexical")
    print(stream.table(figures))
    assert figures["all"]["with"]["done"] == figures["all"]["without"]["done"] == 1.0
    assert stream.missed(figures) == []
