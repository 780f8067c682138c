"""What a person answers to a task that nobody could do: it is known the next time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.api.fractal import Fractal, RunResult
from runtime.memory.tasks.trees import NeuronTree

WHO = "who leads the choir?"
ROWS = "tell me how big notes is in rows"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.md").write_text("one\ntwo\n")
    return folder


def run(work: Path, task: str, answer: str = "", **settings: Any) -> RunResult:
    """A run without a model, in a process of its own; a person answers the first question."""
    fractal = Fractal(work, settings={"sandbox": "off", "embedder": "lexical", **settings})
    try:
        result = asyncio.run(fractal.run(task))
        if answer:
            fractal.tell(result.run, "answer", text=answer)
            result = asyncio.run(fractal.resume(result.run))
        return result
    finally:
        fractal.brain.close()


def refuse(work: Path, run: str) -> None:
    fractal = Fractal(work, settings={"embedder": "lexical"})
    fractal.feedback(run, False, "she left")
    fractal.brain.close()


def test_an_answer_is_said_again_with_its_source(work: Path) -> None:
    first = run(work, WHO, "Anna leads it")
    again = run(work, WHO)
    assert (again.status, again.spent["calls"]) == ("complete", 0)
    assert "Anna leads it" in again.output and f"run:{first.run}" in again.output


@pytest.mark.parametrize("task", ["who leads the band?", "who leads the choir of the school?"])
def test_it_answers_no_other_question(work: Path, task: str) -> None:
    run(work, WHO, "Anna leads it")
    assert run(work, task).output.startswith("Memory is not certain.")


def test_the_last_answer_counts(work: Path) -> None:
    run(work, WHO, "Anna leads it")
    run(work, WHO, "Ben does", recall=False)
    output = run(work, WHO).output
    assert "Ben does" in output and "Anna" not in output


def test_a_refused_answer_is_asked_for_again_and_the_next_one_said(work: Path) -> None:
    run(work, WHO, "Anna leads it")
    refuse(work, run(work, WHO).run)
    assert run(work, WHO).status == "waiting"
    run(work, WHO, "Ben does")
    assert "Ben does" in run(work, WHO).output


def test_a_refused_wording_is_not_used_again(work: Path) -> None:
    refuse(work, run(work, ROWS, "count the lines of notes.md").run)
    assert run(work, ROWS).status == "waiting"


def test_a_task_in_other_words_is_done_anew_the_next_time(work: Path) -> None:
    assert run(work, ROWS, "count the lines of notes.md").output == "2"
    (work / "notes.md").write_text("one\ntwo\nthree\n")
    again = run(work, ROWS)
    assert (again.status, again.output) == ("complete", "3")
    assert run(work, "tell me how big other is in rows").status == "waiting"


def test_it_is_not_learned_as_an_answer(work: Path) -> None:
    run(work, WHO, "Anna leads it")
    fractal = Fractal(work, settings={"embedder": "lexical"})
    try:
        assert not fractal.brain.shelf.count(NeuronTree)
    finally:
        fractal.brain.close()


def test_where_nothing_is_remembered_it_is_asked_again(work: Path) -> None:
    run(work, WHO, "Anna leads it", remember=False)
    assert run(work, WHO).status == "waiting"
