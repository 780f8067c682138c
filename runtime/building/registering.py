"""What a run has built becomes part of the system, once its root is accepted: at once, or as a proposal.

It is told from documents alone: the accepted root, its drafts, and no entry of the journal that has them. So
a process that dies in between has the next one do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel.checking import Finding
from kernel.document import Document
from kernel.drafts import Drafts
from kernel.errors import ConfigurationError, DocumentError, FractalError
from kernel.pattern import load
from kernel.store import FileStore
from kernel.text import fingerprint
from kernel.tools import Tool
from kernel.workspace import root_id
from runtime.building.contents import File, files, read
from runtime.building.fields import with_field
from runtime.building.journal import Journal
from runtime.building.proposals import Proposal, Proposals

TOOLS = ("tools", "operations", "kernel")
FREE = (*TOOLS, "phases")
"""What becomes active at once where it is new; all else changes how everything is done."""
NOTE_CHARS = 160


@dataclass(frozen=True)
class Built:
    """One unit that a run has built: its files as the system is to have them, and who wrote it where."""

    unit: str
    files: dict[str, File | None]
    draft: str
    passed: bool | None
    note: str
    step: str
    model: str


def register(journal: Journal, proposals: Proposals, drafts: Drafts, run: Path, *, ask: bool) -> list[str]:
    """Admit or propose what an accepted run has built; what is done already is left. Returns what was not."""
    store = FileStore(run)
    root = store.peek(root_id(run.name))
    if root.meta.status != "complete":
        return []
    left: list[str] = []
    for built in _built(drafts, root, store):
        if built.passed is False:
            left.append(f"{built.unit} is not part of the system: {built.note}")
            continue
        if _done(journal, proposals, run.name, built):
            continue
        author = f"run {run.name}"
        more = {"run": run.name, "step": built.step, "model": built.model, "draft": built.draft}
        if built.passed and not ask and not _guarded(drafts, built.unit):
            journal.change("admitted", built.unit, built.files, author, built.note, **more)
        else:
            proposals.make("change", built.unit, _why(drafts, built), author, files=built.files, **more)
    return left


def salvage(journal: Journal, proposals: Proposals, drafts: Drafts, run: Path) -> list[Proposal]:
    """Proposals of what a run has drafted, whatever became of it; none is made twice."""
    store = FileStore(run)
    documents = documents_of(store)
    units = drafts.units()
    covering = {drafts.folder / unit for unit in units if unit.startswith("operations/")}
    for unit in units:
        place = drafts.folder / unit
        if place.with_suffix(".md") in covering - {place}:
            continue
        built = _unit(drafts, unit, documents, None, "drafted, and not accepted")
        if not _done(journal, proposals, run.name, built):
            more = {"run": run.name, "step": built.step, "model": built.model, "draft": built.draft}
            proposals.make("change", unit, _why(drafts, built), f"run {run.name}", files=built.files, **more)
    return [each for each in proposals.open() if each.run == run.name]


def _why(drafts: Drafts, built: Built) -> str:
    new = not any((system / built.unit).exists() for system in drafts.systems)
    return f"a {'new ' if new else 'change of '}{built.unit}: {built.note}"


def _done(journal: Journal, proposals: Proposals, run: str, built: Built) -> bool:
    same = (run, built.unit, built.draft)
    for proposal in proposals.all():
        if (proposal.run, proposal.unit, proposal.draft) == same:
            proposals.tell(proposal)  # its process may have died before it could
            return True
    return any((entry.run, entry.unit, entry.draft) == same for entry in journal.entries())


def _guarded(drafts: Drafts, unit: str) -> bool:
    """Whether a change of this unit is always a proposal: of a phase file, of pattern.md, of what ships."""
    folder = unit.partition("/")[0]
    if folder not in FREE:
        return True
    if folder == "phases":
        return any((system / unit).exists() for system in drafts.systems)
    shipped = drafts.systems[1:] or drafts.systems  # where the two are one, all of it ships
    return any((system / unit).exists() for system in shipped)


def _built(drafts: Drafts, root: Document, store: FileStore) -> list[Built]:
    findings: dict[str, Finding] = {}
    for line in root.text(4, "evidence").splitlines():
        if (found := Finding.read(line)) and "draft" in found.criterion:
            findings.setdefault(str(found.criterion["draft"]), found)  # the kernel's own come first
    documents = documents_of(store)
    built: list[Built] = []
    covering = {drafts.folder / unit for unit in findings if unit.startswith("operations/")}
    for unit in (unit for unit in drafts.units() if unit in findings):
        place = drafts.folder / unit
        if not place.exists() or place.with_suffix(".md") in covering - {place}:
            continue
        built.append(_unit(drafts, unit, documents, findings[unit].after, findings[unit].note))
    return built


def _unit(drafts: Drafts, unit: str, documents: Sequence[Document], passed: bool | None, note: str) -> Built:
    whole = drafted_files(drafts, unit)
    step, model = _birth(documents, unit)
    draft = fingerprint([[name, file.mark if file else ""] for name, file in sorted(whole.items())])[:16]
    return Built(unit, whole, draft, passed, " ".join(note.split())[:NOTE_CHARS], step, model)


def drafted_files(drafts: Drafts, unit: str) -> dict[str, File | None]:
    """The files of a drafted unit as the system is to have them; what it has beside them goes."""
    place = drafts.folder / unit
    whole: dict[str, File | None] = {}
    for path in files(place) if place.is_dir() else [place]:
        name = path.relative_to(drafts.folder).as_posix()
        whole[name] = _active(path, read(path))
    if unit.startswith("operations/") and unit.endswith(".md") and (program := _program(place)):
        whole[program.relative_to(drafts.folder).as_posix()] = read(program)
    own = drafts.system / unit
    for path in files(own) if own.is_dir() else ():
        whole.setdefault(path.relative_to(drafts.system).as_posix(), None)
    return whole


def _active(path: Path, file: File | None) -> File | None:
    """A tool's markdown says that it is in use, and that it was designed here."""
    names = path.parts
    patterned = path.name == "pattern.md" and "tools" in names
    if file is None or not (patterned or (path.parent.name in TOOLS and path.suffix == ".md")):
        return file
    try:
        text = with_field(file.raw.decode("utf-8"), "status", "active")
        return File(with_field(text, "origin", "designed").encode(), file.executable)
    except (FractalError, UnicodeDecodeError):
        return file


def _program(path: Path) -> Path | None:
    stat = path.stat()
    tool = load(path, stat.st_mtime_ns, stat.st_size)
    if not isinstance(tool, Tool) or tool.scheme != "command":
        return None
    try:
        return path.parent / tool.program.relative_to(path.parent.resolve())
    except (ConfigurationError, ValueError):
        return None


def documents_of(store: FileStore) -> list[Document]:
    """The documents of a run that can be read, parents before children."""
    found: list[Document] = []
    for loop_id in store.list():
        try:
            found.append(store.peek(loop_id))
        except DocumentError:
            continue
    return found


def _birth(documents: Sequence[Document], unit: str) -> tuple[str, str]:
    """The step that wrote a unit last, as `LOOP:STEP`, and the model that gave its arguments."""
    birth = ("", "")
    last = ""
    for document in documents:
        for step in document.steps.values():
            places = [str(each["path"]) for each in step.evidence.get("touched", ())]
            written = any(f"/drafts/{unit}" in f"/{place}" for place in places)
            written = written or unit in step.evidence.get("drafted", ())
            if written and document.meta.updated >= last:
                last = document.meta.updated
                birth = (f"{document.meta.id}:{step.n}", _model(document, step.evidence.get("asked")))
    return birth


def _model(document: Document, asked: object) -> str:
    if isinstance(asked, str) and asked:
        return asked.removeprefix("model:")
    planned = [each for each in document.meta.rungs if each.get("phase") in ("plan", "fused", "atomic")]
    return str(planned[-1].get("model", "")) if planned else ""
