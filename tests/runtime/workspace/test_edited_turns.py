"""Resuming a loop by turns after an edit: later turns are asked again, and nothing done is repeated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from playing import Play, Played, put

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.document.markdown import render
from kernel.document.parser import parse
from runtime.models.scripted import Scripted

READ = {"tool": "read", "args": {"path": "a.txt"}}
LOG = {"tool": "bash", "args": {"command": "echo one >> log.txt; echo logged"}}
WRITE = {"tool": "write", "args": {"path": "d.txt", "content": "from a"}}
DONE = {"done": "it is so"}
Resumed = tuple[Played, list[Ask]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    put(tmp_path / "work", "b.txt", "b\n")
    return put(tmp_path / "work", "a.txt", "a\n").parent


def turns(*replies: Any) -> tuple[Scripted, list[Ask]]:
    """A model that takes these turns, and then says that it is done; and what it is asked."""
    asks: list[Ask] = []
    left = list(replies)

    def answer(ask: Ask) -> Any:
        asks.append(ask)
        reply = left.pop(0) if left else DONE
        return {"calls": reply} if isinstance(reply, list) else reply

    return Scripted(answer), asks


def edit(played: Played, old: str, new: str) -> None:
    path = played.folder / f"{played.result.id}.md"
    changed = re.sub(old, new, text := path.read_text(), count=1, flags=re.S)
    assert changed != text, f"nothing matches {old}"
    path.write_text(changed)


@pytest.fixture
def go(play: Play, work: Path) -> Callable[..., Resumed]:
    """Plays turns; or resumes a run with these turns, and then once more, which has to do nothing."""

    def run(
        replies: Sequence[Any], resume: str | None = None, task: str = "do the work", **more: Any
    ) -> Resumed:
        model, asks = turns(*replies)
        played = play([model], task, resume=resume, settings={"check": "auto"}, **more)
        raw = render(played.root, 1)
        assert render(parse(raw), 1) == raw
        if resume and not played.result.waiting:
            again = play([turns()[0]], resume=resume, settings={"check": "auto"})
            assert again.asks() == [] and started(again) == []
        return played, asks

    return run


def started(played: Played) -> list[int]:
    return [int(event.data["step"]) for event in played.events if event.kind == "step_started"]


def test_an_unchanged_run_is_not_asked_again(go: Callable[..., Resumed]) -> None:
    first, _ = go([[READ], [WRITE], DONE])
    again, asks = go([], first.result.run)
    assert asks == [] and again.result.output == first.result.output


def test_after_an_edited_result_the_later_turns_are_asked_again(
    go: Callable[..., Resumed], work: Path
) -> None:
    first, before = go([[READ], [LOG], [WRITE], DONE])
    edit(first, r"(1\. done read.*?~~~text\n\s+)a\n", r"\1mended\n")
    again, asks = go([[LOG, {**WRITE, "args": {"path": "e.txt", "content": "mended"}}]], first.result.run)

    assert asks[0].step == 2
    shown = prompt_text(asks[0])
    assert "1\tmended" in shown and "1\ta\n" not in shown
    assert json.dumps(asks[0].messages[:3]) == json.dumps(before[1].messages[:3]), "up to the result"
    assert "What was done after it stands" in shown and "d.txt" in shown
    assert (work / "log.txt").read_text() == "one\n", "the same command keeps its result"
    assert (work / "e.txt").read_text() == "mended" and (work / "d.txt").exists()
    assert again.result.output == "it is so"
    assert len(again.root.planned) == 3


def test_an_edited_call_is_made_again_and_the_later_turns_are_asked_again(
    go: Callable[..., Resumed], work: Path
) -> None:
    first, _ = go([[READ], [LOG, READ], [WRITE], DONE])
    edit(first, r'(2\. planned bash `\{"command": "echo) one', r"\1 two")
    asked, asks = go([], first.result.run)
    assert asked.result.waiting == "person" and "--assume 2=rerun" in asked.result.question
    assert asks == [] and (work / "log.txt").read_text() == "one\n"

    _, asks = go([], first.result.run, assume="2=rerun")
    assert (work / "log.txt").read_text() == "one\ntwo\n"
    assert asks[0].step == 3 and "d.txt" in asks[0].messages[-1]["content"]


def test_after_an_edited_look_all_later_turns_are_asked_again(go: Callable[..., Resumed], work: Path) -> None:
    first, _ = go([[READ], [LOG], [WRITE], DONE])
    edit(first, r'(1\. planned read `\{"path": ")a', r"\1b")
    again, asks = go([[LOG]], first.result.run)
    assert started(again) == [1], "the same command keeps its result"
    assert asks[0].step == 2 and "1\tb" in prompt_text(asks[0])
    assert (work / "log.txt").read_text() == "one\n"


def test_a_call_of_the_same_turn_that_comes_after_an_edited_result_is_not_repeated(
    go: Callable[..., Resumed], work: Path
) -> None:
    first, _ = go([[READ, LOG], DONE])
    edit(first, r"(1\. done read.*?~~~text\n\s+)a\n", r"\1mended\n")
    again, asks = go([], first.result.run)
    assert started(again) == [] and asks[0].step == 2
    assert (work / "log.txt").read_text() == "one\n"


def test_an_edited_result_of_the_turn_with_the_answer_asks_for_nothing(go: Callable[..., Resumed]) -> None:
    first, _ = go([{"calls": [READ], "done": "it says a"}], task="what does a.txt say?")
    edit(first, r"(1\. done read.*?~~~text\n\s+)a\n", r"\1it says a\n")
    again, asks = go([], first.result.run)
    assert asks == [] and again.result.output == "it says a"


def test_an_edited_task_is_begun_anew_and_the_same_call_keeps_its_result(
    go: Callable[..., Resumed], work: Path
) -> None:
    first, _ = go([[LOG], [WRITE], DONE])
    edit(first, "> do the work\n", "> do the other work\n")
    again, asks = go([[LOG], [READ]], first.result.run)
    assert asks[0].step == 1 and asks[0].attempt == 2
    assert "## Task\ndo the other work" in prompt_text(asks[0])
    assert "Attempt 1 (edited)" in prompt_text(asks[0])
    assert (work / "log.txt").read_text() == "one\n"
    assert again.result.output == "it is so"


def test_after_an_edited_answer_the_turns_that_knew_it_are_asked_again(
    go: Callable[..., Resumed], work: Path
) -> None:
    waits, _ = go([[LOG], {"calls": [READ], "question": "which?"}])
    waits.fractal.tell(waits.result.run, "answer", text="the first")
    first, _ = go([[WRITE]], waits.result.run)
    edit(first, r"(### answer[^\n]*\n\n(?:~~~text\n|> ))the first", r"\1the second")
    again, asks = go([], first.result.run)
    assert asks[0].step == 3
    assert "the second" in prompt_text(asks[0]) and "the first" not in prompt_text(asks[0])
    assert started(again) == [] and (work / "log.txt").read_text() == "one\n"


def test_guidance_that_is_written_into_an_ended_run_follows_its_last_turn(go: Callable[..., Resumed]) -> None:
    first, before = go([[READ], DONE])
    edit(first, r"(## §2 PLAN)", r"### guidance\n\n> say more\n\n\1")
    again, asks = go([{"done": "more"}, {"done": "more"}], first.result.run)
    assert asks[0].step == before[-1].step + 1
    assert asks[0].messages[-1]["content"] == "The user says: say more"
    assert again.result.output == "more" and started(again) == []


def test_changed_criteria_hold_the_last_answer_back(go: Callable[..., Resumed]) -> None:
    first, _ = go([[WRITE], {"calls": [{"tool": "done", "args": {"answer": "x", "checks": ["true"]}}]}, DONE])
    edit(first, r'(### success criteria.*?\{"run": )"true"', r'\1"false"')
    again, asks = go([], first.result.run)
    assert "check failed: false" in prompt_text(asks[0])
    assert started(again) == [] and again.result.status == "escalated"


def test_instructions_of_a_phase_that_is_gone_make_nothing_stale(go: Callable[..., Resumed]) -> None:
    first, _ = go([[READ], DONE])
    edit(first, r'"instructions": "turn:', '"instructions": "fused:')
    again, asks = go([], first.result.run)
    assert asks == [] and not [each for each in again.events if each.kind == "stale"]


def test_changed_instructions_of_the_turn_are_applied_only_with_redo(
    go: Callable[..., Resumed], play: Play
) -> None:
    first, _ = go([[READ], DONE])
    phases = first.fractal.workspace.root / "system" / "phases"
    phases.mkdir(parents=True)
    (phases / "turn.md").write_text("# TURN\nTwice.\n")
    again, asks = go([], first.result.run)
    assert asks == [] and any("--redo" in str(e.data) for e in again.events if e.kind == "stale")
    model, asks = turns([READ])
    play([model], resume=first.result.run, redo=True, settings={"check": "auto"})
    assert asks and "Twice." in prompt_text(asks[0])
