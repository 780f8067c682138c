"""A tool's own sample as its test: of code at once, of a guided loop as a run with the configured ladder.

A run for a sample has a workspace of its own in `state/system/trials/`: a copy of the system as it stands,
and the sample's files. It is removed when the sample has passed, and kept to be looked at when it has not.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from kernel.acting import Runner
from kernel.errors import Exit, FractalError
from kernel.markdown import parse
from kernel.operations import OperationContext
from kernel.tools import Tool
from kernel.trying import sample_missing, shows
from kernel.workspace import Workspace
from runtime.building.contents import File, files
from runtime.building.fields import with_field
from runtime.building.journal import PERSON
from runtime.building.standing import Standing
from runtime.results import RunResult

KEPT_TRIALS = 10
"""Failed trials that are kept to be looked at."""


class Play(Protocol):
    """Does a task in a folder that is a workspace of its own, with nobody to ask."""

    async def __call__(self, folder: Path, task: str, tool: str = "", usd: float | None = None) -> RunResult:
        """Do the task; `tool` guides the loop at the top, `usd` is the most that it may cost."""
        ...


@dataclass(frozen=True)
class Tested:
    """How a sample went; `passed` is None where it could not be tested, and the note says why."""

    tool: str
    passed: bool | None
    note: str
    seconds: float = 0.0
    spent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    folder: str = ""  # where a run that failed can be looked at


async def test(
    tool: Tool,
    workspace: Workspace,
    context: OperationContext,
    standing: Standing,
    play: Play | None,
    runners: Mapping[str, Runner] | None = None,
) -> Tested:
    """Run a tool's sample; a draft or one in quarantine that passes is active from then on."""
    if tool.guided:
        tested = await test_guided(tool, workspace, play)
    else:
        tested = await test_code(tool, context, runners or {}, standing)
    if tested.passed and tool.status in ("draft", "quarantined") and standing.own(tool):
        kind = "admitted" if tool.status == "draft" else "restored"
        standing.mark(tool, "active", "its sample has passed", PERSON, kind=kind)
    return tested


async def test_code(
    tool: Tool, context: OperationContext, runners: Mapping[str, Runner], standing: Standing
) -> Tested:
    """The sample of an operation or a program."""
    began = time.monotonic()
    if tool.scheme == "mcp":
        return Tested(tool.name, None, "a server's tool has no sample here")
    if why := sample_missing(tool):
        return Tested(tool.name, None, why)
    if tool.scheme == "command" and (why := context.sandbox.available()):
        return Tested(tool.name, None, why)
    passed, note = await standing.test(tool, context, runners)
    return Tested(tool.name, passed, note, time.monotonic() - began)


async def test_guided(tool: Tool, workspace: Workspace, play: Play | None) -> Tested:
    """The sample of a guided tool, as a run whose loop at the top is guided by it."""
    if tool.skill:
        return Tested(tool.name, None, "a skill has no sample; it needs no test")
    if why := sample_missing(tool):
        return Tested(tool.name, None, why)
    if play is None:
        return Tested(tool.name, None, "no model is configured that could do its sample; see --model")
    changed: dict[str, File | None] = {}
    if tool.status != "active":  # in its trial it is one that can be used
        name = tool.path.resolve().relative_to((workspace.root / "system").resolve()).as_posix()
        changed[name] = File(with_field(tool.path.read_text("utf-8"), "status", "active").encode())
    return await Trial(workspace, tool.name, changed).play(play, tool, guided=True)


class Trial:
    """A workspace of its own with a copy of the system, in which a sample is done."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        changed: Mapping[str, File | None] | None = None,
        patterns: Mapping[str, bytes] | None = None,
    ) -> None:
        trials = workspace.state / "system" / "trials"
        _clear(trials)
        self.folder = trials / f"{name}-{secrets.token_hex(3)}"
        self._workspace = workspace
        self._changed = changed or {}
        self._patterns = patterns or {}  # learned ones, that its run is shown

    async def play(self, play: Play, tool: Tool, *, guided: bool = False, usd: float | None = None) -> Tested:
        """Do the sample; `guided`: by the tool itself, else as any task."""
        began = time.monotonic()
        sample = tool.sample
        try:
            self._lay_out(cast(dict[str, str], sample.get("files") or {}))
            result = await play(self.folder, str(sample["task"]), tool.name if guided else "", usd)
            passed, note = await self._judged(tool, result)
        except FractalError as error:
            return Tested(tool.name, False, str(error), time.monotonic() - began, folder=str(self.folder))
        if passed:
            shutil.rmtree(self.folder, ignore_errors=True)
        kept = "" if passed else str(self.folder)
        return Tested(tool.name, passed, note, time.monotonic() - began, dict(result.spent), kept)

    def _lay_out(self, given: Mapping[str, str]) -> None:
        own = self.folder / ".fractal" / "system"
        (self.folder / ".fractal" / "state" / "system").mkdir(parents=True, mode=0o700)
        source = self._workspace.root / "system"
        for path in files(source) if source.is_dir() else ():
            _write(own / path.relative_to(source), File(path.read_bytes(), bool(path.stat().st_mode & 0o111)))
        for name, file in self._changed.items():
            _write(own / name, file)
        standing = self._workspace.state / "system" / "standing.json"
        if standing.is_file():  # what has passed its test here has passed it there
            shutil.copyfile(standing, self.folder / ".fractal" / "state" / "system" / standing.name)
        for name, raw in self._patterns.items():
            _write(self.folder / ".fractal" / "state" / "memory" / "patterns" / name, File(raw))
        for name, text in given.items():
            target = (self.folder / name).resolve()
            if self.folder.resolve() not in target.parents:
                raise FractalError(f"sample: files: {name}: leads outside the sample's folder")
            _write(target, File(str(text).encode()))

    async def _judged(self, tool: Tool, result: RunResult) -> tuple[bool, str]:
        asked = parse(result.path.read_bytes(), str(result.path)).note(1, "question")
        if result.waiting == "person" and asked and asked.origin != "kernel":  # a tool that asks
            passed, note = await shows(tool, result.question)
            return passed, note if passed else f"it asks a person: {result.question}"
        if result.exit is not Exit.ACCEPTED:
            return False, f"its run ended {result.status}: {result.reason or result.question}"
        leaves = cast(list[str], tool.sample.get("leaves") or [])
        if missing := [path for path in leaves if not (self.folder / path).is_file()]:
            return False, f"its sample left no {', '.join(missing)}"
        return await shows(tool, result.output)


def _write(path: Path, file: File | None) -> None:
    if file is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.raw)
    path.chmod(0o755 if file.executable else 0o644)


def _clear(trials: Path) -> None:
    """Of the trials that failed only the last ones are kept."""
    found = sorted(trials.iterdir(), key=lambda each: each.stat().st_mtime) if trials.is_dir() else []
    for old in found[:-KEPT_TRIALS]:
        shutil.rmtree(old, ignore_errors=True)
