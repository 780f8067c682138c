"""What a person says to a run while it works: on disk first, then in the next plan or turn, exactly once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crashing import crashes
from lanes import NIGHT, every
from playing import ACCEPT, Play, Played, plan, player, read, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit, UsageError
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted
from runtime.workspace.inbox import unheard

HOLDS = {"file": "b.txt", "has": "two"}
WORK = {"tool": "work", "what": "write b.txt"}
AUTO = {"check": "auto"}
DONE = {"done": "b.txt holds two"}
LATER = "also write c.txt"
RUNS = ".fractal/state/runs"


def turn(*calls: Any) -> dict[str, Any]:
    return {"calls": list(calls)}


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., object]:
    """Says something to a run, as another process does."""
    return lambda ask, text=LATER: Fractal(tmp_path / "work").tell(ask.run, "say", text=text)


def guidance(played: Played) -> list[tuple[str, str, str]]:
    notes = played.root.section(1).notes
    return [(note.text, note.origin, note.source) for note in notes if note.key == "guidance"]


def phases(played: Played) -> list[str]:
    return [event.data["phase"] for event in played.asks()]


def test_the_next_turn_sees_what_was_said_during_the_last_one(play: Play, say: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if not ask.document.steps:
            assert LATER not in prompt_text(ask)
            say(ask)
            return turn(write("b.txt", "two"))
        assert f"The user says: {LATER}" in prompt_text(ask)
        return DONE if len(ask.document.steps) > 1 else turn(write("c.txt", "three"))

    played = play(answer, settings=AUTO)
    assert phases(played) == ["turn"] * 4
    ((text, origin, source),) = guidance(played)
    assert (text, origin) == (LATER, "person")
    assert re.fullmatch(r"program, \d{4}-\d\d-\d\dT[\d:.]+Z", source), "the document says when"
    assert not list((played.folder / "inbox").iterdir())
    heard = [event.data for event in played.events if event.kind == "said"]
    assert heard == [{"text": LATER, "source": source}]


def test_a_turn_that_is_done_is_followed_by_another_if_something_was_said_meanwhile(
    play: Play, say: Any
) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if not ask.document.steps:
            return turn(write("b.txt", "two"))
        if LATER in prompt_text(ask):
            return DONE if len(ask.document.steps) > 1 else turn(write("c.txt", "three"))
        say(ask)
        return {"done": "too early"}

    played = play(answer, settings=AUTO)
    assert played.result.output == "b.txt holds two"
    assert played.root.steps[2].args == {"path": "c.txt", "content": "three"}


def test_an_answer_beside_calls_waits_for_what_was_said_meanwhile(play: Play, say: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if LATER in prompt_text(ask):
            return DONE
        say(ask)
        return {**turn(write("b.txt", "two")), "done": "too early"}

    assert play(answer, settings=AUTO).result.output == "b.txt holds two"


def test_a_plan_goes_on_turn_by_turn_if_something_was_said_meanwhile(play: Play, say: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            say(ask)
            return plan(write("b.txt", "two"), success=[HOLDS])
        assert LATER in prompt_text(ask)
        assert "this did not hold" not in prompt_text(ask)
        return {**turn(write("c.txt", "three")), **DONE}

    played = play(answer, settings=AUTO)
    assert phases(played) == ["turn", "turn"]
    assert (played.result.exit, list(played.root.steps)) == (Exit.ACCEPTED, [1, 2])


def test_the_next_plan_sees_it(play: Play, say: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            if ask.attempt > 1:
                return ACCEPT
            say(ask)
            no = {"validation": "fail", "issues": ["no"], "learned": "it is too short"}
            return {**no, "decision": "RETRY", "output": ""}
        assert (LATER in prompt_text(ask)) is (ask.attempt > 1)
        return plan(write("b.txt", "two"))

    played = play(answer)
    assert played.result.exit == Exit.ACCEPTED
    assert played.root.meta.attempt == 2
    assert len(guidance(played)) == 1


def test_a_child_at_work_sees_it_and_so_does_the_root(play: Play, say: Any) -> None:
    seen: list[tuple[int, bool]] = []

    def answer(ask: Ask) -> Any:
        depth = ask.document.meta.depth
        seen.append((depth, LATER in prompt_text(ask)))
        if depth:
            if not ask.document.steps:
                say(ask)
                return turn(write("b.txt", "two"))
            assert "to the whole run" in prompt_text(ask)
            return DONE
        if ask.phase == "work":
            return {**turn(write("c.txt", "three")), **DONE}
        return plan(WORK, read("b.txt"), success=[HOLDS])

    played = play(answer, settings=AUTO)
    assert seen == [(0, False), (1, False), (1, True), (1, True), (0, True)]
    assert len(guidance(played)) == 1


def test_what_was_said_too_late_stays_for_whoever_follows_up(play: Play, say: Any) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            say(ask)
            return ACCEPT
        return plan(write("b.txt", "two"))

    played = play(answer)
    assert played.result.exit == Exit.ACCEPTED
    assert guidance(played) == []
    assert [text for _, text in unheard(played.folder)] == [LATER]
    warnings = [str(event.data["message"]) for event in played.events if event.kind == "warning"]
    assert any(LATER in text and "ended before" in text for text in warnings)
    with pytest.raises(UsageError, match="has ended"):
        played.fractal.tell(played.result.run, "say", text="again")


def test_an_empty_line_is_refused(play: Play) -> None:
    played = play(lambda ask: {"question": "which?"} | {"task": "x"})
    with pytest.raises(UsageError, match="nothing to say"):
        played.fractal.tell(played.result.run, "say", text="  ")


def test_what_is_said_to_a_waiting_run_reaches_its_next_turn(play: Play) -> None:
    asks = play(lambda ask: {"task": "x", "question": "which file?"})
    run = asks.result.run
    asks.fractal.tell(run, "say", text=LATER)
    assert play(lambda ask: None, resume=run).result.exit == Exit.WAITING, "it is no answer"
    asks.fractal.tell(run, "answer", text="b.txt")

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.document.steps:
            return DONE
        assert ask.messages[-1]["content"].splitlines() == ["b.txt", LATER], "the result of its question"
        return turn(write("b.txt", "two"))

    assert play(answer, resume=run).result.exit == Exit.ACCEPTED


def test_a_plan_is_not_stale_because_something_was_said_after_it(play: Play, say: Any) -> None:
    def dies(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if not ask.document.steps:
            say(ask)
            return turn(write("b.txt", "two"))
        raise asyncio.CancelledError

    first = play(dies, settings=AUTO)
    assert first.root.meta.status == "interrupted"
    again = play(lambda ask: DONE, resume=first.result.run, settings=AUTO)
    assert phases(again) == ["turn"]
    assert not [event for event in again.events if event.kind == "stale"]
    assert len(guidance(again)) == 1


def test_a_message_that_is_no_message_is_set_aside(play: Play, tmp_path: Path) -> None:
    def answer(ask: Ask) -> Any:
        inbox = tmp_path / "work" / RUNS / ask.run / "inbox"
        if ask.phase == "plan":
            inbox.mkdir(exist_ok=True)
            (inbox / "0000-say.json").write_text("[]")
            # written by hand: without a time and a sender
            (inbox / "0001-say.json").write_text(json.dumps({"kind": "say", "text": LATER}))
            return plan(WORK, success=[HOLDS])
        return {**turn(write("b.txt", "two")), **DONE}

    played = play(answer, settings=AUTO)
    assert guidance(played) == [(LATER, "person", "message file")]
    assert [path.name for path in (played.folder / "inbox").iterdir()] == ["0000-say.bad"]


def test_a_line_that_was_written_and_not_yet_removed_is_not_heard_twice(
    play: Play, say: Any, tmp_path: Path
) -> None:
    kept: dict[Path, bytes] = {}

    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if not ask.document.steps:
            say(ask)
            kept.update((path, path.read_bytes()) for path, _ in unheard(tmp_path / "work" / RUNS / ask.run))
            return turn(write("b.txt", "two"))
        raise asyncio.CancelledError

    first = play(answer, settings=AUTO)
    ((path, raw),) = kept.items()
    path.write_bytes(raw)  # as after a crash between the two writes
    again = play(lambda ask: DONE, resume=first.result.run, settings=AUTO)
    assert (phases(again), len(guidance(again))) == (["turn"], 1)
    assert not unheard(again.folder)


def test_a_crash_at_a_write_loses_no_line_and_repeats_nothing(tmp_path: Path) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return plan(WORK, success=[HOLDS])
        if not ask.document.steps:
            work = Path(ask.document.meta.folder)
            if LATER not in prompt_text(ask) and not unheard(work / RUNS / ask.run):
                Fractal(work).tell(ask.run, "say", text=LATER)
            return turn(write("b.txt", "two\n"))
        more = {"path": "c.txt", "content": "three\n", "append": True}
        return DONE if len(ask.document.steps) > 1 else turn({"tool": "write", "args": more})

    at, ended = 25, False
    while not ended:
        work = tmp_path / str(at) / "work"
        work.mkdir(parents=True)
        at += 10 * every(4)
        ended = not crashes(lambda work=work: player(work, memory=NIGHT)(answer, settings=AUTO), at, "after")
        again = player(work, memory=NIGHT)(answer, resume=next((work / RUNS).iterdir()).name, settings=AUTO)
        assert again.result.exit == Exit.ACCEPTED, at
        assert len(guidance(again)) == 1, at
        assert (work / "c.txt").read_text() == "three\n", at
    assert at > 100


def test_a_reflex_takes_nothing_up(tmp_path: Path) -> None:
    class Code(Scripted):
        reads_prompt = False

    work = tmp_path / "work"

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        Fractal(work).tell(ask.run, "say", text=LATER)
        return plan(write("b.txt", "two"))

    work.mkdir()
    fractal = Fractal(work, settings={"sandbox": "off"}, ladder=Ladder((Code(answer),)))
    result = asyncio.run(fractal.run("do the work"))
    assert result.exit == Exit.ACCEPTED
    assert [text for _, text in unheard(result.path.parent)] == [LATER]
