"""Which programs have passed their own sample, by the hash of their files; how often tools failed in use.

It stands in `state/system/standing.json`. What is not known there is tested before its first use, and a tool
that fails its sample, or in use again and again, is quarantined: its markdown says so, and the journal why.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from kernel import disk
from kernel.acting import Runner
from kernel.errors import FractalError
from kernel.events import Event, Listener, now
from kernel.operations import OperationContext
from kernel.tools import Tool
from kernel.trying import sample_missing, try_sample
from kernel.workspace import child_id
from kernel.world import World
from runtime.building.contents import File, read
from runtime.building.fields import with_field
from runtime.building.journal import MACHINE, Entry, Journal, unit_named

REMEMBERED = 2_000
"""Fingerprints that are kept; the oldest are forgotten, and so tested anew."""


@dataclass(frozen=True)
class Record:
    """What is known of one version of a tool."""

    tool: str
    tested: str = ""
    run: str = ""
    passed: bool | None = None
    note: str = ""
    failures: int = 0  # in use, in a row


class Standing:
    """The record of tests of one workspace."""

    def __init__(self, journal: Journal, *, quarantine_after: int = 3) -> None:
        self.journal = journal
        self.path = journal.folder / "standing.json"
        self._after = quarantine_after
        self._tests: dict[str, asyncio.Lock] = {}

    # ---- what is known ----

    def records(self) -> dict[str, Record]:
        """All records by fingerprint; a broken file is as good as none: tools are tested again."""
        try:
            told = json.loads(self.path.read_bytes())
            return {name: Record(**each) for name, each in told.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def record(self, tool: Tool) -> Record:
        """What is known of a tool as its files stand now."""
        return self.records().get(tool.fingerprint(), Record(tool.name))

    def put(self, tool: Tool, **changes: object) -> Record:
        """Note something about a tool as its files stand now."""
        key = tool.fingerprint()
        with self.journal.held():
            records = self.records()
            record = replace(records.pop(key, Record(tool.name)), **changes)
            kept = dict(list(records.items())[-REMEMBERED + 1 :]) | {key: record}
            raw = json.dumps({name: asdict(each) for name, each in kept.items()}, indent=0).encode()
            with disk.of_the_state(self.path):
                disk.put(self.path, raw, mode=0o600)
        return record

    def own(self, tool: Tool) -> bool:
        """Whether it lies in the workspace's own system."""
        return self.journal.system.resolve() in tool.path.resolve().parents

    # ---- a test before the first use ----

    async def admitted(self, world: World, tool: Tool) -> str:
        """Why a tool may not be used, "" when it may; a program that is not known is tested now."""
        if tool.scheme != "command" or not self.own(tool):
            return ""
        async with self._tests.setdefault(str(tool.path), asyncio.Lock()):
            if self.record(tool).passed:
                return ""
            if why := sample_missing(tool):
                return f"{why}: a program is used once its own sample has passed; then `{_test(tool)}`"
            if why := world.sandbox.available():
                return why
            context = replace(world.context(tool), kept={})
            passed, note = await self.test(tool, context, world.runners, world.run)
            if passed:
                return ""
            if "network" in tool.effects and not context.network:
                return f"{tool.name}: {note}; it may need the network: `network: true` in fractal.yaml"
            self.mark(tool, "quarantined", note, MACHINE, run=world.run)
            return f"{tool.name}: {note}; it is quarantined: mend {tool.path.parent}, then `{_test(tool)}`"

    async def test(
        self, tool: Tool, context: OperationContext, runners: Mapping[str, Runner], run: str = ""
    ) -> tuple[bool, str]:
        """Run the sample of a tool that is no guided loop, and keep what came of it."""
        passed, note = await try_sample(tool, context, runners)
        if tool.scheme == "command" and self.own(tool):
            self.put(tool, tested=now(), run=run, passed=passed, note=note, failures=0)
        return passed, note

    # ---- how it does in use ----

    def watching(self, world: World, listener: Listener) -> Listener:
        """A listener that also counts how the workspace's own tools do in this run."""

        def hear(event: Event) -> None:
            listener(event)
            name, good = _used(event, world)
            tool = world.catalogue.tools.get(name) if name else None
            if tool and not tool.draft and self.own(tool) and not self.shipped(tool):
                self.count(tool, good, world.run)

        return hear

    def shipped(self, tool: Tool) -> bool:
        """Whether it is one that ships, or the workspace's own version of one."""
        return (self.journal.shipped / self.unit(tool)).exists()

    def count(self, tool: Tool, good: bool, run: str = "") -> Entry | None:
        """Count a call; too many failures in a row put the tool into quarantine."""
        failures = self.record(tool).failures
        if good and not failures:
            return None
        record = self.put(tool, failures=0 if good else failures + 1)
        if good or record.failures < self._after:
            return None
        reason = f"it failed {record.failures} times in a row in use"
        return self.mark(tool, "quarantined", reason, MACHINE, run=run)

    # ---- what its markdown says ----

    def mark(
        self, tool: Tool, status: str, reason: str, author: str, *, run: str = "", kind: str = ""
    ) -> Entry | None:
        """Write a status into the tool's own markdown, with an entry of the journal."""
        name = tool.path.resolve().relative_to(self.journal.system.resolve()).as_posix()
        file = read(tool.path)
        if file is None:
            return None
        try:
            text = with_field(file.raw.decode("utf-8"), "status", status)
        except (FractalError, UnicodeDecodeError) as error:
            raise FractalError(f"{tool.path}: status: {status} cannot be written: {error}") from None
        known = self.record(tool)
        changed = {name: File(text.encode(), file.executable)}
        entry = self.journal.change(kind or status, self.unit(tool), changed, author, reason, run=run)
        if known.passed:  # a word of its frontmatter is no change of what was tested
            self.put(tool, tested=known.tested, run=known.run, passed=True, note=known.note)
        return entry

    def unit(self, tool: Tool) -> str:
        """What the journal calls it."""
        name = tool.path.resolve().relative_to(self.journal.system.resolve()).as_posix()
        return unit_named(name, {})


def _test(tool: Tool) -> str:
    return f"fractal tools test {tool.name}"


def _used(event: Event, world: World) -> tuple[str, bool]:
    """The tool whose call an event tells the end of, and whether it went well; "" for any other event.

    A call that was refused, such as for wrong arguments, is no call.
    """
    told = event.data
    if event.kind == "loop_finished" and told["status"] in ("complete", "unverified", "failed", "escalated"):
        return event.type, told["exit"] == 0
    if event.kind == "step_finished" and told.get("state") in ("done", "failed"):
        name = str(told.get("tool"))
        made = child_id(event.loop_id, event.run, "operation", name, int(told["step"]))
        if world.store.exists(made):
            return name, told["state"] == "done"
    return "", False
