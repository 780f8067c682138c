"""Tools tested by their own samples: programs directly, guided tools as a run with the configured ladder.

The results are kept in `state/system/standing.json`, by the hash of a tool's files, with how often the tool
failed in use. A program that is not known there is tested before its first use. A tool that fails its sample,
or fails in use again and again, is quarantined: its markdown says so, and the journal says why.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.model import child_id
from kernel.document.parser import parse
from kernel.errors import Exit, FractalError
from kernel.events import Event, now
from kernel.loop.run_context import RunContext
from kernel.tools.tool import Tool
from runtime.evolution.files import File, files, read, unit_of, with_field
from runtime.evolution.journal import MACHINE, PERSON, Entry, Journal
from runtime.evolution.sample_tests import lay_out, not_left, sample_missing, shows, try_sample
from runtime.operations.running import Runner
from runtime.sandbox.context import OperationContext
from runtime.tool_files import fingerprint_of
from runtime.workspace.runs import RunResult
from runtime.workspace.workspace import Workspace

REMEMBERED = 2_000
"""Versions of tools that are kept; the oldest are forgotten, and so tested again."""
KEPT_TRIALS = 10
"""Workspaces of failed samples that are kept."""


Play = Callable[[Path, str, str, float | None], Awaitable[RunResult]]
"""Does a task in a folder that is its own workspace, without a person to ask.

It gets the folder, the task, the tool that guides the loop at the top or "", and the most that it may cost.
"""


@dataclass(frozen=True)
class Tested:
    """How a sample went; `passed` is None if it could not be tested, and the note says why."""

    tool: str
    passed: bool | None
    note: str
    seconds: float = 0.0
    spent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    folder: str = ""  # the workspace of a run that failed


@dataclass(frozen=True)
class Record:
    """What is known of one version of a tool."""

    tool: str
    tested: str = ""
    run: str = ""
    passed: bool | None = None
    note: str = ""
    failures: int = 0  # in use, in a row


class ToolRecords:
    """Which tools of a workspace passed their samples, and how they do in use."""

    def __init__(self, journal: Journal, *, quarantine_after: int = 3) -> None:
        self.journal = journal
        self.path = journal.folder / "standing.json"
        self._after = quarantine_after
        self._tests: dict[str, asyncio.Lock] = {}

    def all(self) -> dict[str, Record]:
        """All records by fingerprint; if the file is damaged, none, so that tools are tested again."""
        try:
            values = json.loads(self.path.read_bytes())
            return {name: Record(**each) for name, each in values.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def get(self, tool: Tool) -> Record:
        """The record of a tool with its present files."""
        return self.all().get(fingerprint_of(tool), Record(tool.name))

    def put(self, tool: Tool, **changes: object) -> Record:
        """Change the record of a tool with its present files."""
        key = fingerprint_of(tool)
        with self.journal.locked():
            records = self.all()
            record = replace(records.pop(key, Record(tool.name)), **changes)
            newest = dict(list(records.items())[-REMEMBERED + 1 :]) | {key: record}
            raw = json.dumps({name: asdict(each) for name, each in newest.items()}, indent=0).encode()
            with disk.writing_state(self.path):
                disk.put(self.path, raw, mode=0o600)
        return record

    def name(self, tool: Tool) -> str:
        """The name of a tool's markdown in the workspace's own system; "" if it lies elsewhere."""
        path, system = tool.path.resolve(), self.journal.system.resolve()
        return path.relative_to(system).as_posix() if system in path.parents else ""

    async def admitted(self, run_context: RunContext, tool: Tool) -> str:
        """Why a tool may not be used, or ""; a program without a record is tested now."""
        if tool.scheme != "command" or not self.name(tool):
            return ""
        retry = f"`fractal tools test {tool.name}`"
        async with self._tests.setdefault(str(tool.path), asyncio.Lock()):
            if self.get(tool).passed:
                return ""
            if reason := sample_missing(tool):
                return f"{reason}: a program can be used after its own sample has passed; then {retry}"
            context = replace(run_context.context(tool), kept={})
            if reason := context.sandbox.available():
                return reason
            passed, note = await self.test_code(tool, context, run_context.call, run_context.id)
            if passed:
                return ""
            if "network" in tool.effects and not context.network:
                return f"{tool.name}: {note}; it may need the network: `network: true` in fractal.yaml"
            self.mark(tool, "quarantined", note, MACHINE, run=run_context.id)
            return f"{tool.name}: {note}; it is quarantined: fix {tool.path.parent}, then {retry}"

    async def test_code(
        self, tool: Tool, context: OperationContext, caller: Runner, run: str = ""
    ) -> tuple[bool, str]:
        """Run the sample of a tool that is not guided, and record the result."""
        passed, note = await try_sample(tool, context, caller)
        if tool.scheme == "command" and self.name(tool):
            self.put(tool, tested=now(), run=run, passed=passed, note=note, failures=0)
        return passed, note

    async def test(
        self,
        tool: Tool,
        workspace: Workspace,
        context: OperationContext,
        play: Play | None,
        caller: Runner,
    ) -> Tested:
        """Run a tool's sample; a draft or quarantined tool that passes becomes active."""
        began = time.monotonic()
        if why := _untestable(tool, context, play):
            return Tested(tool.name, None, why)
        if tool.guided and play:
            changed: dict[str, File | None] = {}
            if tool.status != "active":  # the trial needs it in use
                changed[self.name(tool)] = _with_status(tool, "active")
            tested = await play_sample(workspace, play, tool, changed=changed, guided=True)
        else:
            passed, note = await self.test_code(tool, context, caller)
            tested = Tested(tool.name, passed, note, time.monotonic() - began)
        if tested.passed and tool.status in ("draft", "quarantined") and self.name(tool):
            kind = "admitted" if tool.status == "draft" else "restored"
            self.mark(tool, "active", "its sample has passed", PERSON, kind=kind)
        return tested

    def heard(self, event: Event, run_context: RunContext) -> None:
        """Count the successes and failures of the workspace's own tools that replace no shipped one."""
        name, good = _finished_call(event, run_context)
        tool = run_context.catalogue.tools.get(name) if name else None
        path = self.name(tool) if tool and not tool.draft else ""
        if tool and path and not (self.journal.shipped / unit_of(path)).exists():
            self._count(tool, good, run_context.id)

    def _count(self, tool: Tool, good: bool, run: str) -> None:
        """Count a call; too many failures in a row put the tool into quarantine."""
        before = self.get(tool).failures
        if good and not before:
            return
        failures = self.put(tool, failures=0 if good else before + 1).failures
        if failures >= self._after:
            self.mark(tool, "quarantined", f"it failed {failures} times in a row in use", MACHINE, run=run)

    def mark(
        self, tool: Tool, status: str, reason: str, author: str, *, run: str = "", kind: str = ""
    ) -> Entry | None:
        """Write a status into the tool's own markdown, with an entry in the journal."""
        record, name, file = self.get(tool), self.name(tool), _with_status(tool, status)
        if file is None:
            return None
        entry = self.journal.change(kind or status, unit_of(name), {name: file}, author, reason, run=run)
        if record.passed:  # the status does not change what was tested
            self.put(tool, tested=record.tested, run=record.run, passed=True, note=record.note)
        return entry


def _with_status(tool: Tool, status: str) -> File | None:
    """A tool's markdown with another status; None if the file is gone."""
    file = read(tool.path)
    try:
        return file and replace(file, raw=with_field(file.raw.decode("utf-8"), "status", status).encode())
    except (FractalError, UnicodeDecodeError) as error:
        raise FractalError(f"{tool.path}: status: {status} cannot be written: {error}") from None


async def play_sample(
    workspace: Workspace,
    play: Play,
    tool: Tool,
    *,
    changed: Mapping[str, File | None],
    patterns: Mapping[str, bytes] | None = None,
    guided: bool = False,
    usd: float | None = None,
) -> Tested:
    """Do a sample in a workspace of its own in `state/system/trials/`, with a copy of the system.

    `changed` are files of the system to change in the copy, `patterns` learned patterns to put there. The
    task is `guided` by the tool itself, else done as any task. The workspace is kept if the sample fails.
    """
    began = time.monotonic()
    trials = workspace.state / "system" / "trials"
    old = sorted(trials.iterdir(), key=lambda each: each.stat().st_mtime) if trials.is_dir() else []
    for each in old[:-KEPT_TRIALS]:
        with suppress(OSError):
            disk.remove_all(each)
    folder = trials / f"{tool.name}-{secrets.token_hex(3)}"
    spent: dict[str, Any] = {}
    try:
        _lay_out(workspace, tool, folder, changed, patterns or {})
        result = await play(folder, str(tool.sample["task"]), tool.name if guided else "", usd)
        spent = dict(result.spent)
        passed, note = await _judge(tool, result, folder)
    except FractalError as error:
        passed, note = False, str(error)
    if passed:
        with suppress(OSError):
            disk.remove_all(folder)
    kept_folder = "" if passed else str(folder)
    return Tested(tool.name, passed, note, time.monotonic() - began, spent, kept_folder)


def _lay_out(
    workspace: Workspace,
    tool: Tool,
    folder: Path,
    changed: Mapping[str, File | None],
    patterns: Mapping[str, bytes],
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    made = Workspace(folder, folder / ".fractal", workspace.shipped)
    made.make()
    own, state = made.root / "system", made.state
    (state / "system").mkdir(parents=True, mode=0o700)
    source = workspace.root / "system"
    for path in files(source):
        _write(own / path.relative_to(source), read(path))
    for name, file in changed.items():
        _write(own / name, file)
    records = workspace.state / "system" / "standing.json"
    if records.is_file():  # what passed its test here need not be tested there
        shutil.copyfile(records, state / "system" / records.name)
    for name, raw in patterns.items():
        _write(state / "memory" / "patterns" / name, File(raw))
    if problem := lay_out(tool, folder):
        raise FractalError(problem)


async def _judge(tool: Tool, result: RunResult, folder: Path) -> tuple[bool, str]:
    """Whether a run did what the tool's sample says, and a note."""
    question = parse(result.path.read_bytes(), str(result.path)).note(1, "question")
    if result.waiting == "person" and question and question.origin != "kernel":  # a tool that asks
        passed, note = await shows(tool, result.question)
        return passed, note if passed else f"it asks a person: {result.question}"
    if result.exit is not Exit.ACCEPTED:
        return False, f"its run ended {result.status}: {result.reason or result.question}"
    if missing := not_left(tool, folder):
        return False, missing
    return await shows(tool, result.output)


def _untestable(tool: Tool, context: OperationContext, play: Play | None) -> str:
    """Why a tool's sample cannot be run, or ""."""
    if tool.skill:
        return "a skill has no sample; it needs no test"
    if tool.scheme == "mcp":
        return "a server's tool has no sample here"
    if not (why := sample_missing(tool)) and tool.guided and not play:
        return "no model is configured that could do its sample; see --model"
    return why or (context.sandbox.available() or "" if tool.scheme == "command" else "")


def _write(path: Path, file: File | None) -> None:
    if file is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.raw)
    path.chmod(0o755 if file.executable else 0o644)


def _finished_call(event: Event, run_context: RunContext) -> tuple[str, bool]:
    """The tool whose call has ended with this event, and whether it succeeded; "" for any other event.

    A refused call, such as one with wrong arguments, does not count.
    """
    data = event.data
    if event.kind == "loop_finished" and data["status"] in ("complete", "unverified", "failed", "escalated"):
        return event.type, data["exit"] == 0
    if event.kind == "step_finished" and data.get("state") in ("done", "failed"):
        name = str(data.get("tool"))
        child = child_id(event.loop_id, event.run, "operation", name, int(data["step"]))
        if run_context.store.exists(child):
            return name, data["state"] == "done"
    return "", False
