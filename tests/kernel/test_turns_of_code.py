"""Code takes turns like a model: its questions are answered, its doubts go up, and nothing asks it twice."""

from __future__ import annotations

from typing import Any

import pytest
from playing import ACCEPT, Play, Played, limited, plan, read, write

from kernel.asking.responder import Ask, Ladder, Questioner
from kernel.errors import ConfigurationError, Exit
from runtime.models.scripted import Scripted

A_TXT = plan(write("a.txt", "one\n"), success=[{"file": "a.txt", "has": "one"}])


class Code(Scripted):
    reads_prompt = False


def read_text(played: Played, name: str) -> str:
    """A file of the folder after a run."""
    return (played.fractal.workspace.folder / name).read_text("utf-8")


class Small(Questioner):
    """A small model that says what a function says."""

    name = "small"

    def __init__(self, answer: Any) -> None:
        self.says = answer

    async def fill(self, interview: Any) -> Any:
        return ACCEPT if interview.ask.phase == "check" else self.says(interview.ask)


@pytest.mark.parametrize("kind", [lambda says: Code(says, name="code", tier="reflex"), Small])
def test_the_answer_to_its_question_is_heard(play: Play, kind: Any) -> None:
    def says(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        return A_TXT if ask.document.note(1, "answer") else {"question": "Which file?"}

    waits = play(kind(says))
    assert (waits.result.status, waits.result.question) == ("waiting", "Which file?")
    waits.fractal.tell(waits.result.run, "answer", text="a.txt")
    ended = play(kind(says), resume=waits.result.run)
    assert (ended.result.exit, read_text(ended, "a.txt")) == (Exit.ACCEPTED, "one\n")


def test_an_answer_of_low_confidence_goes_up(play: Play) -> None:
    guess = {"answer": "Probably 41", "confidence": "low"}
    rungs = [Code(lambda ask: guess, name="code", tier="reflex"), Scripted(lambda ask: {"done": "42"}, "big")]
    assert play(rungs, "What is six times seven?", settings={"check": "auto"}).result.output == "42"


@pytest.mark.parametrize("turn", [{"done": {"answer": " "}}, {"calls": [read("none.txt")], "done": "so"}])
def test_what_is_held_back_from_code_ends_the_attempt(play: Play, turn: dict[str, Any]) -> None:
    code = Code(lambda ask: turn, name="code", tier="reflex")
    assert play(code, "what does it say?").result.status == "escalated"
    assert len(code.asks) == 1


def test_the_answer_of_a_model_above_a_limited_rung_is_held_back_as_a_models(play: Play) -> None:
    def model(ask: Ask) -> Any:
        done = {"done": {"answer": "fixed", "checks": ["grep -q good x.txt"]}}
        return {1: {"calls": [write("x.txt", "bad")]}, 3: {"calls": [write("x.txt", "good")]}}.get(
            ask.step, done
        )

    small = limited(Small(lambda ask: A_TXT), phases=["do", "check"])
    played = play([small, Scripted(model, "big")], "make x.txt say good", settings={"check": "auto"})
    assert (played.result.status, played.root.meta.attempt, read_text(played, "x.txt")) == (
        "complete",
        1,
        "good",
    )


def test_a_rung_that_is_no_responder_is_refused_before_a_run() -> None:
    class Duck:
        name, tier, reads_prompt = "duck", "worker", False

    with pytest.raises(ConfigurationError, match="Duck is no responder"):
        Ladder((Duck(),))  # type: ignore[arg-type]
