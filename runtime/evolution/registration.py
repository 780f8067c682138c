"""What a run has drafted becomes part of the system after its root is accepted: at once, or as a proposal.

This depends on documents, drafts and the journal alone: if a process dies, the next one finishes its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel.document.escaping import fingerprint
from kernel.document.model import Document, root_id
from kernel.errors import DocumentError, FractalError
from kernel.loop.criteria import Finding
from kernel.store.files import FileStore
from runtime.evolution.drafts import Drafts, written_by
from runtime.evolution.files import TOOL_FILE, File, read, unit_files, with_field
from runtime.evolution.journal import Journal
from runtime.evolution.proposals import Proposal, Proposals

TOOLS = ("tools", "operations", "kernel")
"""New units of these folders become active at once, and new phase files; anything else is proposed."""
NOTE_CHARS = 160
Files = Mapping[str, File | None]


@dataclass(frozen=True)
class Registration:
    """The drafts of one run on their way into the system."""

    journal: Journal
    proposals: Proposals
    drafts: Drafts
    run: Path  # the run's folder

    def register(self, *, ask: bool) -> list[str]:
        """Admit what an accepted run has built, or propose it if `ask`; returns why parts were left out."""
        store = FileStore(self.run)
        root = store.peek(root_id(self.run.name))
        if root.meta.status != "complete":
            return []
        findings: dict[str, Finding] = {}
        for line in root.text(4, "evidence").splitlines():
            if (found := Finding.read(line)) and "draft" in found.criterion:
                findings.setdefault(str(found.criterion["draft"]), found)  # the kernel's own come first
        left: list[str] = []
        documents = documents_of(store)
        for unit in self.drafts.units():
            if unit not in findings:
                continue
            passed, note = findings[unit].after, " ".join(findings[unit].note.split())[:NOTE_CHARS]
            if passed is False:
                left.append(f"{unit} is not part of the system: {note}")
                continue
            files, source = self._draft(unit, documents)
            if self._done(unit, source["draft"]):
                continue
            if passed and not ask and not self._guarded(unit):
                self.journal.change("admitted", unit, files, f"run {self.run.name}", note, **source)
            else:
                self._propose(unit, note, files, source)
        return left

    def salvage(self) -> list[Proposal]:
        """Propose everything that the run has drafted, however it ended; nothing is proposed twice."""
        documents = documents_of(FileStore(self.run))
        for unit in self.drafts.units():
            files, source = self._draft(unit, documents)
            if not self._done(unit, source["draft"]):
                self._propose(unit, "drafted, and not accepted", files, source)
        return [each for each in self.proposals.open() if each.run == self.run.name]

    def _propose(self, unit: str, note: str, files: Files, source: Mapping[str, str]) -> None:
        new = not any((system / unit).exists() for system in self.drafts.systems)
        reason = f"a {'new ' if new else 'change of '}{unit}: {note}"
        self.proposals.make("change", unit, reason, f"run {self.run.name}", files=files, **source)

    def _done(self, unit: str, hash: str) -> bool:
        """Whether the draft is already in the journal or proposed."""
        same = (self.run.name, unit, hash)
        for proposal in self.proposals.all():
            if (proposal.run, proposal.unit, proposal.draft) == same:
                self.proposals.record(proposal)  # its process may have died before it could
                return True
        return any((entry.run, entry.unit, entry.draft) == same for entry in self.journal.entries())

    def _guarded(self, unit: str) -> bool:
        """Whether a change of this unit is always proposed: of phases, pattern.md, of what ships."""
        folder, systems = unit.partition("/")[0], self.drafts.systems
        if folder in TOOLS:
            systems = systems[1:] or systems  # with one system, all of it ships
        elif folder != "phases":
            return True
        return any((system / unit).exists() for system in systems)

    def _draft(self, unit: str, documents: Sequence[Document]) -> tuple[Files, dict[str, str]]:
        """The files of a drafted unit as the system is to have them, and who wrote them where."""
        files = drafted_files(self.drafts, unit)
        marks = [[name, file.mark if file else ""] for name, file in sorted(files.items())]
        step, model = _origin(documents, unit)
        draft = fingerprint(marks)[:16]
        return files, {"run": self.run.name, "step": step, "model": model, "draft": draft}


def drafted_files(drafts: Drafts, unit: str) -> dict[str, File | None]:
    """The files of a drafted unit as the system is to have them; a tool's other files there are removed."""
    drafted = unit_files(drafts.folder, unit)
    whole = {name: _active(name, read(drafts.folder / name)) for name in drafted}
    if (drafts.system / unit).is_dir():
        whole |= dict.fromkeys(set(unit_files(drafts.system, unit)) - {*drafted})
    return whole


def documents_of(store: FileStore) -> list[Document]:
    """The documents of a run that can be read, parents before children."""
    found: list[Document] = []
    for loop_id in store.list():
        try:
            found.append(store.peek(loop_id))
        except DocumentError:
            continue
    return found


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
                planned = [e for e in document.meta.rungs if e.get("phase") in ("plan", "fused", "atomic")]
                model = str(planned[-1].get("model", "")) if planned else ""
                asked = str(step.evidence.get("asked") or model)
                origin = (f"{document.meta.id}:{step.n}", asked.removeprefix("model:"))
    return origin
