"""Forgetting in two parts: a preview, and the removal.

No dream runs meanwhile. Rows are removed last, so that an interrupted removal can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel import disk
from runtime.memory.brain import Brain
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.forgetting import documents, removal
from runtime.memory.forgetting.affected import Affected, AffectedRows
from runtime.memory.forgetting.request import Request
from runtime.memory.store import migration
from runtime.workspace.workspace import brain_place


@dataclass(frozen=True)
class Preview:
    """What forgetting would do."""

    affected: Affected
    reworded: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    # memories by id: old and new text
    files: Sequence[Path] = ()  # methods and patterns
    strays: Sequence[Path] = ()  # quarantined files and old copies
    archived: int = 0  # before-images of dreams
    runs: Sequence[str] = ()  # whose documents contain it
    elsewhere: Sequence[Path] = ()
    spaces: Sequence[str] = ()  # other spaces whose memory contains it
    unsearched: Sequence[Path] = ()  # of the state, which may contain it

    @property
    def nothing(self) -> bool:
        """Whether memory contains nothing of it."""
        rows = self.affected
        hits = rows.removed or rows.mentioning or self.reworded or self.files or self.strays or self.archived
        return not hits

    @property
    def counts(self) -> dict[str, int]:
        """How many rows of each kind would be removed."""
        return Counter(kind for kind, _ in self.affected.removed)


@dataclass(frozen=True)
class ForgettingResult:
    """What was removed and what remains."""

    preview: Preview
    removed: Sequence[str] = ()  # runs whose documents are gone
    left: Sequence[str] = ()  # runs whose documents still contain it
    at_work: Sequence[str] = ()  # of these, runs that are locked by a process
    hindered: str = ""  # why erased data may still be on disk


class Forgetting:
    """Removes what a person wants forgotten from a brain."""

    def __init__(self, brain: Brain, state: Path) -> None:
        self.brain, self.state = brain, state
        self.memory = brain.settings.folder
        self.store = brain_place(brain.config.store, self.memory)

    def look(self, request: Request) -> Preview:
        """Find what would be removed. Changes nothing, but indexes the last runs."""
        self.brain.episodes.catch_up()
        affected = AffectedRows(self.brain.shelf, request).find()
        if request.run:
            affected.marks.add(f"run {request.run}")
            affected.runs[request.run] = None
        words = bool(request.words)
        strays = removal.strays(self.memory, self.store, affected)
        found = documents.elsewhere(self.state, affected.contains) if words else []
        return Preview(
            affected,
            self._reworded(affected),
            removal.markdown(self.memory, affected),
            strays,
            len(removal.archived(self.brain.shelf, affected)),
            documents.runs_containing(self.state, affected.runs, affected.contains, words=words),
            [each for each in found if not {each, *each.parents} & {*strays}],
            documents.spaces(self.state, self.memory, affected.contains) if words else (),
            documents.unsearched(self.state),
        )

    def _reworded(self, affected: Affected) -> dict[str, tuple[str, str]]:
        shelf, texts = self.brain.shelf, dict[str, tuple[str, str]]()
        for memory in shelf.pick(Memory, affected.reworded):
            evidence = shelf.pick(Observation, affected.reworded[memory.id])
            texts[memory.id] = (memory.text, removal.wording(self.brain, evidence) if evidence else "")
        return texts

    def do(self, request: Request, *, with_documents: bool = False) -> ForgettingResult:
        """Forget all of it, or nothing if the store fails. Raises `FractalError`."""
        from runtime.memory.dream.dreamer import Dreamer

        dreamer = Dreamer(self.brain)
        dreamer.hold("forget")
        try:
            dreamer.archive.recover()
            return self._execute(self.look(request), with_documents)
        finally:
            dreamer.release("forget")

    def _execute(self, preview: Preview, with_documents: bool) -> ForgettingResult:
        removal.files(self.memory, preview.files)
        _remove(preview.strays)
        at_work = documents.remove(self.state, preview.runs) if with_documents else []
        removal.rows(self.brain, preview.affected)
        hindered = removal.pages(self.brain.shelf, self.memory, self.store)
        _remove(removal.strays(self.memory, self.store, preview.affected))  # just quarantined
        left = at_work if with_documents else preview.runs
        removed = [run for run in preview.runs if run not in left]
        return ForgettingResult(preview, removed, left, at_work, hindered)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with disk.writing_state(path):
            migration.remove(path)
