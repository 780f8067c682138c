"""Damaged documents, logs, artifacts and locks of a stopped run."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lanes import PATIENCE, every
from processes import (
    TASK,
    accept,
    fractal,
    inner_asked,
    outcome_of,
    run_folder,
    running,
    runs,
    script,
    until,
)

from kernel.asking.responder import Ladder
from kernel.document.model import Document
from kernel.errors import DocumentError, Exit, FractalError
from kernel.events import Event
from runtime.api.fractal import Fractal, RunResult
from runtime.models.scripted import Scripted

LARGE = 2_000_000 // every(4)


def _other(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new, 1))


def _cut(seed: int) -> Callable[[Path], object]:
    """Cut anywhere except after the last commit line, where nothing would be missing."""
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
    **{f"cut off ({seed})": _cut(seed) for seed in range(3)},
}


ALIKE = {"a wrong line in its head", "Latin-1", "cut off (1)", "cut off (2)"}
"""By day others stand for these."""


def damages(*more: str, alike: Collection[str] = ALIKE) -> list[Any]:
    """The damages, and others, as parameters: some of them for the night."""
    return [pytest.param(each, marks=[pytest.mark.night] * (each in alike)) for each in (*DAMAGES, *more)]


@dataclass
class Stopped:
    """A stopped run, and its outcome without faults."""

    folder: Path
    expected: dict[str, Any]

    @property
    def run(self) -> Path:
        return run_folder(self.folder)

    def path(self, kind: str) -> Path:
        return sorted(self.run.glob(f"{kind}-*.md"))[0]

    def resume(self, model: Path | None = None, run: str | None = None) -> tuple[RunResult, list[str]]:
        """Resume; returns the result and the warnings."""
        events: list[Event] = []
        model = model or script(self.folder.parent / "model.json")
        ladder = Ladder((Scripted.from_file(model, "scripted"),))
        doing = Fractal(
            self.folder, settings={"sandbox": "off", "check": "always"}, ladder=ladder, on_event=events.append
        )
        result = asyncio.run(doing.resume(run))
        return result, [str(each.data["message"]) for each in events if each.kind == "warning"]

    def root(self) -> Document:
        return Fractal(self.folder).document(self.run.name)

    def ends_as_undisturbed(self) -> list[str]:
        """Resume and compare with the run without faults; returns the warnings."""
        result, warnings = self.resume()
        assert (result.exit, result.output) == (Exit.ACCEPTED, "all done")
        assert outcome_of(self.folder) == self.expected
        return warnings


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory, expected: dict[str, Any]) -> dict[str, Stopped]:
    """The run, killed at three points: PLAN or CHECK of its child, CHECK of its root."""
    base = tmp_path_factory.mktemp("templates")
    made: dict[str, Stopped] = {}
    for at, asked in (("inner plan", (1, 1)), ("inner check", (1, 2)), ("check", (2, 2))):
        work = base / at.replace(" ", "-")
        work.mkdir()
        slow = script(base / "slow.json", slow=at)
        with running(work, "run", "--model", f"scripted:{slow}", TASK):
            until(lambda work=work, asked=asked: inner_asked(work, asked[1]) and _asked(work) == sum(asked))
        made[at] = Stopped(work.rename(base / f"{at} stopped"), expected)
    return made


def _asked(folder: Path) -> int:
    return (run_folder(folder) / "calls.jsonl").read_text().count('"kind": "asked"')


@pytest.fixture
def stopped(tmp_path: Path, templates: dict[str, Stopped]) -> Callable[[str], Stopped]:
    def copy(at: str) -> Stopped:
        # the original folder is gone, so the run continues in the copy
        return Stopped(shutil.copytree(templates[at].folder, tmp_path / "work"), templates[at].expected)

    return copy


# ---- documents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", damages())
def test_broken_root_is_named_and_left_alone(stopped: Callable[[str], Stopped], damage: str) -> None:
    here = stopped("inner check")
    before = {path: path.read_bytes() for path in here.folder.rglob("*") if path.is_file()}
    root = here.path("system")
    DAMAGES[damage](root)
    damaged = root.read_bytes()
    for run in (None, here.run.name):
        with pytest.raises(DocumentError) as error:
            here.resume(run=run)
        assert f"{root}:" in str(error.value) and error.value.exit == Exit.FAILED
    assert root.read_bytes() == damaged
    others = {path: raw for path, raw in before.items() if path not in (root, here.run / "lock")}
    assert all(path.read_bytes() == raw for path, raw in others.items())
    root.write_bytes(before[root])
    here.ends_as_undisturbed()


def test_missing_root_is_named(stopped: Callable[[str], Stopped]) -> None:
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


@pytest.mark.parametrize("damage", damages())
def test_broken_running_child_makes_its_step_unknown(stopped: Callable[[str], Stopped], damage: str) -> None:
    here = stopped("inner check")
    child = here.path("tool-task")
    DAMAGES[damage](child)
    damaged = child.read_bytes()
    result, warnings = here.resume()
    step = here.root().steps[2]
    assert (result.status, result.exit, step.state) == ("unverified", Exit.FAILED, "unknown")
    assert "step 2 unknown" in result.reason
    assert f"{child}:" in str(step.result)
    assert any(f"{child}:" in each for each in warnings)
    assert child.read_bytes() == damaged
    assert step.evidence["spent"]["calls"] == 2  # its plan and the interrupted call


UNREAD = {*ALIKE, "nonsense", "a wrong heading", "UTF-16"}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(
            pytest.param("tool-task", *each.values, marks=each.marks)
            for each in damages("gone", alike=UNREAD)
        ),
        *(("op-write", damage) for damage in ("empty", "cut off (0)", "gone")),
        *(("op-read", damage) for damage in ("garbage", "cut off (1)", "gone")),
    ],
)
def test_documents_of_ended_loops_are_not_needed(
    stopped: Callable[[str], Stopped], kind: str, damage: str
) -> None:
    here = stopped("check")
    path = here.path(kind)
    whole = path.read_bytes()
    DAMAGES.get(damage, Path.unlink)(path)
    damaged = path.read_bytes() if path.exists() else None
    result, _ = here.resume()
    assert result.exit == Exit.ACCEPTED
    assert (path.read_bytes() if path.exists() else None) == damaged
    path.write_bytes(whole)
    assert outcome_of(here.folder) == here.expected


def test_missing_child_that_only_asked_is_created_again_with_a_warning(
    stopped: Callable[[str], Stopped],
) -> None:
    here = stopped("inner plan")
    child = here.path("tool-task")
    child.unlink()
    warnings = here.ends_as_undisturbed()
    assert any(f"{child.name} was missing and is made again" in each for each in warnings)


def test_missing_child_that_may_have_acted_is_not_created_again(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    child = here.path("tool-task")
    raw = child.read_bytes()
    child.unlink()
    (here.folder / "b.txt").write_text("a person's own words")
    result, _ = here.resume()
    step = here.root().steps[2]
    assert (result.status, result.exit, step.state) == ("unverified", Exit.FAILED, "unknown")
    assert "step 2 unknown" in result.reason
    assert f"{child.name} is missing" in str(step.result)
    assert not child.exists()
    assert (here.folder / "b.txt").read_text() == "a person's own words"
    assert raw


def test_grandchildren_of_a_broken_child_are_left_alone(tmp_path: Path) -> None:
    """Nobody would use their results, and they would wake an unreadable loop."""
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
    assert (result.status, result.exit) == ("unverified", Exit.FAILED)
    assert "step 2 unknown" in result.reason
    assert here.root().steps[2].state == "unknown"
    assert not (work / "deep.txt").exists()
    assert any("no open step waits for it" in each for each in warnings)


# ---- the log, artifacts, the lock ------------------------------------------------------------------------


def test_missing_log_is_reported_and_its_calls_stay_charged(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("check")
    spent = here.root().meta.spent["calls"]
    (here.run / "calls.jsonl").unlink()
    warnings = here.ends_as_undisturbed()
    assert any("calls.jsonl: calls that documents know are missing" in each for each in warnings)
    assert here.root().meta.spent["calls"] == spent + 1  # CHECK again


def test_call_limit_holds_without_the_log(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("check")
    root = here.path("system")
    spent = here.root().meta.spent["calls"]
    text = root.read_text()
    assert '"calls": 60' in text
    root.write_text(text.replace('"calls": 60', f'"calls": {spent}', 1))
    (here.run / "calls.jsonl").unlink()
    result, _ = here.resume()
    assert result.exit == Exit.LIMIT


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.night] * (n > 2)) for n in range(6)])
def test_truncated_log_keeps_its_complete_lines(stopped: Callable[[str], Stopped], seed: int) -> None:
    here = stopped("inner check")
    log = here.run / "calls.jsonl"
    raw = log.read_bytes()
    log.write_bytes(raw[: random.Random(seed).randrange(len(raw))])
    here.ends_as_undisturbed()
    assert here.root().meta.spent["calls"] >= 4  # at least as many as without damage


NONSENSE = [
    b"what is this?",
    b"\xff\xfe\x00",
    b"[]",
    b"{}",
    b'{"v": 1, "kind": "replied", "key": 5, "usage": {}}',
    b'{"v": 1, "kind": "asked", "key": "a/1/plan/0/0/x", "rung": "r", "usage": {"usd": "much"}}',
    b'{"v": 1, "kind": "eaten", "key": "a/1/plan/0/0/x", "usage": {}}',
    b'{"v": null}',
    b"[" * 100_000,
]


def test_invalid_log_lines_are_named_and_skipped(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    log = here.run / "calls.jsonl"
    lines = log.read_bytes().splitlines()
    for number, each in enumerate(NONSENSE):
        lines.insert(number * 2 % len(lines), each)
    log.write_bytes(b"\n".join(lines) + b"\n")
    warnings = here.ends_as_undisturbed()
    assert any(f"{log}:1: skipped" in each for each in warnings)
    assert any("more lines were left out" in each for each in warnings)
    assert all(each in log.read_bytes() for each in NONSENSE)  # the lines are kept in the file


def test_unreadable_log_is_named(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    log = here.run / "calls.jsonl"
    aside = log.rename(here.folder.parent / "aside")
    log.mkdir()
    with pytest.raises(FractalError, match=r"calls\.jsonl: cannot be read: Is a directory"):
        here.resume()
    log.rmdir()
    aside.rename(log)
    here.ends_as_undisturbed()


@pytest.mark.parametrize("damaged", ["index", "last.json", "objects", ""])
def test_run_continues_with_damaged_snapshots(stopped: Callable[[str], Stopped], damaged: str) -> None:
    here = stopped("inner plan")
    for home in (here.run.parents[1] / "snapshots").iterdir():
        path = home / damaged
        shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"nonsense")
    here.ends_as_undisturbed()


def test_step_that_needs_a_missing_artifact_fails(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "long.txt").write_text("word " * 2000)
    steps = [
        {"tool": "read", "args": {"path": "long.txt"}},
        {"subtask": "the inner part"},
        {"tool": "write", "args": {"path": "c.txt", "content": "{{ steps[1].result }}"}},
    ]
    slow = script(tmp_path / "slow.json", outer=steps, slow="inner plan")
    with running(work, "run", "--model", f"scripted:{slow}", TASK):
        until(lambda: inner_asked(work))
    here = Stopped(work, {})
    (artifact,) = (here.run / "artifacts").glob("op-read-*.txt")
    raw = artifact.read_bytes()
    model = script(tmp_path / "model.json", outer=steps)
    mended = Stopped(shutil.copytree(work, tmp_path / "mended" / "work"), {})
    artifact.unlink()
    result, _ = here.resume(model)
    assert (result.status, result.exit) == ("unverified", Exit.FAILED)
    assert "step 3 failed" in result.reason
    step = here.root().steps[3]
    assert step.state == "failed" and f"{artifact}: cannot be read" in str(step.result)
    assert not (work / "c.txt").exists()
    (mended.folder / "long.txt").unlink()  # the result comes from the artifact; the file is not read again
    shutil.rmtree(work)
    assert mended.resume(model)[0].exit == Exit.ACCEPTED
    assert (mended.folder / "c.txt").read_bytes() == raw


@pytest.mark.parametrize("pid", ["", "1", "999999999", "not a number"])
def test_stale_lock_is_ignored(stopped: Callable[[str], Stopped], pid: str) -> None:
    here = stopped("inner check")
    lock = here.run / "lock"
    lock.write_text(f"{pid}\n") if pid else lock.unlink()
    here.ends_as_undisturbed()


def test_folder_in_place_of_the_lock_is_named(stopped: Callable[[str], Stopped]) -> None:
    here = stopped("inner check")
    lock = here.run / "lock"
    lock.unlink()
    lock.mkdir()
    ran = fractal(here.folder, "resume", "--model", f"scripted:{script(here.folder.parent / 'm.json')}")
    assert ran.returncode == Exit.CONFIGURATION
    assert f"{lock}: cannot be opened: Is a directory; remove it" in ran.stderr
    lock.rmdir()
    here.ends_as_undisturbed()


def test_removed_lock_does_not_let_runs_overwrite_each_other(
    tmp_path: Path, templates: dict[str, Stopped]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    slow = script(tmp_path / "slow.json", slow="inner check", seconds=1.5)
    with running(work, "run", "--model", f"scripted:{slow}", TASK) as first:
        until(lambda: inner_asked(work, 2))
        here = Stopped(work, templates["check"].expected)
        (here.run / "lock").unlink()
        here.ends_as_undisturbed()
        _, stderr = first.communicate(timeout=PATIENCE)
    assert first.returncode == Exit.FAILED
    assert "modified or removed externally" in stderr
    assert outcome_of(work) == here.expected
