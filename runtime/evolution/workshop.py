"""Changes of the system by runs: tests programs, counts failures, registers drafts.

What a run has drafted becomes part of the system after its root is accepted: at once, or as a proposal. This
depends on documents, drafts and the journal alone: if a process dies, the next one finishes its work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kernel import disk
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, root_id
from kernel.errors import DocumentError, FractalError, RunLocked, UsageError
from kernel.events import Event, Listener, silent
from kernel.loop.criteria import Finding
from kernel.loop.run_context import RunContext, overseen
from kernel.store.files import FileStore
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import NO_SKILLS, faults_of
from runtime.evolution.drafts import Drafts, written_by
from runtime.evolution.files import TOOL_FILE, File, read, tool_at, unit_files, with_field
from runtime.evolution.journal import MACHINE, PERSON, Entry, Journal
from runtime.evolution.proposals import Proposal, Proposals
from runtime.evolution.samples import ToolRecords
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.settings import Config
from runtime.workspace.workspace import DEFAULT, Workspace, run_lock

TOOLS = ("tools", "operations", "kernel")
"""New units of these folders become active at once, and new phase files; anything else is proposed."""
NOTE_CHARS = 160
Files = Mapping[str, File | None]


class Workshop:
    """The system of one workspace, as something that changes. Cheap to make."""

    def __init__(self, workspace: Workspace, config: Config, listener: Listener = silent) -> None:
        self.workspace = workspace
        self.config = config
        self._listener = listener
        self._to_read: set[str] = set()  # runs whose documents may show something that was lacking
        self._lacked: dict[str, list[Proposal]] = {}
        self.journal = Journal(workspace, fsync=config.fsync, on_entry=self._report_change)
        self.proposals = Proposals(self.journal)
        self.records = ToolRecords(self.journal, quarantine_after=config.quarantine_after)
        self._building = self.journal.folder / "building"  # a file for each run with drafts to register

    def open(self, but: str = "") -> None:
        """Record what a person has changed, and register what runs (all `but` one) built before a crash."""
        self.journal.notice()
        for marker in sorted(self._building.iterdir()) if self._building.is_dir() else ():
            if marker.name == but:
                continue
            try:
                with run_lock(self.workspace.runs / marker.name):
                    self._register(marker.name)
            except RunLocked:
                continue  # its own process does it
            except (UsageError, DocumentError):  # the run was removed or cannot be read
                disk.remove(marker)

    def begin(self, run_context: RunContext) -> None:
        """Before a run: from now on programs are tested before use, and failures are counted."""
        self.open(but=run_context.id)
        for fault in faults_of(run_context.catalogue):
            if fault.message == NO_SKILLS:
                self._warn(run_context.id, f"{NO_SKILLS}: {fault.path}; fix the setting `skills`")
        run_context.listener = self._watching(run_context, run_context.listener)

    def end(self, run: str, status: str) -> None:
        """After a run: register what it built and note what it lacked; failures here are only warnings."""
        try:
            self._register(run)
        except (FractalError, OSError) as error:
            self._warn(run, f"what it built is not part of the system yet: {error}")
        over = status not in ("waiting", "interrupted")
        if over and self.config.build != "never" and run in self._to_read:
            self._to_read.discard(run)
            try:
                from runtime.evolution.missing_tools import MissingTools  # most runs do not need it

                proposals = MissingTools(self.journal, self.proposals).look(self._documents(run))
            except (FractalError, OSError) as error:
                self._warn(run, f"what it lacked is not noted: {error}")
            else:
                self._lacked[run] = proposals if self.config.build == "auto" else []

    def lacked(self, run: str) -> list[Proposal]:
        """The proposals that a finished run led to, to be built now; returned once."""
        return self._lacked.pop(run, [])

    def close(self, proposal: Proposal, run: str) -> None:
        """Close a proposal that a run has built."""
        reason = f"built by run {run}"
        self.journal.change("adopted", proposal.unit, {}, MACHINE, reason, proposal=proposal.id)

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

    def salvaged(self, run: str) -> list[Proposal]:
        """The open proposals of a run; what it drafted without being accepted is proposed first."""
        with run_lock(self.workspace.runs / run):
            for unit, files, source in self._unregistered(run):
                self._propose(run, unit, "drafted, and not accepted", files, source)
        return [each for each in self.proposals.open() if each.run == run]

    def drafted(self) -> list[tuple[str, str, dict[str, File | None]]]:
        """Drafts that are not in the journal: run, unit, files."""
        recorded = {(entry.run, entry.unit) for entry in self.journal.entries()}
        drafted: list[tuple[str, str, dict[str, File | None]]] = []
        for run in self.workspace.run_ids():
            drafts = self._drafts(run)
            units = [unit for unit in drafts.units() if (run, unit) not in recorded]
            drafted += [(run, unit, drafted_files(drafts, unit)) for unit in units]
        return drafted

    def _drafts(self, run: str) -> Drafts:
        systems = self.workspace.systems if self.config.shipped else self.workspace.systems[:1]
        return Drafts(self.workspace.runs / run / "drafts", systems)

    def _documents(self, run: str) -> list[Document]:
        """The documents of a run that can be read, parents before children."""
        store = FileStore(self.workspace.runs / run)
        documents: list[Document] = []
        for loop_id in store.list():
            with suppress(DocumentError):
                documents.append(store.peek(loop_id))
        return documents

    def _register(self, run: str) -> None:
        """Admit or propose what an accepted run has built; an unfinished run keeps its marker."""
        folder = self.workspace.runs / run
        if not (folder / "drafts").is_dir():
            return
        self.proposals.sweep()
        root = FileStore(folder).peek(root_id(run))
        if root.meta.status == "complete":
            self._register_accepted(run, root)
        elif root.ended:
            self._keep_designs(run)
        if root.ended:
            disk.remove(self._building / run)

    def _register_accepted(self, run: str, root: Document) -> None:
        findings: dict[str, Finding] = {}
        for line in root.text(4, "evidence").splitlines():
            if (finding := Finding.read(line)) and "draft" in finding.criterion:
                findings.setdefault(str(finding.criterion["draft"]), finding)  # the kernel's own come first
        agent = str(root.meta.extra.get("agent") or DEFAULT)
        for unit, files, source in self._unregistered(run, findings):
            passed, note = findings[unit].after, " ".join(findings[unit].note.split())[:NOTE_CHARS]
            if passed is False:
                self._warn(run, f"{unit} is not part of the system: {note}")
            elif passed and self.config.admit != "ask" and not self._guarded(self._drafts(run), unit):
                self.journal.change("admitted", unit, files, f"run {run}", note, agent=agent, **source)
            else:
                self._propose(run, unit, note, files, source)
        for entry in self.journal.entries():  # also what a process had admitted that died before it went on
            if entry.run == run and entry.kind == "admitted" and not any(each.before for each in entry.files):
                self._propose_reflex(run, entry)

    def _keep_designs(self, run: str) -> None:
        """Propose what oversight has designed in a run that was not accepted."""
        designed = {document.meta.id for document in self._documents(run) if overseen(document)}
        for unit, files, source in self._unregistered(run):
            if source["step"].rpartition(":")[0] in designed:
                self._propose(run, unit, "designed by oversight, and not accepted", files, source)

    def _unregistered(
        self, run: str, units: Mapping[str, object] | None = None
    ) -> Iterator[tuple[str, Files, dict[str, Any]]]:
        """The drafts of a run (only `units`) that are neither in the journal nor proposed.

        Yields a unit, its files as the system is to have them, and which step and model drafted them.
        """
        drafts, documents = self._drafts(run), self._documents(run)
        for unit in drafts.units():
            if units is not None and unit not in units:
                continue
            files = drafted_files(drafts, unit)
            marks = [[name, file.mark if file else ""] for name, file in sorted(files.items())]
            draft = fingerprint(marks)[:16]
            if not self._is_known(run, unit, draft):
                step, model = _origin(documents, unit)
                yield unit, files, {"run": run, "step": step, "model": model, "draft": draft}

    def _is_known(self, run: str, unit: str, draft: str) -> bool:
        for proposal in self.proposals.all():
            if (proposal.run, proposal.unit, proposal.draft) == (run, unit, draft):
                self.proposals.record(proposal)  # its process may have died before it could
                return True
        return any((e.run, e.unit, e.draft) == (run, unit, draft) for e in self.journal.entries())

    def _propose(self, run: str, unit: str, note: str, files: Files, source: Mapping[str, Any]) -> None:
        new = not any((system / unit).exists() for system in self._drafts(run).systems)
        reason = f"a {'new ' if new else 'change of '}{unit}: {note}"
        self.proposals.make(Proposal("change", unit, reason, f"run {run}", files=files, **source))

    def _propose_reflex(self, run: str, entry: Entry) -> None:
        """Propose a reflex for the sample of a program that was admitted; repeating it changes nothing."""
        for name in filter(TOOL_FILE.fullmatch, (each.path for each in entry.files)):
            path = self.journal.system / name
            tool = tool_at(path) if path.is_file() else None  # taken back since
            if isinstance(tool, Tool) and tool.scheme == "command":
                from runtime.evolution.sample_reflexes import sample_reflex  # most runs build no tool

                made = sample_reflex(tool, self._drafts(run).systems)
                if made and not self._is_known(run, made[0], entry.draft):
                    reason = f"a new {made[0]}: the sample of {tool.name} without a model"
                    proposal = Proposal("change", made[0], reason, f"run {run}", files=dict([made]))
                    source = {"step": entry.step, "model": entry.model, "draft": entry.draft}
                    self.proposals.make(replace(proposal, run=run, **source))

    def _guarded(self, drafts: Drafts, unit: str) -> bool:
        """Whether a change of this unit is always proposed: of phases, pattern.md, of what ships."""
        folder, systems = unit.partition("/")[0], drafts.systems
        if folder in TOOLS:
            systems = systems[1:] or systems  # with one system, all of it ships
        elif folder != "phases":
            return True
        return any((system / unit).exists() for system in systems)

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

    def _report_change(self, entry: Entry) -> None:
        if entry.author != PERSON and entry.kind != "found":
            run, fields = entry.run, {"unit": entry.unit, "entry": entry.id, "change": entry.kind}
            data = {**fields, "reason": entry.reason, "message": entry.sentence()}
            self._listener(Event("system_changed", run, root_id(run) if run else "", data=data))


def drafted_files(drafts: Drafts, unit: str) -> dict[str, File | None]:
    """The files of a drafted unit as the system is to have them; a tool's other files there are removed."""
    drafted = unit_files(drafts.folder, unit)
    files_by_name = {name: _active(name, read(drafts.folder / name)) for name in drafted}
    if (drafts.system / unit).is_dir():
        files_by_name |= dict.fromkeys(set(unit_files(drafts.system, unit)) - {*drafted})
    return files_by_name


def _active(name: str, file: File | None) -> File | None:
    """A tool's markdown with its status `active` and its origin `designed`; other files as they are."""
    if file is None or not TOOL_FILE.fullmatch(name) or name.endswith("SKILL.md"):
        return file
    try:
        text = with_field(file.raw.decode("utf-8"), "status", "active")
        return File(with_field(text, "origin", "designed").encode(), file.executable)
    except (FractalError, UnicodeDecodeError):
        return file


def _origin(documents: Sequence[Document], unit: str) -> tuple[str, str]:
    """The step that wrote a unit last, as `LOOP:STEP`, and the model that gave its arguments."""
    origin, last = ("", ""), ""
    for document in documents:
        for step in document.steps.values():
            if written_by(step, unit) and document.meta.updated >= last:
                last = document.meta.updated
                planned = [
                    e for e in document.meta.rungs if e.get("phase") in ("plan", "fused", "atomic", "turn")
                ]
                model = str(planned[-1].get("model", "")) if planned else ""
                responder = str(step.evidence.get("asked") or model)
                origin = (f"{document.meta.id}:{step.n}", responder.removeprefix("model:"))
    return origin
