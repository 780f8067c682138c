"""What a run has to do with changes of the system: programs admitted, failures counted, drafts registered."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from kernel import disk
from kernel.catalogue import NO_SKILLS
from kernel.drafts import Drafts
from kernel.errors import DocumentError, FractalError, RunLocked, UsageError
from kernel.events import Event, Listener, silent
from kernel.operations import OperationContext
from kernel.sandbox import Sandbox
from kernel.store import FileStore
from kernel.tools import Tool
from kernel.workspace import Workspace, root_id, run_lock
from kernel.world import World
from runtime.building.contents import File
from runtime.building.journal import MACHINE, PERSON, Entry, Journal
from runtime.building.proposals import Proposal, Proposals
from runtime.building.registering import documents_of, drafted_files, register, salvage
from runtime.building.standing import Standing
from runtime.config import Config
from runtime.results import RunResult


class Workshop:
    """The system of one workspace, as something that changes. Cheap to make."""

    def __init__(self, workspace: Workspace, config: Config, listener: Listener = silent) -> None:
        self.workspace = workspace
        self.config = config
        self._listener = listener
        self._telling: set[str] = set()  # runs whose documents tell of something lacking, or may
        self._lacked: dict[str, list[Proposal]] = {}
        self.journal = Journal(workspace, fsync=config.fsync, told=self._tell)
        self.proposals = Proposals(self.journal)
        self.standing = Standing(self.journal, quarantine_after=config.quarantine_after)

    def open(self, but: str = "") -> None:
        """Before the system is looked at: what a person has changed is noticed, half done work is ended."""
        self.journal.notice()
        if not self._building.is_dir():
            return
        for marker in sorted(self._building.iterdir()):
            folder = self.workspace.runs / marker.name
            if marker.name == but:
                continue
            try:
                with run_lock(folder):
                    self._register(folder)
            except RunLocked:
                continue  # its own process does it
            except (UsageError, DocumentError):  # there is no such run any more, or none that can be read
                disk.remove(marker)

    def begin(self, world: World) -> None:
        """Before a run does anything: programs must be admitted from now on, and failures are counted."""
        self.open(but=world.run)
        for fault in world.catalogue.faults:
            if fault.message == NO_SKILLS:
                self._warn(world.run, f"{NO_SKILLS}: {fault.path}; mend the setting `skills`")
        world.admitted = partial(self.standing.admitted, world)
        world.listener = self._marking(world, self.standing.watching(world, world.listener))

    def end(self, world: World, result: RunResult) -> None:
        """After a run: what it has built becomes part of the system; its own result is never in danger."""
        folder = self.workspace.runs / world.run
        try:
            self._register(folder)
        except (FractalError, OSError) as error:
            self._warn(world.run, f"what it built is not part of the system yet: {error}")
        over = result.status not in ("waiting", "interrupted")
        if over and self.config.build != "never" and world.run in self._telling:
            self._telling.discard(world.run)
            try:
                from runtime.building.needs import Needs  # most runs leave nothing for it to read

                made = Needs(self.journal, self.proposals).look(documents_of(FileStore(folder)))
            except (FractalError, OSError) as error:
                self._warn(world.run, f"what it lacked is not noted: {error}")
            else:
                self._lacked[world.run] = made if self.config.build == "auto" else []

    def lacked(self, run: str) -> list[Proposal]:
        """What was proposed for a run that has ended, to be built now if the settings say so; told once."""
        return self._lacked.pop(run, [])

    def close(self, proposal: Proposal, run: str) -> None:
        """A run has built what a proposal asked for."""
        reason = f"built by run {run}"
        self.journal.change("adopted", proposal.unit, {}, MACHINE, reason, proposal=proposal.id)

    @property
    def _building(self) -> Path:
        return self.journal.folder / "building"

    def _drafts(self, folder: Path) -> Drafts:
        systems = self.workspace.systems if self.config.shipped else self.workspace.systems[:1]
        return Drafts(folder / "drafts", systems)

    def _marking(self, world: World, listener: Listener) -> Listener:
        """A listener that marks a run as one that builds, before its root can be accepted.

        It also remembers which runs are worth being read once they have ended.
        """
        folder, marked = self.workspace.runs / world.run, False

        def hear(event: Event) -> None:
            nonlocal marked
            listener(event)
            bash = event.kind == "step_finished" and event.data.get("tool") == "bash"
            if bash or (event.kind == "loop_finished" and event.data.get("status") == "escalated"):
                self._telling.add(world.run)
            if (
                not marked
                and event.kind in ("step_finished", "loop_started")
                and (folder / "drafts").is_dir()
            ):
                with suppress(OSError):  # at the run's end its drafts are looked for, mark or not
                    disk.put(self._building / world.run, b"", mode=0o600, fsync=self.config.fsync)
                marked = True

        return hear

    def _register(self, folder: Path) -> None:
        """Register what a run has built, if its root was accepted; one that goes on keeps its mark."""
        if not (folder / "drafts").is_dir():
            return
        root = FileStore(folder).peek(root_id(folder.name))
        if not root.ended:
            return
        ask = self.config.admit == "ask"
        for text in register(self.journal, self.proposals, self._drafts(folder), folder, ask=ask):
            self._warn(folder.name, text)
        disk.remove(self._building / folder.name)

    def salvaged(self, run: str) -> list[Proposal]:
        """The open proposals of a run, and what it drafted that was never accepted, as proposals."""
        folder = self.workspace.runs / run
        with run_lock(folder):
            return salvage(self.journal, self.proposals, self._drafts(folder), folder)

    def drafted(self) -> list[tuple[str, str, dict[str, File | None]]]:
        """What runs that did not end well, or have not ended, have drafted: run, unit, files."""
        known = {(entry.run, entry.unit) for entry in self.journal.entries()}
        found: list[tuple[str, str, dict[str, File | None]]] = []
        for run in self.workspace.run_ids():
            drafts = self._drafts(self.workspace.runs / run)
            units = [unit for unit in drafts.units() if (run, unit) not in known]
            found += [(run, unit, drafted_files(drafts, unit)) for unit in units]
        return found

    def _warn(self, run: str, message: str) -> None:
        self._listener(Event("warning", run, root_id(run), data={"message": message}))

    def context(self, tool: Tool) -> OperationContext:
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
            private=self.workspace.private,
        )

    def _tell(self, entry: Entry) -> None:
        if entry.author == PERSON or entry.kind == "found":
            return
        run = entry.run
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


KINDS = ("tools", "operations")
"""What a proposal to build is about, in place of a unit."""


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
        does = f"builds a new {entry.unit.removesuffix('s')}" if entry.unit in KINDS else "adopts it"
        return f"{entry.reason}; `fractal system adopt {entry.proposal}` {does}"
    if entry.unit in KINDS:
        return f"{VERBS[entry.kind]} {entry.proposal}: {entry.reason}"
    why = f" ({entry.reason})" if entry.reason and entry.author == MACHINE else ""
    return f"{VERBS[entry.kind]} {named(entry.unit)}{why}; `fractal system rollback {entry.id}` takes it back"
