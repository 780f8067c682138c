"""What runs have to do with changes of the system: programs tested, failures counted, drafts registered."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from kernel import disk
from kernel.document.model import root_id
from kernel.errors import DocumentError, FractalError, RunLocked, UsageError
from kernel.events import Event, Listener, silent
from kernel.loop.run_context import RunContext
from kernel.store.files import FileStore
from kernel.tools.operations import OperationContext
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import NO_SKILLS
from runtime.evolution.drafts import Drafts
from runtime.evolution.files import File
from runtime.evolution.journal import MACHINE, PERSON, Entry, Journal
from runtime.evolution.proposals import Proposal, Proposals
from runtime.evolution.registration import Registration, documents_of, drafted_files
from runtime.evolution.samples import ToolRecords
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.runs import RunResult
from runtime.workspace.settings import Config
from runtime.workspace.workspace import Workspace, run_lock


class Workshop:
    """The system of one workspace, as something that changes. Cheap to make."""

    def __init__(self, workspace: Workspace, config: Config, listener: Listener = silent) -> None:
        self.workspace = workspace
        self.config = config
        self._listener = listener
        self._to_read: set[str] = set()  # runs whose documents may show something that was lacking
        self._lacked: dict[str, list[Proposal]] = {}
        self.journal = Journal(workspace, fsync=config.fsync, told=self._tell)
        self.proposals = Proposals(self.journal)
        self.records = ToolRecords(self.journal, quarantine_after=config.quarantine_after)

    def open(self, but: str = "") -> None:
        """Record what a person has changed, and register what runs (all `but` one) built before a crash."""
        self.journal.notice()
        if not self._building.is_dir():
            return
        for marker in sorted(self._building.iterdir()):
            if marker.name == but:
                continue
            folder = self.workspace.runs / marker.name
            try:
                with run_lock(folder):
                    self._register(folder)
            except RunLocked:
                continue  # its own process does it
            except (UsageError, DocumentError):  # the run is gone or cannot be read
                disk.remove(marker)

    def begin(self, run_context: RunContext) -> None:
        """Before a run: from now on programs are tested before use, and failures are counted."""
        self.open(but=run_context.id)
        for fault in run_context.catalogue.faults:
            if fault.message == NO_SKILLS:
                self._warn(run_context.id, f"{NO_SKILLS}: {fault.path}; fix the setting `skills`")
        run_context.admitted = partial(self.records.admitted, run_context)
        run_context.listener = self._watching(run_context, run_context.listener)

    def end(self, run_context: RunContext, result: RunResult) -> None:
        """After a run: register what it built and note what it lacked; failures here are only warnings."""
        run, folder = run_context.id, self.workspace.runs / run_context.id
        try:
            self._register(folder)
        except (FractalError, OSError) as error:
            self._warn(run, f"what it built is not part of the system yet: {error}")
        over = result.status not in ("waiting", "interrupted")
        if over and self.config.build != "never" and run in self._to_read:
            self._to_read.discard(run)
            try:
                from runtime.evolution.missing_tools import MissingTools  # most runs do not need it

                made = MissingTools(self.journal, self.proposals).look(documents_of(FileStore(folder)))
            except (FractalError, OSError) as error:
                self._warn(run, f"what it lacked is not noted: {error}")
            else:
                self._lacked[run] = made if self.config.build == "auto" else []

    def lacked(self, run: str) -> list[Proposal]:
        """The proposals that a finished run led to, to be built now; returned once."""
        return self._lacked.pop(run, [])

    def close(self, proposal: Proposal, run: str) -> None:
        """Close a proposal that a run has built."""
        reason = f"built by run {run}"
        self.journal.change("adopted", proposal.unit, {}, MACHINE, reason, proposal=proposal.id)

    def salvaged(self, run: str) -> list[Proposal]:
        """The open proposals of a run; what it drafted without being accepted is proposed first."""
        folder = self.workspace.runs / run
        with run_lock(folder):
            return self._registration(folder).salvage()

    def drafted(self) -> list[tuple[str, str, dict[str, File | None]]]:
        """Drafts that are not in the journal: run, unit, files."""
        known = {(entry.run, entry.unit) for entry in self.journal.entries()}
        found: list[tuple[str, str, dict[str, File | None]]] = []
        for run in self.workspace.run_ids():
            drafts = self._drafts(self.workspace.runs / run)
            units = [unit for unit in drafts.units() if (run, unit) not in known]
            found += [(run, unit, drafted_files(drafts, unit)) for unit in units]
        return found

    def context(self, tool: Tool) -> OperationContext:
        """The context in which a tool's sample runs."""
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

    @property
    def _building(self) -> Path:
        return self.journal.folder / "building"

    def _drafts(self, folder: Path) -> Drafts:
        systems = self.workspace.systems if self.config.shipped else self.workspace.systems[:1]
        return Drafts(folder / "drafts", systems)

    def _registration(self, folder: Path) -> Registration:
        return Registration(self.journal, self.proposals, self._drafts(folder), folder)

    def _register(self, folder: Path) -> None:
        """Register what a run has built if its root was accepted; an unfinished run keeps its marker."""
        if not (folder / "drafts").is_dir() or not FileStore(folder).peek(root_id(folder.name)).ended:
            return
        for text in self._registration(folder).register(ask=self.config.admit == "ask"):
            self._warn(folder.name, text)
        disk.remove(self._building / folder.name)

    def _watching(self, run_context: RunContext, listener: Listener) -> Listener:
        """A listener that also counts failures, marks a run that drafts, and notes one worth reading."""
        folder, marked = self.workspace.runs / run_context.id, False

        def hear(event: Event) -> None:
            nonlocal marked
            listener(event)
            self.records.heard(event, run_context)
            bash = event.kind == "step_finished" and event.data.get("tool") == "bash"
            if bash or (event.kind == "loop_finished" and event.data.get("status") == "escalated"):
                self._to_read.add(run_context.id)
            progress = event.kind in ("step_finished", "loop_started")
            if progress and not marked and (folder / "drafts").is_dir():
                with suppress(OSError):  # the end of the run looks for drafts without the marker, too
                    disk.put(self._building / run_context.id, b"", mode=0o600, fsync=self.config.fsync)
                marked = True

        return hear

    def _warn(self, run: str, message: str) -> None:
        self._listener(Event("warning", run, root_id(run), data={"message": message}))

    def _tell(self, entry: Entry) -> None:
        if entry.author != PERSON and entry.kind != "found":
            run, told = entry.run, {"unit": entry.unit, "entry": entry.id, "change": entry.kind}
            data = {**told, "reason": entry.reason, "message": entry.sentence()}
            self._listener(Event("system_changed", run, root_id(run) if run else "", data=data))
