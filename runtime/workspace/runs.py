"""The runs of a workspace as they lie there: found by name, listed, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

from kernel import Waiting, disk
from kernel.document.frontmatter import peek
from kernel.document.model import ENDED, Document, Meta, root_id
from kernel.document.parser import read_head
from kernel.document.redaction import Verbatim
from kernel.errors import DocumentError, Exit, UsageError
from kernel.loop.advance import Outcome, outcome
from kernel.loop.approval import PLAN_WAITS
from kernel.store.files import FileStore
from runtime.secrets.exact import of_run
from runtime.secrets.redaction import redact
from runtime.workspace.hand_edits import edited_at
from runtime.workspace.question import Question, question_of
from runtime.workspace.workspace import Workspace, moment


class Reader:
    """What can be read of runs without starting any."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._known: dict[str, tuple[tuple[int, ...], RunSummary]] = {}  # by run, with its file's signature

    def find(self, name: str) -> str:
        """The run that a name means: its id, a document's id or path, a unique beginning; "": the newest."""
        if self.workspace.has(name):
            return name
        stem = Path(name).stem
        if len(named := [part for part in stem.split("-")[1:] if self.workspace.has(part)]) == 1:
            return named[0]  # by a document's id, without a look at all runs
        runs = self.workspace.run_ids()
        if not name:
            if not runs:
                raise UsageError(f'there is no run in {self.workspace.runs} yet; start one: fractal run "…"')
            return next((run for run in runs if "within" not in peek(self._root(run))), runs[0])
        exact = [run for run in runs if run == name or f"-{run}" in stem]
        matches = exact or [run for run in runs if run.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UsageError(f"{name} could be {', '.join(matches[:6])}; give more letters")
        if name in self.workspace.rootless():
            raise DocumentError(f"the root of run {name} is missing; put it back", str(self._root(name)))
        raise UsageError(f"there is no run {name} in {self.workspace.runs}; `fractal ls` lists them")

    def _root(self, run: str) -> Path:
        return self.workspace.runs / run / f"{root_id(run)}.md"

    def documents(self, run: str) -> list[Document]:
        """All documents of a run, parents before children; a broken one raises `DocumentError`."""
        store = FileStore(self.workspace.runs / self.find(run))
        return [store.peek(loop_id) for loop_id in store.list()]

    def path(self, name: str) -> Path:
        """The file of a document: by its id or path, or a run's id for its root."""
        run = self.find(name)
        loop_id = root_id(run) if run.startswith(name) else Path(name).name.removesuffix(".md")
        path = self.workspace.runs / run / f"{loop_id}.md"
        if not path.is_file():
            raise UsageError(f"there is no document {name}; `fractal tree {run}` names them")
        of_run(path.parent).learn()  # whoever reads the file shows it
        return path

    def document(self, name: str) -> Document:
        """A document by its id or path, or a run's root by the run's id."""
        path = self.path(name)
        return FileStore(path.parent).peek(path.stem)

    def asked(self, document: Document) -> Question:
        """What a document that waits for an approval asks, in full."""
        return question_of(FileStore(self.workspace.runs / document.meta.run), document)

    def exactly(self, document: Document) -> Document:
        """A document with its secrets in their places, for who decides about its calls."""
        return FileStore(self.workspace.runs / document.meta.run).exactly(document.meta.id)

    def runs(self, ids: Sequence[str] | None = None) -> list[RunSummary]:
        """All runs, newest first, or these, by META alone; one without any is shown as broken.

        A run that another one started comes after it.
        """
        summaries = [self._summary(run) for run in (self.workspace.run_ids() if ids is None else ids)]
        known = [each for each in summaries if each.status != "broken" or self.workspace.has(each.run)]
        place = {each.run: n for n, each in enumerate(known)}
        return sorted(known, key=lambda each: place.get(each.within, place[each.run]) + bool(each.within) / 2)

    def _summary(self, run: str) -> RunSummary:
        """The line of a run; one whose file has not changed is not read again."""
        path = self._root(run)
        try:
            signature = disk.signature(path)
        except OSError:
            return self._read(run, path)
        known = self._known.get(run)
        if known is None or known[0] != signature:
            known = self._known[run] = signature, self._read(run, path)
        return known[1]

    def _read(self, run: str, path: Path) -> RunSummary:
        try:
            meta, task = read_head(path)
        except DocumentError as error:
            return RunSummary(run, root_id(run), "broken", str(error), "", "", {}, "")
        fields = (
            meta.created,
            meta.updated,
            meta.spent,
            meta.folder,
            meta.type,
            to_apply(meta),
            str(meta.extra.get("within", "")),
        )
        return RunSummary(run, meta.id, meta.word, task, *fields)

    def root_document(self, run: str) -> Document:
        """The document at the top of a run; raises `DocumentError` when it cannot be read."""
        path = self.workspace.runs / run / f"{root_id(run)}.md"
        return FileStore(path.parent).peek(root_id(run))

    def touched(self, ids: Sequence[str] | None = None) -> list[tuple[float, RunSummary]]:
        """The runs, of all or of these, with a document that somebody has edited since, and when.

        The latest edit comes first.
        """
        found: list[tuple[float, RunSummary]] = []
        for each in self.runs(ids):
            store = FileStore(self.workspace.runs / each.run)
            saved = _time(each.updated)  # a step is appended without a new time
            times = [time for loop_id in store.list() if (time := edited_at(store, loop_id, saved))]
            found += [(max(times), each)] if times else []
        return sorted(found, key=itemgetter(0), reverse=True)

    def newest_unfinished(self) -> str:
        """The newest unfinished run, else the newest."""
        runs = self.runs()
        for each in sorted(runs, key=lambda each: bool(each.within)):
            if each.status not in ENDED | {"broken"}:
                return each.run
        for run in self.workspace.rootless():
            self.find(run)
        for each in runs:
            if each.status == "broken":
                raise DocumentError(f"run {each.run} is broken, and no other is unfinished: {each.task}")
        return self.find("")

    def newest_waiting(self, kind: str) -> str:
        """The newest run that an `answer`, `approve`, `nudge`, `reject`, `say`, or the like can be for."""
        decides = dict.fromkeys(("approve", "nudge", "reject"), "approval")
        waits_for = {"answer": "person", **decides}.get(kind)
        for summary in self.runs():
            if summary.status in ENDED | {"broken"}:
                continue
            documents = self.documents(summary.run) if waits_for else []
            if not waits_for or open_question(documents, waits_for):
                return summary.run
        phrases = {"person": "is waiting for an answer", "approval": "is waiting for approval"}
        raise UsageError(f"no run {phrases.get(waits_for or '', 'is unfinished')}")


def _time(text: str) -> float:
    found = moment(text)
    return found.timestamp() if found else inf


@dataclass(frozen=True)
class RunResult:
    """How a run ended, or what it waits for."""

    run: str
    id: str
    status: str
    exit: Exit
    path: Path
    output: str = ""
    reason: str = ""
    question: str = ""
    waiting: str = ""
    spent: Mapping[str, Any] = field(default_factory=dict)
    reused: bool = False  # it is the result of an earlier run, taken for the same task
    to_apply: int = 0  # files changed in its worktree


@dataclass(frozen=True)
class RunSummary:
    """A line of `fractal ls`."""

    run: str
    id: str
    status: str
    task: str
    created: str
    updated: str
    spent: Mapping[str, Any]
    folder: str
    type: str = "task"
    to_apply: int = 0  # files changed in its worktree
    within: str = ""  # the run that started it


def unfinished(store: FileStore) -> Iterator[Document]:
    """The readable documents of the loops that have not ended, parents before children."""
    for loop_id in store.unfinished():
        with suppress(DocumentError):
            yield store.peek(loop_id)


def open_question(documents: Iterable[Document], *waits_for: str) -> Document | None:
    """The first document that waits for a `person` (an answer) or an `approval`, or for one of them only."""
    for document in documents:
        waits = (document.meta.waiting or {}).get("for")
        if not document.ended and waits in (waits_for or ("person", "approval")):
            return document
    return None


def asked_in(store: FileStore) -> Question:
    """What a run asks to approve, in full; an empty question if nothing."""
    document = open_question(unfinished(store), "approval")
    return question_of(store, document) if document else Question(Verbatim())


def result_of(root: Document, path: Path, got: Outcome | Waiting) -> RunResult:
    """What a session with a run came to: `got` of the engine, the rest of the root's document."""
    meta = root.meta
    common: dict[str, Any] = {"spent": meta.spent, "to_apply": to_apply(meta)}
    if isinstance(got, Outcome) and got.status == "interrupted":
        return RunResult(meta.run, meta.id, "interrupted", Exit.INTERRUPTED, path, **common)
    if root.ended:
        end = outcome(root)
        output = end.result or end.partial
        texts = redact(output), redact(end.error), redact(end.question)
        return RunResult(meta.run, meta.id, end.status, end.exit, path, *texts, **common)
    waiting = got if isinstance(got, Waiting) else Waiting("children")
    question = waiting.question
    if waiting.on == "approval" and question != PLAN_WAITS:
        question = asked_in(FileStore(path.parent)).text or question
    asks: dict[str, Any] = {"question": question, "waiting": waiting.on}
    return RunResult(meta.run, meta.id, "waiting", Exit.WAITING, path, **asks, **common)


def to_apply(meta: Meta) -> int:
    """The number of files that a run changed in its worktree and that are not applied."""
    return int(meta.extra.get("worktree", {}).get("changes", 0))


def event_data(result: RunResult) -> dict[str, Any]:
    """What the event of a run's end carries."""
    names = ("status", "output", "reason", "question", *(["to_apply"] if result.to_apply else []))
    data = {name: getattr(result, name) for name in names}
    data["question"] = redact(result.question)  # events are kept; who decides is shown the question itself
    return {**data, "exit": int(result.exit), "spent": dict(result.spent), "path": str(result.path)}
