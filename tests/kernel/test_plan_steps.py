"""Steps of a plan: numbering, references, repeated calls, and concurrent changes of one file."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, bash, boxed, plan, read, write

from kernel.asking.responder import Ask
from runtime.api.fractal import Fractal, shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.operations.running import RUNNERS, act
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox

RETRY = {"validation": "fail", "decision": "RETRY", "learned": "another way"}


def in_turn(*plans: Any, output: str = "done") -> Callable[[Ask], Any]:
    """A model with a plan for each attempt, which accepts the last."""

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return RETRY if ask.attempt < len(plans) else {**ACCEPT, "output": output}
        return plans[ask.attempt - 1]

    return answer


def refusals(played: Played) -> list[str]:
    return [str(event.data["why"]) for event in played.events if event.kind == "ask_refused"]


# ---- numbers ---------------------------------------------------------------------------------------------


def test_each_plan_numbers_its_steps_from_one(play: Play, tmp_path: Path) -> None:
    first = plan(write("a.txt", "one"), read("a.txt"))
    second = plan(
        write("b.txt", "two"),
        read("b.txt", needs=[1]),
        write("c.txt", "{{ steps[2].result }} {{ earlier[2].result }}", needs=[]),
        bash('printf %s "$RESULT_2 $EARLIER_2" >d.txt', needs=[3]),
        success=[{"step": 2, "has": "two"}, {"run": 'test "$RESULT_2" = two'}, {"judge": "fine"}],
    )
    played = play(in_turn(first, second))
    assert played.root.meta.status == "complete", played.root.text(5, "escalation")
    work = tmp_path / "work"
    assert (work / "c.txt").read_text() == (work / "d.txt").read_text() == "two one"
    assert list(played.root.planned) == [3, 4, 5, 6]
    assert [step.needs for step in played.root.planned.values()] == [(), (3,), (2, 4), (2, 4, 5)]
    assert '{"step": 4, "has": "two"}' in played.root.text(2, "success criteria")
    assert "- pass" in played.root.text(4, "evidence").splitlines()[1]


def test_needs_of_a_retry_refer_to_its_own_plan(play: Play, tmp_path: Path) -> None:
    """A step of the first attempt does not satisfy a need of the second."""
    (tmp_path / "work" / "a.txt").write_text("one")
    edit = {"tool": "edit", "args": {"path": "a.txt", "old": "one", "new": "two"}, "needs": [1]}
    second = plan(read("a.txt"), edit)
    played = play(in_turn(plan(read("a.txt")), second))
    assert played.root.planned[3].needs == (2,)


def test_result_of_an_earlier_attempt_needs_its_own_reference(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return RETRY if ask.attempt == 1 else ACCEPT
        if ask.attempt == 1:
            return plan(write("a.txt", "one"))
        wrong = ("{{ steps[1].result }}", "{{ earlier[2].result }}", "{{ earlier[1].result }}")
        return plan(write("b.txt", wrong[ask.turn]))

    played = play(answer)
    assert played.root.meta.status == "complete"
    first, second = refusals(played)
    assert "{{ earlier[1].result }}" in first
    assert "no result" in second


# ---- references ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{{ steps[1].result ~ steps[1].result }}",
        "{{ steps[1].result" + " | upper" * 250 + " }}",
        "{{ steps[1].result.ljust(9e9) }}",
        "{{ steps[" + "9" * 5000 + "].result }}",
        "{{ steps[2].result }}",
    ],
)
@pytest.mark.parametrize("where", ["args", "what", "subtask", "run"])
def test_plan_with_an_invalid_reference_is_refused(play: Play, text: str, where: str) -> None:
    steps: dict[str, Any] = {
        "args": write("b.txt", text),
        "what": {"tool": "write", "what": text},
        "subtask": {"subtask": text},
        "run": read("a.txt"),
    }
    success = [{"run": f"echo {text}"}] if where == "run" else None

    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if ask.turn:
            return plan(write("a.txt", "one"))
        return plan(write("a.txt", "one"), steps[where], success=success)

    played = play(answer)
    assert played.root.meta.status == "complete"
    assert len(refusals(played)) == 1


def test_result_too_long_for_a_variable_is_a_file(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "long.txt").write_text("x" * 40_000)
    steps = [
        read("long.txt"),
        bash('wc -c <"$RESULT_1_FILE"', needs=[1]),
        bash('echo "$RESULT_1"', needs=[1]),
    ]
    played = play(in_turn(plan(*steps)))
    assert (played.root.steps[2].result or "").strip() == "40000"
    assert '"$RESULT_1_FILE"' in (played.root.steps[3].result or "")
    assert played.root.steps[3].state == "failed"


def test_results_are_not_visible_in_the_process_list(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "secret.txt").write_text("hunter-two")
    seen = 'cat /proc/*/cmdline 2>/dev/null | tr "\\0" " " | grep -c "hunter-[t]wo"'
    look = f'{seen}; printf %s "$RESULT_1" | wc -c'
    played = play(in_turn(plan(read("secret.txt"), bash(look))))
    assert (played.root.steps[2].result or "").split() == ["0", "10"]


@boxed
def test_result_files_are_readable_in_the_sandbox_and_removed_afterwards(tmp_path: Path) -> None:
    command = 'echo "$RESULT_1_FILE"; cat "$RESULT_1_FILE"; printf " %s" "$RESULT_1"'
    ran = asyncio.run(Sandbox("auto").run(command, folder=tmp_path, results={1: "it's $(x)"}))
    place, text = ran.output.splitlines()
    assert text == "it's $(x) it's $(x)"
    assert not Path(place).exists()


def test_old_plan_with_a_filter_names_the_new_form(play: Play) -> None:
    """Documents with filters are readable; such a step fails with the new form."""
    played = play(in_turn(plan(read("a.txt"), bash('echo "$RESULT_1"'))), plan_only=True)
    path = played.folder / f"{played.result.id}.md"
    (path.parents[4] / "a.txt").write_text("one")
    text = path.read_text("utf-8")
    old = json.dumps({"command": "echo {{ steps[1].result | sh }}"})
    new = json.dumps({"command": 'echo "$RESULT_1"'})
    assert new in text
    path.write_text(text.replace(new, old), "utf-8")
    played.fractal.tell(played.result.run, "approve")
    ended = play(in_turn(plan(read("a.txt"))), resume=played.result.run)
    step = ended.root.steps[2]
    assert step.state == "failed" and '"$RESULT_1"' in (step.result or "")


# ---- subtasks --------------------------------------------------------------------------------------------


def test_subtask_that_repeats_an_ancestor_is_refused(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.phase == "check":
            return ACCEPT
        task = ask.document.text(1, "task")
        if ask.turn:
            return plan({"subtask": "a part of it"} if task == "do the work" else write("a.txt", "one"))
        return plan({"subtask": "Do  the\nWORK" if ask.document.meta.depth else task})

    played = play(answer)
    assert len(refusals(played)) == 2
    assert all("the task itself" in why for why in refusals(played))
    assert sorted(each.meta.depth for each in played.documents.values() if each.meta.type == "task") == [0, 1]


# ---- repeated calls --------------------------------------------------------------------------------------


def test_failing_command_may_run_again_after_a_change(play: Play, tmp_path: Path) -> None:
    """A change of files resets the count of failures."""

    def tests(n: int) -> dict[str, Any]:
        return plan(write("x.txt", str(n)), bash('test "$(cat x.txt)" = 3'))

    played = play(in_turn(tests(0), tests(1), tests(3)))
    assert [step.state for step in played.root.steps.values()] == [*["done", "failed"] * 2, "done", "done"]


def test_repeated_failing_call_is_refused_without_a_change(play: Play) -> None:
    failing = plan(bash("exit 3"))
    played = play(in_turn(failing, failing, failing))
    assert "failed 2 times already" in (played.root.steps[3].result or "")


# ---- concurrency -----------------------------------------------------------------------------------------


def test_parallel_appends_to_one_file_lose_nothing(play: Play, tmp_path: Path) -> None:
    lines = [
        {"tool": "write", "args": {"path": "log.txt", "content": f"{n}\n", "append": True}, "needs": []}
        for n in range(4)
    ]
    played = play(in_turn(plan(*lines)))
    assert sorted((tmp_path / "work" / "log.txt").read_text().split()) == ["0", "1", "2", "3"]
    touched = [step.evidence["touched"][0] for step in played.root.steps.values()]
    befores = {each["before"] for each in touched}
    assert len(befores) == 4, "each step saw the append before it"


def test_concurrent_changes_of_one_file_lose_nothing(tmp_path: Path) -> None:
    """A read-modify-write is exclusive across loops and processes."""
    tools = Catalogue([shipped_system()]).tools
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(20)))

    def change(n: int) -> None:
        context = OperationContext(tmp_path, Sandbox("off"), timeout=30)
        calls = [
            ("write", {"path": "a.txt", "content": f"new {n}\n", "append": True}),
            ("edit", {"path": "a.txt", "old": f"line {n}\n", "new": f"changed {n}\n"}),
        ]
        for name, args in calls:
            asyncio.run(act(context, tools[name], args, RUNNERS))

    threads = [threading.Thread(target=change, args=(n,)) for n in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    lines = (tmp_path / "a.txt").read_text().splitlines()
    assert sorted(lines) == sorted(f"{word} {n}" for word in ("new", "changed") for n in range(20))


# ---- edited tools ----------------------------------------------------------------------------------------


def test_edited_tool_of_the_workspace_is_used_at_once(play: Play, tmp_path: Path) -> None:
    place = tmp_path / "work" / ".fractal" / "system" / "operations"
    place.mkdir(parents=True)
    text = (
        "---\nname: greet\ndescription: greets\nargs: {}\nrun: 'command: ./greet.sh'\neffects: []\n"
        "sample: {task: greet, args: {}, shows: hello}\n---\n"
    )
    (place / "greet.md").write_text(text)
    (place / "greet.sh").write_text("echo hello one")
    after = text.replace("greet.sh", "other.sh")
    drafts = ".fractal/system/operations"
    edits = [write(f"{drafts}/other.sh", "echo hello two"), write(f"{drafts}/greet.md", after)]
    played = play(in_turn(plan({"tool": "greet", "args": {}}, *edits, {"tool": "greet", "args": {}})))
    assert [played.root.steps[n].result for n in (1, 4)] == ["hello one", "hello two"]


# ---- criteria without a sandbox --------------------------------------------------------------------------


def test_criterion_runs_only_where_a_command_may(play: Play, tmp_path: Path) -> None:
    """A criterion needs the same approval as a step of bash."""
    steps, success = (write("a.txt", "x"),), [{"run": "touch pwned; test -f a.txt"}, {"judge": "fine"}]
    settings = {"approve": ["shell"]}
    played = play(in_turn(plan(*steps, success=success)), settings=settings)
    assert played.result.waiting == "approval" and "touch pwned" in played.result.question
    played.fractal.tell(played.result.run, "reject")
    played = play(in_turn(plan(*steps, success=success)), settings=settings, resume=played.result.run)
    assert not (tmp_path / "work" / "pwned").exists()
    assert "- judge" in played.root.text(4, "evidence").splitlines()[0]
    assert "approval" in played.root.text(4, "evidence")
    assert played.root.meta.unverified


def test_criterion_that_held_before_proves_nothing(play: Play) -> None:
    success = [{"run": "true"}, {"judge": "fine"}]
    assert play(in_turn(plan(write("a.txt", "x"), success=success))).root.meta.unverified
    success = [{"run": "test -f b.txt"}]
    assert not play(in_turn(plan(write("b.txt", "x"), success=success))).root.meta.unverified


def test_criterion_does_not_run_before_plan_approval(play: Play, tmp_path: Path) -> None:
    success = [{"run": "touch pwned; true"}, {"judge": "fine"}]
    played = play(in_turn(plan(write("a.txt", "x"), success=success)), plan_only=True)
    assert not (tmp_path / "work" / "pwned").exists()
    played.fractal.tell(played.result.run, "approve")
    assert isinstance(played.fractal, Fractal)
    ended = play(in_turn(plan(write("a.txt", "x"), success=success)), resume=played.result.run)
    assert ended.root.meta.unverified
