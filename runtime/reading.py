"""The runs of a workspace as they lie there: found by name, listed, read."""

from __future__ import annotations

from pathlib import Path

from kernel.document import ENDED, Document
from kernel.errors import DocumentError, UsageError
from kernel.reading import read_head
from kernel.store import FileStore
from kernel.workspace import Workspace, root_id
from runtime.results import RunSummary


class Reader:
    """What can be read of runs without starting any."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def find(self, name: str) -> str:
        """The run that a name means: its id, a document's id or path, a unique beginning; "": the newest."""
        if self.workspace.has(name):
            return name
        stem = Path(name).stem
        runs = self.workspace.run_ids()
        if not name and runs:
            return runs[0]
        exact = [run for run in runs if run == name or f"-{run}" in stem]
        found = exact or [run for run in runs if run.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name} could be {', '.join(found[:6])}; give more letters")
        if name in self.workspace.rootless():
            root = self.workspace.runs / name / f"{root_id(name)}.md"
            raise DocumentError(f"the root of run {name} is missing; put it back", str(root))
        raise UsageError(f"there is no run {name} in {self.workspace.runs}; `fractal ls` lists them")

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
        return path

    def document(self, name: str) -> Document:
        """A document by its id or path, or a run's root by the run's id."""
        path = self.path(name)
        return FileStore(path.parent).peek(path.stem)

    def runs(self, most: int | None = None) -> list[RunSummary]:
        """All runs, or the newest ones, newest first, by META alone; one without any is shown as broken."""
        found = [self._summary(run) for run in self.workspace.run_ids()[:most]]
        return [each for each in found if each.status != "broken" or self.workspace.has(each.run)]

    def _summary(self, run: str) -> RunSummary:
        try:
            meta, task = read_head(self.workspace.runs / run / f"{root_id(run)}.md")
        except DocumentError as error:
            return RunSummary(run, root_id(run), "broken", str(error), "", "", {}, "")
        named = (meta.created, meta.updated, meta.spent, meta.folder, meta.type)
        return RunSummary(run, meta.id, meta.word, task, *named)

    def root_document(self, run: str) -> Document:
        """The document at the top of a run; raises `DocumentError` when it cannot be read."""
        path = self.workspace.runs / run / f"{root_id(run)}.md"
        return FileStore(path.parent).peek(root_id(run))

    def newest_unfinished(self) -> str:
        """The run that `resume` means when none is named."""
        for summary in self.runs():
            if summary.status not in ENDED | {"broken"}:
                return summary.run
        for run in self.workspace.rootless():
            self.find(run)
        for each in self.runs():
            if each.status == "broken":
                raise DocumentError(f"run {each.run} is broken, and no other is unfinished: {each.task}")
        raise UsageError("there is no unfinished run; name one that has ended, if you have edited it")
