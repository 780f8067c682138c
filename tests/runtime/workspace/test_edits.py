"""Resuming after a person edited documents: what depends on an edit is redone, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import in_process
from playing import ACCEPT, Played, bash, plan, read
from test_budget_never_exceeded import Calls, assert_ledger

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from runtime.api.fractal import Fractal
from runtime.workspace import trust

Answers = Callable[[Ask], Any]

READ_A = r'planned read `\{"path": "a.txt"\}`'
READ_B, READ_C = (f'planned read `{{"path": "{name}.txt"}}`' for name in "bc")
RESULT_A = r"(1\. done read.*?result · tool:read\n\s+~~~text\n\s+)a\n"
ASKED = {
    "question": "which file?",
    "task": "t",
    "approach": "",
    "confidence": "low",
    "steps": [],
    "success": [],
}


class Model:
    """Replies with a plan and records its asks."""

    def __init__(self, *steps: Any, **more: Any) -> None:
        self.plan = plan(*steps, **more)
        self.asks: list[Ask] = []

    def __call__(self, ask: Ask) -> Any:
        self.asks.append(ask)
        if ask.phase == "check":
            return {
                **ACCEPT,
                "output": "\n".join(f"{{{{ steps[{n}].result }}}}" for n in ask.document.planned),
            }
        return self.plan

    @property
    def phases(self) -> list[str]:
        return [ask.phase for ask in self.asks]


def edit(played: Played, old: str, new: str, loop: str = "", count: int = 0) -> None:
    """Replace text in the document of the root, or of `loop`, as an editor does."""
    replace_in(played.folder / f"{loop or played.result.id}.md", old, new, count)


def replace_in(path: Path, old: str, new: str, count: int = 0) -> None:
    text = path.read_text("utf-8")
    changed = re.sub(old, new, text, count=count, flags=re.S)
    assert changed != text, f"nothing in {path} matches {old}"
    path.write_text(changed, "utf-8")


def edited(play: Any, model: Answers, old: str, new: str, *, count: int = 0, **options: Any) -> Played:
    """Play a run, edit its root document, and resume it."""
    first = play(model)
    edit(first, old, new, count=count)
    return play(model, resume=first.result.run, **options)


def stale_messages(played: Played) -> list[str]:
    """The messages about what an edit made stale."""
    return [str(event.data["message"]) for event in played.events if event.kind == "stale"]


def started(played: Played) -> list[int]:
    return [int(event.data["step"]) for event in played.events if event.kind == "step_started"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(f"{name}\n", "utf-8")
    return folder


def test_unchanged_run_redoes_nothing(play, work):
    model = Model(read("a.txt"), read("b.txt"))
    first = play(model)
    again = play(model, resume=first.result.run)
    assert again.result.output == first.result.output
    assert stale_messages(again) == started(again) == []
    assert model.phases == ["plan", "check"]


def test_changed_argument_redoes_its_step_dependents_and_check(play, work):
    model = Model(read("a.txt", needs=[]), read("b.txt", needs=[]), read("c.txt", needs=[1]))
    again = edited(play, model, READ_A, READ_B)
    assert again.result.output == "b\n\nb\n\nc\n"
    assert started(again) == [1, 3], "step 2 does not need step 1"
    assert model.phases == ["plan", "check", "check"], "the plan is not requested again"
    assert any("step 1: its arguments were changed" in each for each in stale_messages(again))


def test_dependents_of_an_equal_result_are_kept(play, work):
    (work / "b.txt").write_text("a\n")
    model = Model(read("a.txt", needs=[]), read("c.txt", needs=[1]))
    again = edited(play, model, READ_A, READ_B)
    assert started(again) == [1]
    assert again.root.steps[2].state == "done"


def test_changed_result_reaches_its_references(play, work):
    model = Model(
        read("a.txt"), {"tool": "write", "args": {"path": "d.txt", "content": "{{ steps[1].result }}!"}}
    )
    first = play(model)
    assert (work / "d.txt").read_text() == "a\n!"
    edit(first, RESULT_A, r"\1mended\n")
    again = play(model, resume=first.result.run)
    assert (work / "d.txt").read_text() == "mended\n!"
    assert started(again) == [2]
    assert model.phases == ["plan", "check", "check"]


def test_changed_result_of_the_last_step_is_checked_again(play, work):
    model = Model(read("a.txt"))
    again = edited(play, model, RESULT_A, r"\1mended\n")
    assert started(again) == []
    assert model.phases == ["plan", "check", "check"]
    assert again.result.output == "mended\n"


def test_changed_task_is_replanned_and_equal_calls_keep_their_results(play, work):
    model = Model(bash("echo one >> once.txt; echo one", needs=[]), read("a.txt", needs=[]))
    first = play(model, "do the work")
    model.plan = plan(bash("echo one >> once.txt; echo one", needs=[]), read("b.txt", needs=[]))
    edit(first, "> do the work\n", "> do the other work\n", count=1)
    again = play(model, resume=first.result.run)
    assert model.phases == ["plan", "check", "plan", "check"]
    assert again.root.task == "do the other work"
    assert (work / "once.txt").read_text() == "one\n", "the same command keeps its result"
    assert started(again) == [4]
    assert again.root.steps[3].evidence["same as"] == 1
    assert any("UNDERSTAND" in each and "task was changed" in each for each in stale_messages(again))
    assert again.root.section(2).folds[0].decision == "edited"


def asking(name: str) -> Answers:
    """A model that asks which file to read, and then reads what it was told, or `name`."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "plan":
            return {"question": "which file?"}
        if ask.phase == "check":
            return {**ACCEPT, "output": str(ask.document.text(3, "result"))}
        turn = 1 + max([0, *(step.evidence["turn"] for step in ask.document.planned.values())])
        told = ask.document.text(1, "answer") or name
        if turn == 1:
            return {"calls": [read(told)]}
        return {"done": ask.document.steps[max(ask.document.planned)].result}

    return answer


def test_changed_answer_is_asked_for_again_from_there(play, work):
    first = play(asking(""))
    assert first.result.waiting == "person"
    first.fractal.tell(first.result.run, "answer", text="a.txt")
    second = play(asking(""), resume=first.result.run)
    assert second.result.output == "a\n"
    edit(second, r"(### answer · person[^\n]*\n\n~~~text\n)a.txt", r"\1b.txt")
    third = play(asking(""), resume=first.result.run)
    assert third.result.output == "b\n"
    assert len(third.asks("turn")) == 2, "the question is not asked again"
    assert any("what was said or found was changed" in each for each in stale_messages(third))


def test_answer_can_be_written_into_the_document(play, work):
    first = play(asking(""))
    edit(first, "## §2 PLAN|\n<!-- rev", r"\n### answer\n\nb.txt\n\g<0>", count=1)
    again = play(asking(""), resume=first.result.run)
    assert again.result.output == "b\n"


def test_changed_command_asks_before_it_is_rerun(play, work):
    model = Model(bash("echo one >> log.txt; echo one"))
    asked = edited(
        play, model, r'(planned bash `\{"command": "echo one >> log.txt; echo) one', r"\1 two", count=1
    )
    assert asked.result.waiting == "person"
    assert "--assume 1=rerun" in asked.result.question
    assert (work / "log.txt").read_text() == "one\n"
    again = play(model, resume=asked.result.run, assume="1=rerun")
    assert again.result.output.strip() == "two"
    assert (work / "log.txt").read_text() == "one\none\n"


def test_changed_command_can_be_assumed_done(play, work):
    model = Model(bash("echo one >> log.txt; echo one"))
    again = edited(
        play,
        model,
        r'planned bash `\{"command": "echo one >> log.txt; echo one"',
        'planned bash `{"command": "echo uno"',
        assume="done",
    )
    assert again.result.output.strip() == "one"
    assert (work / "log.txt").read_text() == "one\n"
    assert play(model, resume=again.result.run).result.exit == 0


def test_command_with_changed_needs_asks_before_it_is_rerun(play, work):
    model = Model({"tool": "write", "args": {"path": "d.txt", "content": "x"}}, bash("wc -c d.txt"))
    asked = edited(
        play,
        model,
        r'planned write `\{"path": "d.txt", "content": "x"\}`',
        'planned write `{"path": "d.txt", "content": "xyz"}`',
    )
    assert (work / "d.txt").read_text() == "xyz"
    assert asked.result.waiting == "person"
    again = play(model, resume=asked.result.run, assume="rerun")
    assert "3 d.txt" in again.result.output


def test_step_reset_to_planned_is_redone_without_asking(play, work):
    model = Model(bash("echo one >> log.txt; echo one"))
    again = edited(play, model, r"- \[x\] 1\. done bash", "- [ ] 1. planned bash")
    assert again.result.exit == 0
    assert (work / "log.txt").read_text() == "one\none\n"


def test_removed_entry_is_redone_when_that_is_harmless(play, work):
    model = Model(read("a.txt"), bash("echo one >> log.txt; echo one"))
    first = play(model)
    (work / "a.txt").write_text("new\n")
    edit(first, r"- \[x\] 1\. done read.*?(?=\n- )", "")
    again = play(model, resume=first.result.run, assume="done")
    assert again.root.steps[1].result == "new\n"
    assert (work / "log.txt").read_text() == "one\n"


def test_removed_entry_of_a_command_is_restored_from_its_document(play, work):
    model = Model(bash("echo one >> log.txt; echo one"))
    again = edited(play, model, r"- \[[ x]\] 1\. (done|running) bash.*?(?=\n(- |## |<!-- ))", "")
    assert again.result.output.strip() == "one"
    assert (work / "log.txt").read_text() == "one\n"


def test_step_added_to_the_plan_is_executed(play, work):
    model = Model(read("a.txt"))
    again = edited(
        play,
        model,
        r"(- \[ \] 1\. planned read[^\n]*\n)",
        '\\1\n- [ ] 2. planned read `{"path": "b.txt"}`\n',
        count=1,
    )
    assert started(again) == [2]
    assert again.result.output == "a\n\nb\n"


def test_step_removed_from_the_plan_is_ignored_by_check(play, work):
    model = Model(read("a.txt"), read("b.txt"))
    again = edited(play, model, r"\n- \[ \] 2\. planned read[^\n]*\n", "\n", count=1)
    assert started(again) == []
    assert again.result.output == "a\n"


def test_fixed_step_releases_skipped_dependents(play, work):
    model = Model(read("nowhere.txt"), read("b.txt", needs=[1]))
    answer = model.__call__

    def give_up(ask: Ask) -> Any:
        if ask.phase == "check" and any(step.state != "done" for step in ask.document.steps.values()):
            return {"validation": "fail", "issues": ["no file"], "decision": "ESCALATE", "output": ""}
        return answer(ask)

    first = play(give_up)
    assert first.result.status == "escalated"
    assert [step.state for step in first.root.steps.values()] == ["failed", "struck"]
    edit(first, r'planned read `\{"path": "nowhere.txt"\}`', 'planned read `{"path": "a.txt"}`')
    again = play(give_up, resume=first.result.run)
    assert again.result.exit == 0, again.result
    assert again.result.output == "a\n\nb\n"


def test_changed_criteria_are_checked_again(play, work):
    model = Model(read("a.txt"), success=[{"step": 1, "has": "^a$"}])
    first = play(model)
    edit(first, r'(### success criteria.*?"has": )"\^a\$"', r'\1"nothing like it"', count=1)
    again = play(
        lambda ask: (
            {"validation": "fail", "issues": ["x"], "decision": "ESCALATE", "output": ""}
            if ask.phase == "check"
            else model(ask)
        ),
        resume=first.result.run,
    )
    assert again.result.status == "escalated"
    assert started(again) == []


def test_changed_instructions_are_reported_and_applied_only_with_redo(play, work):
    model = Model(read("a.txt"))
    first = play(model)
    phases = first.fractal.workspace.root / "system" / "phases"
    phases.mkdir(parents=True)
    (phases / "check.md").write_text("# CHECK\nJudge twice.\n")
    resumed = play(model, resume=first.result.run)
    assert resumed.result.output == "a\n"
    assert model.phases == ["plan", "check"]
    assert any("--redo" in each for each in stale_messages(resumed))
    again = play(model, resume=first.result.run, redo=True)
    assert model.phases == ["plan", "check", "check"]
    assert started(again) == []
    assert stale_messages(play(model, resume=first.result.run)) == []


@pytest.mark.parametrize("more", ["", " " + "#" * 5000])
def test_corrected_call_without_an_entry_does_not_take_over_the_old_outcome(play, work, more):
    model = Model(bash(f"echo one; exit 3{more}"), success=[{"step": 1, "has": "uno"}])
    first = play(model)
    assert first.root.steps[1].state == "failed"
    edit(first, r"- \[ \] 1\. failed bash.*?(?=\n(- |## |<!-- ))", "")
    edit(first, r"planned bash .*?(?=\n\n## )", 'planned bash `{"command": "echo uno"}`\n')
    again = play(model, resume=first.result.run)
    assert again.root.steps[1].state == "done"
    assert again.root.steps[1].result == "uno"


def test_redone_edit_is_undone_first(play, work):
    change = {"path": "a.txt", "old": "a", "new": "ab"}
    model = Model({"tool": "edit", "args": change}, read("a.txt"))
    first = play(model)
    assert first.result.output.endswith("ab\n")
    edit(first, r'"new": "ab"', '"new": "ac"', count=1)
    again = play(model, resume=first.result.run)
    assert (work / "a.txt").read_text() == "ac\n"
    assert again.result.output.endswith("ac\n")
    assert again.fractal.undo(first.result.run) == ["a.txt: put back"]
    assert (work / "a.txt").read_text() == "a\n"


def test_overwritten_edit_asks_before_it_is_redone(play, work):
    model = Model({"tool": "edit", "args": {"path": "a.txt", "old": "a", "new": "ab"}})
    first = play(model)
    (work / "a.txt").write_text("mine\n")
    edit(first, r'"new": "ab"', '"new": "ac"', count=1)
    asked = play(model, resume=first.result.run)
    assert asked.result.waiting == "person"
    assert (work / "a.txt").read_text() == "mine\n"


class Family(Model):
    """A root with two children, each of which reads a file."""

    def __init__(self) -> None:
        super().__init__({"subtask": "read a.txt", "needs": []}, {"subtask": "read b.txt", "needs": []})

    def __call__(self, ask: Ask) -> Any:
        if ask.document.meta.parent and ask.phase == "plan":
            self.asks.append(ask)
            return plan(read(ask.document.text(1, "task").split()[-1]))
        return super().__call__(ask)


def test_changed_subtask_is_redone_by_a_new_child(play, work):
    model = Family()
    first = play(model)
    assert first.result.output == "a\n\nb\n"
    edit(first, r"(1\. planned subtask\n  - what:\n    > read) a.txt", r"\1 c.txt")
    asks = len(model.asks)
    again = play(model, resume=first.result.run)
    assert again.result.output == "c\n\nb\n"
    assert [ask.loop.rpartition("-")[2] for ask in model.asks[asks:]] == ["1", "1", first.result.run]
    aside = sorted(each.name for each in (first.folder / "artifacts").glob("*.earlier-*"))
    assert len(aside) == 2, "the first child and its operation are kept"
    assert again.root.meta.spent["calls"] == len(model.asks), "the cost of the first child stays"


def test_edit_in_a_child_continues_its_parent(play, work):
    model = Family()
    first = play(model)
    child = f"tool-task-{first.result.run}-2"
    edit(first, r'planned read `\{"path": "b.txt"\}`', READ_C, loop=child)
    again = play(model, resume=first.result.run)
    assert again.result.output == "a\n\nc\n"
    assert model.phases.count("plan") == 3, "no plan is requested again"
    assert again.root.meta.spent["calls"] == len(model.asks)
    assert again.documents[child].meta.spent["calls"] == 3


def test_abandoned_plan_cancels_its_open_children(play, work):
    model = Family()
    answer = model.__call__

    def stop(ask: Ask) -> Any:
        if ask.document.meta.parent and ask.phase == "check":
            raise KeyboardInterrupt
        return answer(ask)

    with pytest.raises(KeyboardInterrupt):
        play(stop)
    folder = next((work / ".fractal" / "state" / "runs").iterdir())
    root = folder / f"system-{folder.name}.md"
    root.write_text(root.read_text().replace("> do the work\n", "> do the other work\n", 1))
    model.plan = plan(read("c.txt"))
    again = play(model, resume=folder.name)
    assert again.result.output == "c\n"
    states = {each.meta.status for each in again.documents.values() if each.meta.level == "tool"}
    assert states == {"cancelled"}
    assert again.root.meta.spent["calls"] >= len([ask for ask in model.asks if ask.phase != "check"])


def test_exhausted_run_continues_with_a_larger_limit(play, work):
    model = Model(*({"tool": "read", "what": f"read {name}.txt"} for name in "abc"))
    answer = model.__call__

    def asked(ask: Ask) -> Any:
        if ask.part == "do":
            model.asks.append(ask)
            return {"tool": "read", "args": {"path": "abc"[ask.step - 1] + ".txt"}}
        if ask.phase == "check" and any(step.state != "done" for step in ask.document.steps.values()):
            return {"validation": "fail", "issues": ["not all"], "decision": "ESCALATE", "output": ""}
        return answer(ask)

    first = play(asked, settings={"calls": 3})
    assert first.result.status == "exhausted"
    assert play(asked, settings={"calls": 3}, resume=first.result.run).result.status == "exhausted"
    again = play(asked, settings={"calls": 10}, resume=first.result.run)
    assert again.result.exit == 0, again.result
    assert again.result.output == "a\n\nb\n\nc\n"
    assert [ask.step for ask in model.asks if ask.part == "do"] == [1, 2, 3]


def test_assume_applies_to_the_named_step(play, work):
    commands = [bash(f"echo {name} >> {name}.log; echo {name}", needs=[]) for name in ("x", "y")]
    model = Model(*commands)
    first = play(model)
    for name in ("x", "y"):
        edit(
            first,
            f'planned bash `{{"command": "echo {name} >> {name}.log; echo {name}"',
            f'planned bash `{{"command": "echo {name} >> {name}.log; echo {name}{name}"',
        )
    again = play(model, resume=first.result.run, assume=["1=rerun", "2=done"])
    assert again.result.exit == 0
    assert (work / "x.log").read_text() == "x\nx\n"
    assert (work / "y.log").read_text() == "y\n"
    assert play(model, resume=first.result.run).result.exit == 0


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


def edit_file(work: Path, run: str, old: str, new: str) -> None:
    replace_in(work / ".fractal" / "state" / "runs" / run / f"system-{run}.md", old, new)


def resume(play: Any, answers: Answers, run: str, **options: Any) -> Played:
    """Resume to the end. Every call is charged, and a second resume does nothing."""
    played: Played = play(answers, resume=run, **options)
    assert_ledger(played.folder)
    if played.result.waiting:
        return played
    spent = Calls.of(played.folder).spent.values()
    assert played.root.meta.spent["calls"] == sum(each.calls for each in spent)
    again = play(answers, resume=run)
    assert stale_messages(again) == [] and started(again) == [] and again.asks() == []
    assert again.result.status == played.result.status
    return played


# ---- invalid edits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    ['nosuch `{"path": "a.txt"}`', 'read `{"nosuch": 1}`', 'read `{"path": 5}`', f"{READ_C[8:]} · needs 9"],
)
def test_invalid_edited_call_fails_once(play, work, call):
    model = strict(Model(read("a.txt", needs=[]), read("b.txt", needs=[1])))
    first = play(model)
    edit(first, READ_A, f"planned {call}", count=1)
    again = resume(play, model, first.result.run)
    assert again.result.status == "escalated"
    assert again.root.steps[1].tool == call.split()[0], "the entry names the failed call"
    assert [step.state for step in again.root.steps.values()][1] == "struck"
    edit(again, re.escape(f"planned {call}"), READ_C, count=1)
    assert resume(play, model, first.result.run).result.output == "c\n\nb\n"


def test_dependency_cycle_is_skipped(play, work):
    model = strict(Model(read("a.txt", needs=[]), read("b.txt", needs=[1])))
    first = play(model)
    edit(first, READ_A, f"{READ_C} · needs 2", count=1)
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
        return {"tool": "read", "args": {"path": "b.txt"}} if ask.part == "do" else model(ask)

    (work / "a.txt").write_text("a")
    run = interrupted(play, work, stopping(answer, "do"))
    edit_file(work, run, READ_A, READ_C)
    (work / "c.txt").write_text("b")
    again = resume(play, answer, run)
    assert any("step 1: its arguments were changed" in each for each in stale_messages(again))
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
    assert stale_messages(play(model, resume=run, settings=settings)) == []


def test_criterion_of_a_person_is_tried_before_the_first_step(play, work):
    model = Model({"tool": "write", "args": {"path": "d.txt", "content": "x"}})
    first = play(model, plan_only=True)
    edit(first, r'\{"judge": "it is done"\}', '{"run": "test -f d.txt"}', count=1)
    first.fractal.tell(first.result.run, "approve")
    again = play(model, resume=first.result.run)
    assert '- pass {"run": "test -f d.txt"} (before: FAIL)' in again.root.text(4, "evidence")


def test_open_child_with_a_changed_task_is_replaced(play, work):
    model = Family()
    run = interrupted(
        play,
        work,
        lambda ask: stopping(model, "check", "-2")(ask) if ask.document.meta.parent else model(ask),
    )
    edit_file(work, run, r"(2\. planned subtask\n  - what:\n    > read) b.txt", r"\1 c.txt")
    again = resume(play, model, run)
    assert any("step 2: what it is to do was changed" in each for each in stale_messages(again))
    assert again.result.output == "a\n\nc\n"


# ---- atomic loops, children ------------------------------------------------------------------------------


def test_edits_of_a_loop_at_the_limit_of_depth_are_applied(play, work):
    def answer(ask: Ask) -> Any:
        if not ask.document.planned:
            return {"calls": [read(f"{ask.document.text(1, 'task')[-1]}.txt")]}
        return {"done": ask.document.steps[max(ask.document.planned)].result}

    def go(answers: Answers, **options: Any) -> Played:
        return play(answers, "read a", settings={"max_depth": 0, "check": "auto"}, **options)

    first = go(answer)
    run = first.result.run
    edit(first, RESULT_A, r"\1mended\n")
    assert resume(go, answer, run).result.output == "mended\n"
    edit(first, READ_A, READ_C)
    assert resume(go, answer, run).result.output == "c\n"
    edit(first, "> read a\n", "> read b\n", count=1)
    assert resume(go, answer, run).result.output == "b\n"


def test_edit_in_a_child_leaves_budget_for_a_redone_step(play, work):
    model = Family()
    first = play(model)
    run = first.result.run
    edit(first, r'planned read `\{"path": "b.txt"\}`', READ_C, loop=f"tool-task-{run}-2")
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


# ---- no edit is ignored ----------------------------------------------------------------------------------


def warnings(played: Played) -> str:
    return "\n".join(str(event.data["message"]) for event in played.events if event.kind == "warning")


TASK = r"(### task · person\n\n> )do the work\n"


def test_plan_edited_with_the_task_is_used_for_the_new_task(play, work):
    model = Model(read("a.txt"), success=[{"step": 1, "has": "^[ab]$"}])
    first = play(model)
    edit(first, TASK, r"\1read the other file\n")
    edit(first, READ_A, READ_B)
    again = resume(play, model, first.result.run)
    assert again.result.output == "b\n"
    assert model.phases == ["plan", "check", "check"], "no plan is asked for"
    assert again.root.task == "read the other file"
    assert any("the plan was changed by hand" in each for each in stale_messages(again))


def test_call_edited_with_an_answer_is_used(play, work):
    first = play(asking(""))
    first.fractal.tell(first.result.run, "answer", text="a.txt")
    second = play(asking(""), resume=first.result.run)
    edit(second, r"(### answer · person[^\n]*\n\n~~~text\n)a.txt", r"\1b.txt")
    edit(second, READ_A, READ_C)
    third = resume(play, asking(""), first.result.run)
    assert third.result.output == "c\n"
    assert len(third.asks("turn")) == 1, "only the turn after the call"


def test_plan_that_a_person_writes_is_not_planned_over(play, work):
    model = Model()
    model.plan = ASKED
    first = play(model)
    edit(first, r"## §3 DO", '- [ ] 1. planned read `{"path": "b.txt"}`\n\n\\g<0>', count=1)
    again = resume(play, model, first.result.run)
    assert again.result.output == "b\n"
    assert model.phases == ["plan", "check"]


def test_edited_result_of_a_child_becomes_that_of_its_step(play, work):
    model = Family()
    model.plan["steps"].append(
        {"tool": "write", "args": {"path": "d.txt", "content": "{{ steps[2].result }}"}}
    )
    first = play(model)
    assert (work / "d.txt").read_text() == "b\n"
    edit(first, r"(## §5 OUTPUT.*?\n> )b\n>", r"\1mine", loop=f"tool-task-{first.result.run}-2")
    again = resume(play, model, first.result.run)
    assert (work / "d.txt").read_text() == "mine"
    assert again.root.steps[2].result == "mine"
    assert started(again) == [3]


def test_edited_result_of_a_child_that_goes_on_is_refused_and_kept(play, work):
    model = Family()
    first = play(model)
    child = f"tool-task-{first.result.run}-2"
    edit(first, r"(## §5 OUTPUT.*?\n> )b\n>", r"\1mine", loop=child)
    edit(first, r'planned read `\{"path": "b.txt"\}`', READ_C, loop=child)
    again = resume(play, model, first.result.run)
    assert again.result.output == "a\n\nc\n"
    assert f"{child}.md: the change of 'result' in §5 has no effect" in warnings(again)
    (kept,) = (first.folder / "artifacts").glob(f"{child}.edited-*.txt")
    assert "mine" in kept.read_text()


def told(work: Path, run: str) -> str:
    """What resuming an ended run prints beside its result."""
    ran = in_process(work, ["resume", run, "-m", "reflex"], {**os.environ, "FRACTAL_SANDBOX": "off"})
    assert ran.exit == 0
    return ran.err


def test_edited_result_of_a_child_that_cannot_be_read_is_told(play, work):
    first = play(Family())
    child = f"tool-task-{first.result.run}-2"
    edit(first, r"(## §5 OUTPUT.*?\n> )b\n>", r"\1mine\nand more", loop=child)
    said = " ".join(told(work, first.result.run).split())
    assert re.search(rf"{child}.md:\d+: not understood: 'and more'.*the result of step 2 stays", said)


@pytest.mark.parametrize("instead", ["changed d.txt", "~~~\nunquoted\n~~~\nwrote"])
def test_edited_record_of_an_operation_is_told_to_have_no_effect(play, work, instead):
    first = play(Model({"tool": "write", "args": {"path": "d.txt", "content": "d"}}))
    assert "no effect" not in told(work, first.result.run)
    record = f"op-write-{first.result.run}-1"
    edit(first, "wrote d.txt", instead, loop=record)
    path = first.folder / f"{record}.md"
    os.utime(path, (path.stat().st_mtime + 1,) * 2)  # no person is as fast as a test
    said = " ".join(told(work, first.result.run).split())
    assert f"the change of {record}.md has no effect" in said
    assert f"change step 1 in §3 of {first.result.id}.md" in said


def test_edited_result_of_an_ended_run_stays(play, work):
    first = play(Model(read("a.txt")))
    edit(first, r"(## §5 OUTPUT.*?\n> )a\n>", r"\1mine")
    again = play(Model(), resume=first.result.run)
    assert again.result.output == "mine"
    assert warnings(again) == ""


def test_both_entries_of_a_call_may_be_changed_at_once(play, work):
    model = Model(read("a.txt"))
    first = play(model)
    edit(first, r'(done|planned) read `\{"path": "a.txt"\}`', r'\1 read `{"path": "b.txt"}`')
    again = resume(play, model, first.result.run)
    assert again.result.output == "b\n"
    assert started(again) == [1]


def test_edited_file_of_a_long_argument_is_taken_up(play, work):
    model = Model({"tool": "write", "args": {"path": "d.txt", "content": "long\n" * 2000}})
    first = play(model)
    (file,) = (first.folder / "artifacts" / "args").iterdir()
    file.write_text("short\n")
    again = resume(play, model, first.result.run)
    assert any("step 1: its arguments were changed" in each for each in stale_messages(again))
    assert (work / "d.txt").read_text() == "short\n"


def test_step_added_to_a_run_that_never_reached_check_is_executed(play, work):
    model = Model({"subtask": "read a.txt"}, {"subtask": "read b.txt"})
    first = play(model, settings={"calls": 1})
    assert first.result.status == "exhausted"
    assert first.root.text(4, "evidence") == ""
    edit(first, r"(## §3 DO)", '- [ ] 9. planned read `{"path": "c.txt"}`\n\n\\1', count=1)
    again = play(model, resume=first.result.run, settings={"calls": 1})
    assert 9 in started(again)


def test_raised_budget_in_a_document_lets_its_run_go_on(play, work):
    model = Model(read("a.txt"))
    first = play(model, settings={"calls": 1})
    assert first.result.status == "exhausted"
    edit(first, r'(budget: \{"calls": )1', r"\g<1>5")
    assert play(model, settings={"calls": 1}, resume=first.result.run).result.output == "a\n"


def test_edited_context_that_the_run_found_is_understood_again(play, work):
    (work / "AGENTS.md").write_text("Use tabs.\n")
    trust.accept(Fractal(work).untrusted())
    model = Model(read("a.txt"))
    first = play(model)
    edit(
        first,
        r"(from `instructions AGENTS.md`\n\n~~~text\n)Use tabs",
        r"\1Use spaces",
        count=1,
    )
    again = play(model, resume=first.result.run)
    assert any("the context was changed" in each for each in stale_messages(again))
    assert "Use spaces." in prompt_text(model.asks[-2]) and "Use tabs." not in prompt_text(model.asks[-2])


UNREAD = {
    "§1": (r"## §2 PLAN", "### hint\n\nlook twice\n\n\\g<0>"),
    "§2": (r"> as scripted", "> another way"),
    "call of step 1 in §3": (r'done read `\{"path": "a.txt"\}`', 'done read `{"path": "b.txt"}`'),
    "§4": (r"(### decision[^\n]*\n\n> )ACCEPT", r"\1RETRY"),
    "'spent' in META": (r'(spent: \{"calls": )2', r"\g<1>0"),
}


@pytest.mark.parametrize("place", UNREAD)
def test_edit_without_an_effect_is_refused_in_words_and_kept(play, work, place):
    model = Model(read("a.txt"))
    first = play(model)
    edit(first, *UNREAD[place], count=1)
    added = UNREAD[place][1].split("\n")[0].removeprefix("\\1").removeprefix("\\g<1>")
    again = play(model, resume=first.result.run)
    assert again.asks() == started(again) == []
    assert place in warnings(again)
    assert f"{first.result.id}.md: the change of" in warnings(again)
    (kept,) = (first.folder / "artifacts").glob("*.edited-*.txt")
    assert added in kept.read_text()
    assert warnings(play(model, resume=first.result.run)) == "", "it is told once"
