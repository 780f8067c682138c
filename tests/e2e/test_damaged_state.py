"""Documents, the log, artifacts and the lock, damaged while no process works on the run."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import (
    TASK,
    accept,
    came_to,
    fractal,
    inner_asked,
    run_folder,
    running,
    runs,
    script,
    undisturbed,
    until,
)

from kernel.document import Document
from kernel.errors import DocumentError, Exit
from kernel.events import Event
from kernel.responder import Ladder
from runtime.fractal import Fractal, RunResult
from runtime.responders.scripted import Scripted

LARGE = 10_000_000


def _other(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new, 1))


def _cut(seed: int) -> Callable[[Path], object]:
    """Cut off anywhere but behind the last commit line, where nothing would be missing."""
    return lambda path: path.write_bytes(
        path.read_bytes()[: random.Random(seed).randrange(path.stat().st_size - 2)]
    )


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "nonsense": lambda path: path.write_text("what is this?\n"),
    "a wrong line in its head": _other("phase:", "faze"),
    "a wrong heading": _other("## §1", "## §7"),
    "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(LARGE)),
    "an endless head": lambda path: path.write_text("---\n" + "x: 1\n" * (LARGE // 5)),
    "UTF-16": lambda path: path.write_text(path.read_text(), "utf-16"),
    "Latin-1": lambda path: path.write_text(path.read_text(), "latin-1", "replace"),
    **{f"cut off ({seed})": _cut(seed) for seed in range(8)},
}


@dataclass
class Stopped:
    """A run as it was left, and what it comes to when it is undisturbed."""

    folder: Path
    calm: dict[str, Any]

    @property
    def run(self) -> Path:
        return run_folder(self.folder)

    def path(self, kind: str) -> Path:
        return sorted(self.run.glob(f"{kind}-*.md"))[0]

    def resume(self, model: Path | None = None, run: str | None = None) -> tuple[RunResult, list[str]]:
        """Go on; returns the result and the warnings."""
        events: list[Event] = []
        model = model or script(self.folder.parent / "model.json")
        ladder = Ladder((Scripted.from_file(model, "scripted"),))
        doing = Fractal(self.folder, settings={"sandbox": "off"}, ladder=ladder, on_event=events.append)
        result = asyncio.run(doing.resume(run))
        return result, [str(each.data["message"]) for each in events if each.kind == "warning"]

    def root(self) -> Document:
        return Fractal(self.folder).document(self.run.name)

    def ends_as_undisturbed(self) -> None:
        result, _ = self.resume()
        assert (result.exit, result.output) == (Exit.ACCEPTED, "all done")
        assert came_to(self.folder) == self.calm


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stopped]:
    """The run, killed while its child, or its root, waited for the model to say what CHECK thinks."""
    base = tmp_path_factory.mktemp("templates")
    calm = undisturbed(base / "calm")
    made: dict[str, Stopped] = {}
    for at, asked in (("inner plan", (1, 1)), ("inner check", (1, 2)), ("check", (2, 2))):
        work = base / at.replace(" ", "-")
        work.mkdir()
        slow = script(base / "slow.json", slow=at)
        with running(work, "run", "--model", f"scripted:{slow}", TASK):
            until(lambda work=work, asked=asked: inner_asked(work, asked[1]) and _asked(work) == sum(asked))
        made[at] = Stopped(work.rename(base / f"{at} stopped"), calm)
    return made


def _asked(folder: Path) -> int:
    return (run_folder(folder) / "calls.jsonl").read_text().count('"kind": "asked"')


@pytest.fixture
def stopped(tmp_path: Path, templates: dict[str, Stopped]) -> Callable[[str], Stopped]:
    def copy(at: str) -> Stopped:
        # the folder it ran in is gone, so it goes on in the copy
        return Stopped(shutil.copytree(templates[at].folder, tmp_path / "work"), templates[at].calm)

    return copy


# ---- documents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_root_is_named_and_left_alone(stopped: Callable[[str], Stopped], damage: str) -> None:
    here = stopped("inner check")
    before = {path: path.read_bytes() for path in here.folder.rglob("*") if path.is_file()}
    root = here.path("system")
    DAMAGES[damage](root)
    damaged = root.read_bytes()
    for run in (None, here.run.name):
        with pytest.raises(DocumentError) as told:
            here.resume(run=run)
        assert f"{root}:" in str(told.value) and told.value.exit == Exit.FAILED
    assert root.read_bytes() == damaged
    others = {path: raw for path, raw in before.items() if path not in (root, here.run / "lock")}
    assert all(path.read_bytes() == raw for path, raw in others.items())
    root.write_bytes(before[root])
    here.ends_as_undisturbed()


def test_a_root_that_is_gone_is_named(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    root = here.path("system")
    raw = root.read_bytes()
    root.unlink()
    for words in ((), (here.run.name,)):
        ran = fractal(here.folder, "resume", *words)
        assert ran.returncode == Exit.FAILED
        assert f"{root}: the root of run {here.run.name} is missing; put it back" in ran.stderr
    root.write_bytes(raw)
    here.ends_as_undisturbed()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_child_at_work_makes_its_step_unknown(
    stopped: Callable[[str], Stopped], damage: str
) -> None:
    here = stopped("inner check")
    child = here.path("tool-task")
    DAMAGES[damage](child)
    damaged = child.read_bytes()
    result, warnings = here.resume()
    step = here.root().steps[2]
    assert (result.exit, step.state) == (Exit.ACCEPTED, "unknown")
    assert f"{child}:" in str(step.result)
    assert any(f"{child}:" in each for each in warnings)
    assert child.read_bytes() == damaged
    assert step.evidence["spent"]["calls"] == 2  # its plan, and the call that was in flight


@pytest.mark.parametrize("kind", ["tool-task", "op-write", "op-read"])
@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
def test_what_has_ended_is_needed_no_more(stopped: Callable[[str], Stopped], kind: str, damage: str) -> None:
    here = stopped("check")
    path = here.path(kind)
    whole = path.read_bytes()
    DAMAGES.get(damage, Path.unlink)(path)
    damaged = path.read_bytes() if path.exists() else None
    result, _ = here.resume()
    assert result.exit == Exit.ACCEPTED
    assert (path.read_bytes() if path.exists() else None) == damaged
    path.write_bytes(whole)
    assert came_to(here.folder) == here.calm


def test_a_child_that_had_only_asked_is_made_again_and_said_so(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner plan")
    child = here.path("tool-task")
    child.unlink()
    result, warnings = here.resume()
    assert result.exit == Exit.ACCEPTED
    assert any(f"{child.name} was missing and is made again" in each for each in warnings)
    assert came_to(here.folder) == here.calm


def test_a_child_that_may_have_acted_is_not_made_again(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    child = here.path("tool-task")
    raw = child.read_bytes()
    child.unlink()
    (here.folder / "b.txt").write_text("a person's own words")
    result, _ = here.resume()
    step = here.root().steps[2]
    assert (result.exit, step.state) == (Exit.ACCEPTED, "unknown")
    assert f"{child.name} is missing" in str(step.result)
    assert not child.exists()
    assert (here.folder / "b.txt").read_text() == "a person's own words"
    assert raw


def test_grandchildren_of_a_broken_child_are_left_alone(tmp_path: Path) -> None:
    """They would act for nobody, and wake a loop that cannot be read."""
    work = tmp_path / "work"
    work.mkdir()
    write = {"tool": "write", "args": {"path": "deep.txt", "content": "x"}}
    deep = [{"subtask": "the deepest part"}]
    slow = script(tmp_path / "slow.json", inner=deep)
    entries = json.loads(slow.read_text())
    entries.insert(0, {"level": "operation", "phase": "check", "reply": accept("deep done")})
    plan = {**entries[3]["reply"], "task": "deepest", "steps": [write]}
    entries.insert(0, {"level": "operation", "reply": plan, "delay": 60})
    slow.write_text(json.dumps(entries))
    with running(work, "run", "--model", f"scripted:{slow}", TASK):
        until(lambda: runs(work).exists() and list(runs(work).glob("*/op-task-*.md")))
    del entries[0]["delay"]
    model = tmp_path / "model.json"
    model.write_text(json.dumps(entries))
    here = Stopped(work, {})
    here.path("tool-task").write_text("broken")
    result, warnings = here.resume(model)
    assert result.exit == Exit.ACCEPTED
    assert here.root().steps[2].state == "unknown"
    assert not (work / "deep.txt").exists()
    assert any("no open step waits for it" in each for each in warnings)
