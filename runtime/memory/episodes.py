"""The experiences of a workspace: noted when a run ends, taken in when somebody asks, made from documents.

What a person has forgotten is not taken in again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel import disk, turns
from kernel.document import Document
from kernel.errors import FractalError, StorageError
from kernel.events import now
from kernel.screening import redactor
from kernel.store import FileStore
from kernel.workspace import messages
from runtime.memory import noted, teaches
from runtime.memory.episodic import Experience, experiences_of
from runtime.memory.noticing import Heard, heard
from runtime.places import DEFAULT, space_of, state_of
from runtime.store import Record, Where, pack

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

SIMILAR = 20
"""Experiences that are looked at when something is to be learned. Source: learning.md."""
BATCH = 64
PATIENCE = 60.0
"""Seconds that one waits for another process that is taking runs in."""


class Unembedded(Record):
    """An experience that has no vector yet, by its id."""

    KIND: ClassVar[str] = "unembedded"


class EpisodesBy(Record):
    """Which embedder made the vectors of experiences; one record, `experiences`."""

    KIND: ClassVar[str] = "episodes-by"

    made_by: str = ""


class Forgotten(Record):
    """Something that documents tell and that was forgotten: `run RUN`, `experience LOOP`, `said RUN#TURN`."""

    KIND: ClassVar[str] = "forgotten"

    at: str = ""


class Episodes:
    """The experiences on a brain's shelf, and the runs that they are of."""

    def __init__(
        self, brain: Brain, observe: Sequence[str] = (), warn: Callable[[str], None] | None = None
    ) -> None:
        self.brain, self.observe = brain, observe
        self.memory = brain.settings.folder
        self.runs = state_of(self.memory) / "runs"
        self._warn = warn or (lambda text: None)

    # ---- taking in ---------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[str]:
        """The runs that were noted and not taken in."""
        return noted.waiting(self.memory)

    @property
    def untaught(self) -> list[str]:
        """The runs that were put off, where what is solved is remembered."""
        return noted.untaught(self.memory) if self.brain.settings.remember else []

    def catch_up(self) -> int:
        """Take in the runs that were noted; returns how many. Two processes at once take turns.

        What such a run solved is kept as well, where that could not be done when it ended.
        """
        waiting = self.waiting
        if not waiting and not self.untaught:
            return 0
        with self._alone():
            for run in self.waiting:
                path = self.memory / noted.FOLDER / run
                taking = path.with_name(f"{run}{noted.TAKING}")
                with disk.of_the_state(path):
                    with suppress(FileNotFoundError):
                        path.replace(taking)  # what is noted from now on is taken in again
                    self._take_in(run)
                    taking.unlink(missing_ok=True)
            for run in self.untaught:
                folder = self.runs / run
                documents = list(self._documents(folder)) if folder.is_dir() else []
                noted.taught(self.memory, run)  # whoever puts it off from now on is heard again
                self.teach(run, documents)
        return len(waiting)

    def teach(self, run: str, documents: Sequence[Document]) -> None:
        """Keep what a run solved; where that cannot be done now, it is put off. Raises why it cannot."""
        try:
            self.brain.end(documents, now())
        except (FractalError, OSError):
            with suppress(FractalError):
                noted.put_off(self.memory, run)
            raise

    @contextmanager
    def _alone(self) -> Generator[None]:
        folder = self.memory / noted.FOLDER
        busy = StorageError(
            f"{folder}: another process has been taking runs in for {PATIENCE:.0f} seconds; try again"
        )
        with turns.alone(folder / ".lock", PATIENCE, lambda: busy):
            yield

    def rebuild(self) -> int:
        """Make every experience anew from the documents; returns how many runs there are."""
        runs = sorted(path.name for path in self.runs.iterdir()) if self.runs.is_dir() else []
        mine = [run for run in runs if noted.RUN.fullmatch(run) and self._is_ours(self.runs / run)]
        for run in mine:
            self._take_in(run)
        return len(mine)

    def _is_ours(self, folder: Path) -> bool:
        """Whether a run was of this space."""
        try:
            root = FileStore(folder).peek(f"system-{folder.name}")
        except FractalError:
            return True  # what else can be read of it is taken in
        return space_of(state_of(self.memory), str(root.meta.extra.get("space") or DEFAULT)) == self.memory

    def _take_in(self, run: str) -> None:
        """One run's experiences and what it lets memory know; the same again changes nothing."""
        folder, shelf = self.runs / run, self.brain.shelf
        if not folder.is_dir():
            return
        documents, feedback = list(self._documents(folder)), list(self._feedback(folder))
        if not teaches(documents):
            return
        said = {run: bool(feedback[-1].get("good"))} if feedback else {}
        found = experiences_of(documents, said, self._type)
        told = self._heard(documents, feedback)
        names = [f"experience {each.id}" for each in found] + [f"said {run}#{each.turn}" for each in told]
        gone = {each.id for each in shelf.pick(Forgotten, [f"run {run}", *names])}
        if f"run {run}" in gone:
            return
        found = [each for each in found if f"experience {each.id}" not in gone]
        there = {each.id: each for each in shelf.pick(Experience, [each.id for each in found])}
        new = [each for each in found if (old := there.get(each.id)) is None or _changed(old, each)]
        new = [each.model_copy(update={"vectors": _kept(there.get(each.id), each)}) for each in new]
        with shelf.transaction():
            shelf.put(*new, *(Unembedded(id=each.id) for each in new if not each.vectors))
            self._tell(run, [each for each in told if f"said {run}#{each.turn}" not in gone])

    def _type(self, task: str) -> str:
        return self.brain.kinds.of(task)[0]

    def _heard(self, documents: Sequence[Document], feedback: Sequence[Mapping[str, Any]]) -> list[Heard]:
        root = next((each for each in documents if not each.meta.parent), None)
        if root is None or not self.observe:
            return []
        return heard(root, feedback, self.observe, self.brain.settings.systems, redactor(os.environ))

    def _tell(self, run: str, told: Sequence[Heard]) -> None:
        """Let the mind observe what the run says."""
        if not told:
            return
        from runtime.memory.semantic.mind import Mind

        mind, place = Mind.of(self.brain), {"source": f"run:{run}", "thread": run, "names": None}
        fields = ("said", "who", "at", "turn", "salience")
        mind.keep(
            mind.noting(each.text, **place, **{name: getattr(each, name) for name in fields}) for each in told
        )

    def _documents(self, folder: Path) -> Iterator[Document]:
        store = FileStore(folder)
        for loop in store.loops():
            try:
                yield store.peek(loop)
            except FractalError as error:
                self._warn(f"{loop} is not remembered: {error}")

    def _feedback(self, folder: Path) -> Iterator[Mapping[str, Any]]:
        return (message for _, message in messages(folder, ("feedback",), self._warn))

    # ---- asking ------------------------------------------------------------------------------------------

    def all(self, where: Where | None = None) -> Iterator[Experience]:
        """The experiences that suit the filter, those of the last runs included."""
        self.catch_up()
        return self.brain.shelf.scan(Experience, where)

    def similar(
        self, task: str, limit: int = SIMILAR, where: Where | None = None
    ) -> list[tuple[Experience, float]]:
        """The experiences with tasks most like this one, each with its cosine."""
        self.catch_up()
        shelf, embedder = self.brain.shelf, self.brain.embedder
        if not shelf.count(Experience):
            return []
        self._embed()
        (vector,) = embedder.embed([task])
        hits = shelf.nearest(Experience, embedder.name, vector, limit, where)
        scores = {hit.id: hit.score for hit in hits}
        return [(each, scores[each.id]) for each in shelf.pick(Experience, scores)]

    def _embed(self) -> None:
        """Vectors for those that have none of the embedder of now."""
        shelf, name = self.brain.shelf, self.brain.embedder.name
        known = shelf.get(EpisodesBy, "experiences")
        if known is None or known.made_by != name:
            self._put_vectors(each.id for each in shelf.scan(Experience) if name not in each.vectors)
            shelf.put(EpisodesBy(id="experiences", made_by=name))
        self._put_vectors([each.id for each in shelf.scan(Unembedded)])

    def _put_vectors(self, ids: Iterable[str]) -> None:
        shelf, embedder, wanted = self.brain.shelf, self.brain.embedder, list(ids)
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            found = shelf.pick(Experience, part)
            rows = embedder.embed([each.text for each in found]) if found else ()
            with shelf.transaction():
                there = {each.id: each for each in shelf.pick(Experience, part)}
                for each, row in zip(found, rows, strict=True):
                    if (now := there.get(each.id)) is not None and now.text == each.text:
                        vectors = {**now.vectors, embedder.name: pack(row)}
                        shelf.put(now.model_copy(update={"vectors": vectors}))
                shelf.delete(Unembedded, *part)


def _changed(old: Experience, new: Experience) -> bool:
    return old.model_dump(exclude={"vectors"}) != new.model_dump(exclude={"vectors"})


def _kept(old: Experience | None, new: Experience) -> dict[str, bytes]:
    return dict(old.vectors) if old is not None and old.text == new.text else {}
