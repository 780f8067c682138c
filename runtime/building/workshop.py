"""What a run has to do with changes of the system: programs admitted, failures counted, drafts registered."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kernel.catalogue import Catalogue
from kernel.events import Event, Listener, silent
from kernel.operations import OperationContext
from kernel.sandbox import Sandbox
from kernel.tools import Tool
from kernel.workspace import Workspace, root_id
from kernel.world import World
from runtime.building.journal import MACHINE, PERSON, Entry, Journal
from runtime.building.standing import Standing
from runtime.config import Config


class Workshop:
    """The system of one workspace, as something that changes. Cheap to make."""

    def __init__(self, workspace: Workspace, config: Config, listener: Listener = silent) -> None:
        self.workspace = workspace
        self.config = config
        self._listener = listener
        self._run = ""
        self.journal = Journal(workspace, fsync=config.fsync, told=self._tell)
        self.standing = Standing(self.journal, quarantine_after=config.quarantine_after)

    def begin(self, world: World) -> None:
        """Before a run does anything: what a person has changed is noticed, and programs must be admitted."""
        self._run = world.run
        self.journal.notice()
        world.admitted = partial(self.standing.admitted, world)
        world.listener = self.standing.watching(world, world.listener)

    def context(self, tool: Tool, catalogue: Catalogue) -> OperationContext:
        """What a tool gets whose sample is run."""
        config = self.config
        return OperationContext(
            self.workspace.folder,
            Sandbox(config.sandbox, config.network, config.limits()),
            dict(config.operations),
            tool.timeout,
            self.workspace.protected,
            tool.effects,
            config.network,
            catalogue.places(),
        )

    def _tell(self, entry: Entry) -> None:
        if entry.author == PERSON or entry.kind == "found":
            return
        run = entry.run or self._run
        data = {"unit": entry.unit, "entry": entry.id, "change": entry.kind, "reason": entry.reason}
        data["message"] = sentence(entry)
        self._listener(Event("system_changed", run, root_id(run) if run else "", data=data))


VERBS = {
    "found": "found",
    "edited": "changed",
    "added": "added",
    "admitted": "added",
    "adopted": "adopted",
    "proposed": "proposed",
    "quarantined": "quarantined",
    "restored": "made active again",
    "retired": "retired",
    "dropped": "dropped the proposal for",
    "rollback": "rolled back",
}
"""What happened to a unit, in a sentence of which it is the object."""


def named(unit: str) -> str:
    """A unit in words: `tool web`, `operation mail`, or the file."""
    folder, _, name = unit.partition("/")
    if folder == "tools":
        return f"tool {name}"
    if folder in ("operations", "kernel"):
        return f"operation {Path(name).stem}"
    return unit or "the system"


def sentence(entry: Entry) -> str:
    """An entry in a line, with the command that takes it back."""
    if entry.kind == "proposed":
        return f"{entry.reason}; `fractal system adopt {entry.proposal}` adopts it"
    why = f" ({entry.reason})" if entry.reason and entry.author == MACHINE else ""
    return f"{VERBS[entry.kind]} {named(entry.unit)}{why}; `fractal system rollback {entry.id}` takes it back"
