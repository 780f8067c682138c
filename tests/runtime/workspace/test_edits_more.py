"""Edits that are made in the middle of a run, badly, twice, or below: each is heeded, and paid for, once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import Played, plan
from test_budget_never_exceeded import Calls, assert_ledger
from test_edits import Family, Model, edit, read, started, told, work

from kernel.asking.responder import Ask

__all__ = ["work"]

Answers = Callable[[Ask], Any]


def strict(model: Model) -> Answers:
    """A model that accepts only if every step is done."""

    def answer(ask: Ask) -> Any:
        document = ask.document
        steps = [document.steps.get(n, step) for n, step in document.planned.items()]
        if ask.phase == "check" and any(step.state not in ("done", "skipped") for step in steps):
            return {"validation": "fail", "issues": ["not all"], "decision": "ESCALATE", "output": ""}
        return model(ask)

    return answer


def stopping(model: Answers, phase: str, loop: str = "") -> Answers:
    """A model that interrupts the process in a phase."""

    def answer(ask: Ask) -> Any:
        if ask.phase == phase and ask.loop.endswith(loop):
            raise KeyboardInterrupt
        return model(ask)

    return answer


def interrupted(play: Any, work: Path, answers: Answers) -> str:
    """The id of a run that was interrupted."""
    with pytest.raises(KeyboardInterrupt):
        play(answers)
    return next((work / ".fractal" / "state" / "runs").iterdir()).name


def edit_file(work: Path, run: str, old: str, new: str, loop: str = "") -> None:
    path = work / ".fractal" / "state" / "runs" / run / f"{loop or f'system-{run}'}.md"
    text = path.read_text("utf-8")
    changed = re.sub(old, new, text, flags=re.S)
    assert changed != text, f"nothing in {path} matches {old}"
    path.write_text(changed, "utf-8")


def resume(play: Any, answers: Answers, run: str, **options: Any) -> Played:
    """Resume to the end. Every call is charged, and a second resume does nothing."""
    got: Played = play(answers, resume=run, **options)
    assert_ledger(got.folder)
    if got.result.waiting:
        return got
    spent = Calls.of(got.folder).spent.values()
    assert got.root.meta.spent["calls"] == sum(each.calls for each in spent)
    again = play(answers, resume=run)
    assert told(again) == [] and started(again) == [] and again.asks() == []
    assert again.result.status == got.result.status
    return got


A, C = r'planned read `\{"path": "a.txt"\}`', 'planned read `{"path": "c.txt"}`'


# ---- invalid edits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    ['nosuch `{"path": "a.txt"}`', 'read `{"nosuch": 1}`', 'read `{"path": 5}`', f"{C[8:]} · needs 9"],
)
def test_invalid_edited_call_fails_once(play, work, call):
    model = strict(Model(read("a.txt", needs=[]), read("b.txt", needs=[1])))
    first = play(model)
    edit(first, A, f"planned {call}", count=1)
    again = resume(play, model, first.result.run)
    assert again.result.status == "escalated"
    assert again.root.steps[1].tool == call.split()[0], "the entry names the failed call"
    assert [step.state for step in again.root.steps.values()][1] == "struck"
    edit(again, re.escape(f"planned {call}"), C, count=1)
    assert resume(play, model, first.result.run).result.output == "c\n\nb\n"


def test_dependency_cycle_is_skipped(play, work):
    model = strict(Model(read("a.txt", needs=[]), read("b.txt", needs=[1])))
    first = play(model)
    edit(first, A, f"{C} · needs 2", count=1)
    edit(first, r"- \[x\] (\d)\. done read", r"- [ ] \1. planned read")
    again = resume(play, model, first.result.run)
    assert [step.state for step in again.root.steps.values()] == ["struck", "struck"]


def test_step_with_a_repaired_reference_is_executed(play, work):
    change = {"path": "{{ steps[1].result.name }}", "old": "b", "new": "bb"}
    model = strict(Model(read("a.txt"), {"tool": "edit", "args": change}))
    first = play(model)
    assert first.root.steps[2].state == "failed"
    edit(first, r"(1\. done read.*?result · tool:read\n\s+~~~text\n(\s+))a\n", r'\1{"name": "b.txt"}\n')
    again = resume(play, model, first.result.run)
    assert again.result.exit == 0, "no question: the edit never started"
    assert (work / "b.txt").read_text() == "bb\n"


@pytest.mark.parametrize("state", ["done", "skipped"])
def test_skipped_step_continues_when_its_need_is_marked_done(play, work, state):
    model = strict(Model(read("nowhere.txt", needs=[]), read("b.txt", needs=[1])))
    first = play(model)
    edit(first, r"- \[.\] 1\. failed read", f"- [x] 1. {state} read")
    again = resume(play, model, first.result.run)
    assert started(again) == [2]
    assert again.result.output.endswith("b\n")


def test_step_skipped_by_a_person_stays_skipped(play, work):
    model = Model(read("a.txt", needs=[]), read("b.txt", needs=[]))
    first = play(model)
    edit(first, r"- \[x\] 2\. done read", "- [ ] 2. struck read")
    again = resume(play, model, first.result.run)
    assert started(again) == []
    assert again.root.steps[2].state == "struck"


# ---- edits during a run ---------------------------------------------------------------------------------


def test_edit_during_do_is_applied_on_resume(play, work):
    model = Model(read("a.txt"), read("{{ steps[1].result }}.txt"), {"tool": "read", "what": "b"})

    def answer(ask: Ask) -> Any:
        return {"tool": "read", "args": {"path": "b.txt"}} if ask.phase == "do" else model(ask)

    (work / "a.txt").write_text("a")
    run = interrupted(play, work, stopping(answer, "do"))
    edit_file(work, run, A, C)
    (work / "c.txt").write_text("b")
    again = resume(play, answer, run)
    assert any("step 1: its arguments were changed" in each for each in told(again))
    assert started(again) == [1, 2, 3]
    assert again.result.output == "b\nb\n\nb\n"


def test_call_changed_while_waiting_needs_a_new_approval(play, work):
    model, settings = (
        Model({"tool": "write", "args": {"path": "d.txt", "content": "x"}}),
        {"approve": ["write"]},
    )
    first = play(model, settings=settings)
    run = first.result.run
    edit(first, r'(planned write `\{"path": "d.txt", "content": )"x"', r'\1"y"')
    first.fractal.tell(run, "approve")
    asked = play(model, resume=run, settings=settings)
    assert asked.result.waiting == "approval" and '"y"' in asked.result.question
    assert not (work / "d.txt").exists(), "the approval was for another call"
    first.fractal.tell(run, "approve")
    assert play(model, resume=run, settings=settings).result.exit == 0
    assert (work / "d.txt").read_text() == "y"
    assert told(play(model, resume=run, settings=settings)) == []


def test_open_child_with_a_changed_task_is_replaced(play, work):
    model = Family()
    run = interrupted(
        play,
        work,
        lambda ask: stopping(model, "check", "-2")(ask) if ask.document.meta.parent else model(ask),
    )
    edit_file(work, run, r"(2\. planned subtask\n  - what:\n    > read) b.txt", r"\1 c.txt")
    again = resume(play, model, run)
    assert any("step 2: what it is to do was changed" in each for each in told(again))
    assert again.result.output == "a\n\nc\n"


# ---- atomic loops, children ------------------------------------------------------------------------------


def test_edits_of_an_atomic_loop_are_applied(play, work):
    def answer(ask: Ask) -> Any:
        return {"tool": "read", "args": {"path": f"{ask.document.text(1, 'task')[-1]}.txt"}}

    def go(answers: Answers, **options: Any) -> Played:
        return play(answers, settings={"max_depth": 0}, **options)

    first = play(answer, "read a", settings={"max_depth": 0})
    run = first.result.run
    edit(first, r"(1\. done read.*?result · tool:read\n\s+~~~text\n\s+)a\n", r"\1mended\n")
    assert resume(go, answer, run).result.output == "mended\n"
    edit(first, A, C)
    assert resume(go, answer, run).result.output == "c\n"
    edit(first, "> read a\n", "> read b\n", count=1)
    assert resume(go, answer, run).result.output == "b\n"


def test_edit_in_a_child_leaves_budget_for_a_redone_step(play, work):
    model = Family()
    first = play(model)
    run = first.result.run
    edit(first, r'planned read `\{"path": "b.txt"\}`', C, loop=f"tool-task-{run}-2")
    edit(first, r"(1\. planned subtask\n  - what:\n    > read) a.txt", r"\1 c.txt")
    assert resume(play, strict(model), run).result.output == "c\n\nc\n"


def test_edits_in_all_children_leave_budget_for_each(play, work):
    model = Family()
    model.plan = plan(*({"subtask": f"read {name}.txt", "needs": []} for name in "abc"))
    (work / "d.txt").write_text("d\n")
    first = play(model, settings={"calls": 14})
    run = first.result.run
    for n, name in enumerate("abc", 1):
        new = 'planned read `{"path": "d.txt"}`'
        edit(first, f'planned read `\\{{"path": "{name}.txt"\\}}`', new, loop=f"tool-task-{run}-{n}")
    again = resume(lambda each, **more: play(each, settings={"calls": 14}, **more), strict(model), run)
    assert again.result.output == "d\n\nd\n\nd\n"


# ---- missing files ---------------------------------------------------------------------------------------


def test_edit_without_a_snapshot_asks_before_it_is_redone(play, work):
    model = Model({"tool": "edit", "args": {"path": "b.txt", "old": "b", "new": "bb"}})
    first = play(model)
    shutil.rmtree(work / ".fractal" / "state" / "snapshots")
    edit(first, '"new": "bb"', '"new": "bc"', count=1)
    assert resume(play, model, first.result.run).result.waiting == "person"
    assert (work / "b.txt").read_text() == "bb\n"


def test_changed_subtask_with_a_broken_document_asks_and_is_redone(play, work):
    model = Family()
    first = play(model)
    run = first.result.run
    (first.folder / f"tool-task-{run}-1.md").write_text("not a document")
    edit(first, r"(1\. planned subtask\n  - what:\n    > read) a.txt", r"\1 c.txt")
    assert play(model, resume=run).result.waiting == "person"
    assert resume(play, model, run, assume="1=rerun").result.output == "c\n\nb\n"
