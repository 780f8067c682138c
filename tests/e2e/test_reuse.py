"""`--reuse`: the same task on the same files returns the earlier result; anything else is a new run."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kernel.errors import DocumentError
from kernel.loop.run_context import RunContext
from runtime.api.fractal import Fractal, RunResult
from runtime.workspace.reuse import changed_since, reusable

READ = {
    "task": "Give the wording of notes.md",
    "context": [],
    "open": [],
    "approach": "read it",
    "confidence": "high",
    "steps": [{"tool": "read", "args": {"path": "notes.md"}}],
    "success": [{"step": 1, "has": "one"}],
}
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "{{ steps[1].result }}"}
TASK = "Give the wording of notes.md"
Do = Callable[..., RunResult]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "state").mkdir(parents=True)
    (folder / "notes.md").write_text("one\n")
    (folder / "state" / "mine.txt").write_text("a folder of the user's own\n")
    past = folder.stat().st_mtime - 60
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (past, past))
    return folder


@pytest.fixture
def do(work: Path) -> Do:
    script = work.parent / "script.json"
    script.write_text(json.dumps({"plan": READ, "check": ACCEPT}))

    def run(task: str = TASK, *, reuse: bool = True, context: Any = (), **settings: Any) -> RunResult:
        values = {"sandbox": "off", "recall": False, "model": f"scripted:{script}", **settings}
        fractal = Fractal(work, settings=values)
        try:
            return asyncio.run(fractal.run(task, reuse=reuse, context=context))
        finally:
            fractal.brain.close()

    return run


def test_same_task_reuses_its_result(do: Do, work: Path) -> None:
    first = do()
    again = do()
    assert not first.reused and again.reused
    assert (again.run, again.output, again.exit, dict(again.spent)) == (first.run, "one\n", 0, {})
    assert len(list((work / ".fractal" / "state" / "runs").iterdir())) == 1


def test_task_runs_again_without_the_option(do: Do) -> None:
    first = do()
    assert do(reuse=False).run != first.run


@pytest.mark.parametrize(
    "change",
    [
        lambda work: (work / "notes.md").write_text("one and two\n"),
        lambda work: (work / "new.md").write_text("new\n"),
        lambda work: (work / "state" / "mine.txt").write_text("changed\n"),
        lambda work: (work / "state" / "mine.txt").unlink(),
    ],
    ids=["another text", "a new file", "a file below", "one less"],
)
def test_changed_folder_is_a_new_run(do: Do, work: Path, change: Callable[[Path], Any]) -> None:
    first = do()
    change(work)
    assert do().run != first.run


def test_other_task_or_context_is_a_new_run(do: Do) -> None:
    first = do()
    assert do("Give the wording of notes.md now").run != first.run
    assert do(context=[("file a.txt", "more")]).run != first.run
    given = do(context=[("file a.txt", "more")])
    assert given.reused


def test_changed_instructions_are_a_new_run(do: Do, work: Path) -> None:
    first = do()
    phases = work / ".fractal" / "system" / "phases"
    phases.mkdir(parents=True)
    for name in ("turn.base", "turn", "base", "do", "check"):
        shipped = Fractal(work).workspace.shipped / "phases" / f"{name}.md"
        (phases / f"{name}.md").write_text(shipped.read_text("utf-8") + "\nBe brief.\n", "utf-8")
    assert do().run != first.run


def test_edited_document_is_not_reused(do: Do) -> None:
    first = do()
    path = first.path
    planned = path.read_text("utf-8").replace('"path": "notes.md"', '"path": "other.md"', 1)
    path.write_text(planned, "utf-8")
    assert do().run != first.run


def test_run_with_effects_is_not_reused(work: Path) -> None:
    writing = {
        **READ,
        "steps": [{"tool": "write", "args": {"path": "out.md", "content": "{{ 1 }}"}}],
        "success": [{"file": "out.md"}],
    }
    writing["steps"] = [{"tool": "write", "args": {"path": "out.md", "content": "one"}}]
    script = work.parent / "writing.json"
    script.write_text(json.dumps({"plan": writing, "check": {**ACCEPT, "output": "done"}}))
    runs: list[str] = []
    for _ in range(2):
        fractal = Fractal(work, settings={"sandbox": "off", "recall": False, "model": f"scripted:{script}"})
        runs.append(asyncio.run(fractal.run("Write out.md", reuse=True)).run)
        fractal.brain.close()
        (work / "out.md").unlink()
    assert len(set(runs)) == 2


def test_only_runs_of_the_same_task_are_opened(do: Do, work: Path) -> None:
    first = do()
    do("Give the wording of notes.md now")
    fractal = Fractal(work)
    opened: list[str] = []

    def run_context_of(run: str) -> RunContext:
        opened.append(run)
        raise DocumentError("looked at")

    assert reusable(fractal.workspace, TASK, [], run_context_of) is None
    assert opened == [first.run]


@pytest.mark.parametrize("created", ["yesterday", "", "2025-13-45T00:00:00Z"])
def test_invalid_start_time_prevents_reuse(do: Do, created: str) -> None:
    first = do()
    text = first.path.read_text("utf-8")
    first.path.write_text(re.sub(r"(?m)^created: .*$", f'created: "{created}"', text, count=1), "utf-8")
    assert do().run != first.run


class Vanishing(list[Path]):
    """Files that are removed once the walk has listed them."""

    def __contains__(self, place: object) -> bool:
        for path in self:
            path.unlink(missing_ok=True)
        return False


def test_file_that_vanishes_during_the_check_counts_as_changed(work: Path) -> None:
    began = datetime.now(UTC) + timedelta(seconds=60)
    assert not changed_since(work, began, ())
    assert changed_since(work, began, Vanishing([work / "notes.md"]))
    assert changed_since(work / "none", began, ())
