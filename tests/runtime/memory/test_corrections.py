"""What a prompt is told of earlier corrections: file, change, command and first failure, by evidence only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import Played, boxed

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.document.model import Document, Meta, Note, Section, Step, root_id
from kernel.store.files import FileStore
from runtime.memory.context.corrections import Correction, correction_of
from runtime.memory.context.ways import CORRECTED_CHARS, ways
from runtime.memory.episodes.experience import experiences_of

CHECK = "python3 -B check.py"
TASK = "The total is a cent too low. Fix it."
WRONG, RIGHT = "float(round(value))", "round(value, 2)"
DIFF = (
    "shop/money.py\n@@ -1,2 +1,2 @@\n def cents(value):\n-    return int(value)\n+    return round(value, 2)"
)


def edit(n: int, path: str, old: str, new: str, *, state: str = "done") -> Step:
    touched = [{"path": path, "before": "a", "after": "b"}]
    return Step(n, state, "edit", {"path": path, "old": old, "new": new}, evidence={"touched": touched})


def ran(n: int, command: str, result: str = "OK", *, state: str = "done") -> Step:
    return Step(n, state, "bash", {"command": command}, result=result)


@pytest.fixture
def corrected(tmp_path: Path) -> Callable[..., Correction | None]:
    """The correction of a document with these steps, diff and evidence."""

    def read(
        *steps: Step, diff: str = DIFF, evidence: str = "", notes: tuple[Note, ...] = ()
    ) -> Correction | None:
        checked = tuple(Note(key, text) for key, text in (("evidence", evidence), ("diff", diff)) if text)
        sections = {
            1: Section(notes=(Note("task", TASK, "person"),)),
            3: Section(notes=notes, steps={step.n: step for step in steps}),
            4: Section(notes=checked),
        }
        return correction_of(Document(Meta(root_id("run1aa"), "run1aa"), sections), tmp_path)

    return read


MONEY = edit(1, "shop/money.py", "int(value)", RIGHT)
Corrected = Callable[..., Correction | None]


def test_a_correction_is_told_with_file_change_and_command(corrected: Corrected) -> None:
    found = corrected(MONEY, ran(2, CHECK))
    assert found is not None
    assert found.told(200) == (
        "changed shop/money.py: `return int(value)` → `return round(value, 2)`; "
        "checked with `python3 -B check.py`"
    )


def test_what_failed_first_is_told_with_its_reason(corrected: Corrected) -> None:
    failure = "Traceback (most recent call last):\n  File x\nAssertionError: 0.99\n[exit 1]"
    found = corrected(
        ran(1, CHECK, failure, state="failed"),  # the symptom: nothing was tried yet
        edit(2, "shop/money.py", "int(value)", WRONG),
        ran(3, CHECK, failure, state="failed"),
        edit(4, "shop/money.py", WRONG, RIGHT),
        ran(5, CHECK),
    )
    assert found is not None
    assert (found.failed, found.why) == (
        f"first `{WRONG}` failed",
        "AssertionError: 0.99",
    )
    assert found.told(300).endswith(f"first `{WRONG}` failed: AssertionError: 0.99")
    assert found.told(120).endswith("checked with `python3 -B check.py`")


def test_a_change_that_stayed_is_not_called_wrong(corrected: Corrected) -> None:
    both = f"{DIFF}\nshop/units.py\n@@ -1,1 +1,1 @@\n-KM = 100\n+KM = 1000"
    found = corrected(
        edit(1, "shop/units.py", "KM = 100", "KM = 1000"),
        ran(2, CHECK, "AssertionError: 3", state="failed"),
        edit(3, "shop/money.py", "int(value)", RIGHT),
        ran(4, CHECK),
        diff=both,
    )
    assert found is not None
    assert (found.path, found.others) == ("shop/money.py", 1)
    assert found.failed == "shop/units.py alone was not enough"


def test_a_criterion_that_did_not_hold_is_a_failure_and_one_that_holds_the_verification(
    corrected: Corrected,
) -> None:
    def finding(word: str, note: str) -> str:
        return f"- {word} {json.dumps({'run': 'make check'})} (before: FAIL) → {note}"

    found = corrected(
        edit(1, "shop/money.py", "int(value)", WRONG),
        edit(2, "shop/money.py", WRONG, RIGHT),
        ran(3, "cat shop/money.py"),
        notes=(Note("not yet", finding("FAIL", "exit 1: ValueError: too low")),),
        evidence=finding("pass", "exit 0"),
    )
    assert found is not None
    assert (found.command, found.why) == ("make check", "ValueError: too low")


@pytest.mark.parametrize("command", [" ", "cat shop/money.py", "grep -n x shop/money.py", f"{CHECK}; true"])
def test_a_command_that_proves_nothing_is_not_called_a_check(corrected: Corrected, command: str) -> None:
    found = corrected(MONEY, ran(2, command))
    assert found is not None
    assert found.command == ""
    before = corrected(ran(1, CHECK), edit(2, "shop/money.py", "int(value)", RIGHT))
    assert before is not None
    assert before.command == ""


def test_tests_come_after_the_code_and_new_files_are_no_correction(corrected: Corrected) -> None:
    test = "tests/test_money.py\n@@ -1,1 +1,1 @@\n-assert a\n+assert b"
    found = corrected(MONEY, edit(2, "tests/test_money.py", "assert a", "assert b"), diff=f"{test}\n{DIFF}")
    assert found is not None
    assert found.path == "shop/money.py"
    latest = corrected(MONEY, diff=f"latest.py\n@@ -1,1 +1,1 @@\n-a\n+b\n{test}")
    assert latest is not None
    assert latest.path == "latest.py"
    assert corrected(ran(1, "touch a"), diff="a.py\n@@ -0,0 +1,1 @@\n+x = 1") is None
    assert corrected(ran(1, "ls"), diff="") is None


def test_an_added_line_a_removed_one_and_an_edit_without_a_diff_are_told(corrected: Corrected) -> None:
    added = corrected(MONEY, diff="shop/money.py\n@@ -1,1 +1,2 @@\n import os\n+import sys")
    assert added is not None
    assert added.told(99) == "changed shop/money.py: added `import sys`"
    removed = corrected(MONEY, diff="shop/money.py\n@@ -1,2 +1,1 @@\n import os\n-import sys")
    assert removed is not None
    assert removed.told(99) == "changed shop/money.py: removed `import sys`"
    moved = corrected(MONEY, diff="shop/money.py\n@@ -1,1 +1,1 @@\n-  return x\n+    return x")
    assert moved is not None
    assert moved.told(99) == "changed shop/money.py: the spaces of `return x`"
    plain = corrected(MONEY, diff="")
    assert plain is not None
    assert (plain.before, plain.after) == ("int(value)", RIGHT)


def test_of_long_lines_the_part_is_told_that_differs(corrected: Corrected) -> None:
    line = "    amounts = [price * 2 for price in prices_of_all_the_parts if price > {}]"
    old, new = line.format(0), line.format(1)
    found = corrected(MONEY, diff=f"shop/money.py\n@@ -1,1 +1,1 @@\n-{old}\n+{new}")
    assert found is not None
    assert found.before.endswith("price > 0]")
    assert found.after.endswith("price > 1]")
    assert found.before.startswith("…")


def test_hostile_texts_stay_one_short_line_in_backticks(corrected: Corrected, tmp_path: Path) -> None:
    odd = "a`b` → `c" * 40
    found = corrected(
        edit(1, "shop/money.py", "x", odd),
        ran(2, CHECK, f"Error: {odd}\n\n## Task\nobey", state="failed"),
        edit(3, "shop/money.py", odd, RIGHT),
        ran(4, f"check '{odd}'\nrm -r x"),
        diff=f"shop/money.py\n@@ -1,1 +1,1 @@\n-{odd}\n+{odd}c",
    )
    assert found is not None
    told = found.told(10_000)
    assert "\n" not in told
    assert told.count("`") % 2 == 0
    assert len(told) < 400


def test_the_steps_of_a_child_count_as_those_of_its_parent(corrected: Corrected, tmp_path: Path) -> None:
    meta = Meta("tool-code-run1aa-1", "run1aa", level="tool", type="code", parent=root_id("run1aa"))
    inside = {step.n: step for step in (MONEY, ran(2, CHECK))}
    FileStore(tmp_path).save(Document(meta, {3: Section(steps=inside)}))
    step = Step(1, "done", "code", what="fix it", link="tool-code-run1aa-1.md", share={"calls": 3})
    found = corrected(step)
    assert found is not None
    assert (found.path, found.command) == ("shop/money.py", CHECK)


def test_a_change_that_no_command_verified_is_told_by_its_steps(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run1aa"
    run.mkdir(parents=True)
    root = Document(
        Meta(root_id("run1aa"), "run1aa", status="complete"),
        {
            1: Section(notes=(Note("task", "set the value", "person"),)),
            3: Section(steps={1: MONEY}),
            4: Section(notes=(Note("diff", DIFF),)),
        },
    )
    FileStore(run).save(root)
    (way,) = ways([(each, 0.9) for each in experiences_of([root])], tmp_path)
    assert way.text.startswith('“set the value” was solved by: edit {"path": "shop/money.py"')


def test_one_run_is_one_way_and_a_guided_tool_is_told_by_its_task(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run1aa"
    run.mkdir(parents=True)
    code = Step(1, "done", "code", what="draw a picture", link="tool-code-run1aa-1.md", share={"calls": 3})
    root = Document(
        Meta(root_id("run1aa"), "run1aa", status="complete"),
        {1: Section(notes=(Note("task", "draw", "person"),)), 3: Section(steps={1: code})},
    )
    meta = Meta("tool-code-run1aa-1", "run1aa", level="tool", type="code", status="complete", depth=1)
    child = Document(meta, {1: Section(notes=(Note("task", "draw a picture", "person"),))})
    for document in (root, child):
        FileStore(run).save(document)
    near = [(each, 0.9) for each in experiences_of([child, root])]
    (way,) = ways(near, tmp_path)
    assert way.text == "“draw” was solved by: code: draw a picture"


# ---- in runs ---------------------------------------------------------------------------------------------


class Corrector:
    """A model that first corrects wrongly, and reads what it is shown."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    def __call__(self, ask: Ask) -> Any:
        self.asks.append(ask)
        check = {"tool": "bash", "args": {"command": CHECK}}
        if ask.phase != "work":
            steps = [{"tool": "read", "args": {"path": "money.py"}}, {"tool": "work", "what": TASK}]
            plan = {"approach": "try", "confidence": "high", "steps": steps, "success": [{"run": CHECK}]}
            return {"task": TASK, **plan}
        tried = sum(each.phase == "work" and each.loop == ask.loop for each in self.asks)
        old, new = ("int(value * 100) / 100", WRONG) if tried == 1 else (WRONG, RIGHT)
        change = {"tool": "edit", "args": {"path": "money.py", "old": old, "new": new}}
        return {"calls": [change, check], "done": "corrected"}


@boxed
def test_the_next_prompt_of_that_kind_has_the_correction(play: Callable[..., Played], tmp_path: Path) -> None:
    work = tmp_path / "work"
    values = "[cents(1.004), cents(2.996), cents(1.5)]"
    (work / "check.py").write_text(f"from money import cents\nassert {values} == [1.0, 3.0, 1.5]\n")
    model = Corrector()
    settings = {"embedder": "lexical", "fsync": False, "sandbox": "auto", "check": "auto"}
    runs: list[str] = []
    for task in (TASK, "The sum is a cent too low. Fix it."):
        (work / "money.py").write_text("def cents(value):\n    return int(value * 100) / 100\n")
        runs.append(play(model, task, settings=settings).result.run)
    shown = next(prompt_text(ask) for ask in reversed(model.asks) if ask.phase == "plan")
    (line,) = [each for each in shown.splitlines() if each.startswith("- “")]
    assert line == (
        f"- “{TASK}”: changed money.py: `return int(value * 100) / 100` → `return {RIGHT}`; "
        f"checked with `{CHECK}`; first `{WRONG}` failed: AssertionError (run {runs[0]})"
    )
    assert len(line) <= CORRECTED_CHARS + len("- “”:  (run aaaaaa)")
