"""Forgetting in two parts: a look at what would go, and, when a person wants it, the deed.

No dream is at work meanwhile. Rows go last, so that who was killed in the middle finds the same again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.memory.forgetting import documents, erasing
from runtime.memory.forgetting.following import Following, Found
from runtime.memory.forgetting.wanted import Wanted
from runtime.memory.semantic.records import Memory, Observation
from runtime.places import brain_place

if TYPE_CHECKING:
    from runtime.memory.brain import Brain


@dataclass(frozen=True)
class Preview:
    """What forgetting would do."""

    wanted: Wanted
    found: Found
    reworded: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    # memories by id: what each says, and what it would say
    files: Sequence[Path] = ()  # methods and patterns
    strays: Sequence[Path] = ()  # what was put aside as unreadable, old copies
    archived: int = 0  # lines of archives
    runs: Sequence[str] = ()  # whose documents tell it
    elsewhere: Sequence[Path] = ()
    spaces: Sequence[str] = ()  # other ones whose memory tells it

    @property
    def nothing(self) -> bool:
        """Whether memory holds nothing of it."""
        found = self.found
        kept = found.gone or found.taken_out or self.reworded or self.files or self.strays or self.archived
        return not kept

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind would go."""
        told: dict[str, int] = {}
        for kind, _ in self.found.gone:
            told[kind] = told.get(kind, 0) + 1
        return told


@dataclass(frozen=True)
class Forgot:
    """What was done, and what is left."""

    preview: Preview
    removed: Sequence[str] = ()  # runs whose documents are gone
    left: Sequence[str] = ()  # runs whose documents still tell it
    at_work: Sequence[str] = ()  # of these, runs that a process works on
    elsewhere: Sequence[Path] = ()
    hindered: str = ""  # why something may still be on the disk


class Forgetting:
    """What a brain's memory can forget."""

    def __init__(self, brain: Brain, state: Path) -> None:
        self.brain, self.state = brain, state
        self.memory = brain.settings.folder
        self.store = brain_place(brain.settings.store, self.memory)

    def look(self, wanted: Wanted) -> Preview:
        """What would go; nothing is changed but that the last runs are taken in."""
        self.brain.episodes.catch_up()
        found = Following(self.brain.shelf, wanted).follow()
        if wanted.run:
            found.marks.add(f"run {wanted.run}")
            found.runs[wanted.run] = None
        tells = erasing.says(wanted, found)
        words = bool(wanted.words)
        return Preview(
            wanted,
            found,
            self._reworded(found),
            erasing.markdown(self.memory, wanted, found),
            erasing.strays(self.memory, self.store, wanted, found),
            erasing.archived(self.memory, wanted, found, change=False),
            documents.telling(self.state, found.runs, tells, words=words),
            documents.elsewhere(self.state, tells) if words else (),
            documents.spaces(self.state, self.memory, tells) if words else (),
        )

    def _reworded(self, found: Found) -> dict[str, tuple[str, str]]:
        told: dict[str, tuple[str, str]] = {}
        for memory in self.brain.shelf.pick(Memory, found.reworded):
            evidence = self.brain.shelf.pick(Observation, found.reworded[memory.id])
            told[memory.id] = (memory.text, erasing.wording(self.brain, evidence) if evidence else "")
        return told

    def do(self, wanted: Wanted, *, with_documents: bool = False) -> Forgot:
        """Forget it, all of it or, where the store fails, nothing of it. Raises `FractalError`."""
        from runtime.memory.dream.dreamer import Dreamer

        dreamer = Dreamer(self.brain)
        dreamer.hold("forget")
        try:
            dreamer.mend()
            preview = self.look(wanted)
            return self._done(preview, with_documents)
        finally:
            dreamer.let_go("forget")

    def _done(self, preview: Preview, with_documents: bool) -> Forgot:
        wanted, found = preview.wanted, preview.found
        erasing.files(self.memory, preview.files)
        erasing.archived(self.memory, wanted, found, change=True)
        _remove(preview.strays)
        at_work = documents.remove(self.state, preview.runs) if with_documents else []
        erasing.rows(self.brain, wanted, found)
        hindered = erasing.pages(self.brain.shelf, self.memory, self.store)
        _remove(erasing.strays(self.memory, self.store, wanted, found))  # what was put aside just now
        left = at_work if with_documents else preview.runs
        removed = [run for run in preview.runs if run not in left]
        return Forgot(preview, removed, left, at_work, preview.elsewhere, hindered)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
