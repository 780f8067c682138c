"""Plans of low confidence: a higher rung is asked, then a person. No step runs before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, plan

from kernel.asking.responder import Ask
from kernel.errors import Exit
from runtime.models.scripted import Scripted

WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "a"}}


def unsure(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    return plan(WRITE, confidence="low", rationale="two files could be meant", success=[{"file": "a.txt"}])


@pytest.mark.parametrize("yes", [False, True])
def test_low_confidence_plan_waits_for_a_person(play: Play, tmp_path: Path, yes: bool) -> None:
    played = play(unsure, yes=yes)
    assert (played.result.exit, played.result.waiting) == (Exit.WAITING, "person")
    assert "two files could be meant" in played.result.question and "write" in played.result.question
    assert not (tmp_path / "work" / "a.txt").exists()

    played.fractal.tell(played.result.run, "answer", text="a.txt is meant")
    again = play(unsure, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED, "an answer of a person suffices, whatever the confidence"
    assert (tmp_path / "work" / "a.txt").read_text() == "a"


def test_higher_rung_is_asked_before_a_person(play: Play, tmp_path: Path) -> None:
    def sure(ask: Ask) -> Any:
        return ACCEPT if ask.phase == "check" else plan(WRITE, success=[{"file": "a.txt"}])

    rungs = [Scripted(unsure, name="small"), Scripted(sure, name="large", tier="oversight")]
    played = play(rungs, settings={"review": "off"})
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.taker == "large"


def test_low_confidence_subtask_passes_its_question_up(play: Play, tmp_path: Path) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.parent:
            return unsure(ask)
        failed = {**ACCEPT, "validation": "fail", "decision": "ESCALATE", "issues": ["the part asks"]}
        return failed if ask.phase == "check" else plan({"subtask": "write it"})

    played = play(answer)
    step = played.root.steps[1]
    assert step.state == "failed" and "two files could be meant" in step.evidence["question"]
    assert not (tmp_path / "work" / "a.txt").exists()
