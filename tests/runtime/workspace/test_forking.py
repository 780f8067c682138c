"""A fork: a run copied up to a step, which goes on differently, in its folder or in a worktree."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT
from playing import ACCEPT, Play, Played, bash, doing, plan, put, write

from kernel.asking.responder import Ask, Ladder
from kernel.document.model import Document
from kernel.errors import Exit, UsageError
from kernel.store.files import FileStore
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return put(tmp_path / "work", "a.txt", "one\n").parent


@pytest.fixture
def play(work: Path) -> Play:
    from playing import player

    return player(work, memory=NIGHT)


LONG = "x" * 9_000
STEPS = [write("1.txt", LONG), {"subtask": "write the second"}, bash("echo 3 > 3.txt; seq 9000")]


def three_steps(ask: Ask) -> Any:
    if ask.phase == "check":
        return ACCEPT
    return plan(write("2.txt", "2")) if ask.document.meta.parent else plan(*STEPS)


def resumed(played: Played, run: str, answers: Any = three_steps) -> tuple[Document, list[str]]:
    """The fork's root when it has ended, and the tools that it called."""
    called: list[str] = []
    ladder = Ladder((Scripted(answers, name="other"),))

    def hear(event: Any) -> None:
        if event.kind == "step_started":
            called.append(event.data["tool"])

    folder = played.fractal.workspace.folder
    fractal = Fractal(folder, settings={"sandbox": "off", "check": "always"}, ladder=ladder, on_event=hear)
    result = asyncio.run(fractal.resume(run, yes=True))
    assert result.exit == Exit.ACCEPTED, result.reason
    return fractal.root_document(run), called


def test_fork_has_the_documents_and_artifacts_up_to_its_step(play: Play, work: Path) -> None:
    played = play(three_steps, yes=True)
    old, names = played.result.run, lambda run: sorted(FileStore(played.folder.parent / run).list())
    new = played.fractal.fork(old, 2)
    expected = [name.replace(old, new) for name in names(old) if not name.endswith(f"{old}-3")]
    assert names(new) == expected and len(expected) == len(names(old)) - 1
    copied = played.fractal.root_document(new)
    assert copied.meta.extra["forked_from"] == {"run": old, "step": 2}
    assert list(copied.steps) == [1, 2] and list(copied.planned) == [1, 2, 3]
    assert copied.steps[1].args == {"path": "1.txt", "content": LONG}
    assert copied.steps[2].link == f"tool-task-{new}-2.md"
    artifacts = [path.name for path in (played.folder.parent / new / "artifacts").rglob("*")]
    assert not any(f"{old}-3" in name for name in artifacts) and "args" in artifacts
    assert names(old) == [name.replace(new, old) for name in names(old)], "the original is as it was"


def test_fork_repeats_no_step_and_costs_only_its_own_calls(play: Play, work: Path) -> None:
    played = play(three_steps, yes=True)
    for name in ("1.txt", "2.txt", "3.txt"):
        (work / name).unlink()
    root, called = resumed(played, played.fractal.fork(step=2))
    assert called == ["bash"] and not (work / "1.txt").exists() and (work / "3.txt").exists()
    assert root.steps[3].link == f"op-bash-{root.meta.run}-3.md"
    assert root.meta.spent["calls"] == 1 < played.root.meta.spent["calls"]
    assert [each.path for each in played.fractal.diffs(root.meta.run)] == ["3.txt"]
    assert played.fractal.undo(root.meta.run) == ["3.txt: removed, as it was not there before"]


def test_fork_goes_on_with_an_edited_plan(play: Play, work: Path) -> None:
    played = play(doing(write("1.txt", "1"), write("2.txt", "2")))
    new = played.fractal.fork(step=1)
    path = played.fractal.path(new)
    path.write_text(path.read_text().replace('"2.txt"', '"other.txt"'))
    root, called = resumed(played, new, doing())
    assert called == ["write"] and (work / "other.txt").read_text() == "2"
    assert root.steps[1].state == "done"


def test_fork_of_turns_asks_for_the_next_turn(play: Play, work: Path) -> None:
    left: list[Any] = [
        {"calls": [write("1.txt", "1")], "text": "first the first"},
        {"calls": [write("2.txt", "2")]},
        {"done": "both"},
        {"done": "both"},  # it was held back once, as no check shows it
    ]
    seen: list[Ask] = []

    def answer(ask: Ask) -> Any:
        seen.append(ask)
        return ACCEPT if ask.phase == "check" else left.pop(0)

    played = play(answer)
    assert list(played.root.steps) == [1, 2]
    new = played.fractal.fork(step=1)
    assert list(played.fractal.root_document(new).planned) == [1]
    left += [{"calls": [write("else.txt", "else")]}, *[{"done": "differently"}] * 2]
    root, called = resumed(played, new, answer)
    assert called == ["write"] and root.text(5, "result") and (work / "else.txt").exists()
    second, forked = seen[1], next(ask for ask in seen if ask.run == new)
    assert list(forked.messages) == list(second.messages), "the fork knows what the turn knew"


def test_fork_with_a_worktree_has_the_files_as_they_were_after_its_step(play: Play, work: Path) -> None:
    steps = [write("a.txt", "two\n"), write("b.txt", "b"), write("a.txt", "three\n")]
    played = play(doing(*steps))
    assert (work / "a.txt").read_text() == "three\n"
    new = played.fractal.fork(step=2, worktree=True)
    there = Path(played.fractal.root_document(new).meta.folder)
    assert (there / "a.txt").read_text() == "two\n" and (there / "b.txt").exists()
    before_first = played.fractal.fork(step=0, worktree=True)
    there = Path(played.fractal.root_document(before_first).meta.folder)
    assert (there / "a.txt").read_text() == "one\n" and not (there / "b.txt").exists()
    assert (work / "a.txt").read_text() == "three\n"
    played.fractal.undo(played.result.run)
    played.fractal.discard(before_first)
    assert played.fractal.apply(new) == ["changed a.txt", "new b.txt"], "also what the copied steps did"
    assert (work / "a.txt").read_text() == "two\n"


def test_fork_of_a_run_with_a_worktree_has_its_own(play: Play, work: Path) -> None:
    played = play(doing(write("a.txt", "two\n"), write("b.txt", "b")), worktree=True)
    played.fractal.discard(force=True)
    new = played.fractal.fork(played.result.run, 1)
    root, called = resumed(played, new, doing())
    assert called == ["write"] and root.meta.folder.endswith(new)
    assert played.fractal.apply(new) == ["changed a.txt", "new b.txt"]


def test_fork_refuses_a_step_that_it_cannot_continue_from(play: Play, work: Path) -> None:
    def answer(ask: Ask) -> Any:
        retry = ask.document.meta.attempt > 1
        if ask.phase == "check":
            again = {"validation": "fail", "issues": ["no"], "learned": "again", "output": "x"}
            return ACCEPT if retry else again | {"decision": "RETRY"}
        return plan(write("2.txt" if retry else "1.txt", "x"))

    played = play(answer)
    fractal = played.fractal
    assert list(played.root.steps) == [1, 2]
    for step, why in {9: "has done no step 9", 1: "is of an earlier attempt"}.items():
        with pytest.raises(UsageError, match=why):
            fractal.fork(step=step)
    store = FileStore(played.folder)
    root = store.load(played.result.id)
    store.save(root.with_step(replace(root.steps[2], state="running", result=None)))
    with pytest.raises(UsageError, match=r"step 2 of run .* has not ended"):
        fractal.fork(step=2)
    assert len(fractal.runs()) == 1, "nothing is left of a fork that was refused"


def test_fork_of_a_direct_answer_plans_anew(play: Play, work: Path) -> None:
    played = play(lambda ask: ACCEPT | {"output": "42"} if ask.phase == "check" else {"done": "42"})
    assert played.root.text(5, "result") == "42"
    root, called = resumed(played, played.fractal.fork(), doing(write("made", "x")))
    assert called == ["write"] and root.text(5, "result") == "done"
