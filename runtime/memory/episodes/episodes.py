"""The index of experiences: built from the documents of ended runs, when it is next queried.

What a person has forgotten is not indexed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kernel import disk
from kernel.document.model import Document
from kernel.errors import FractalError, StorageError
from kernel.events import now
from kernel.store.files import FileStore
from runtime import locks
from runtime.memory import teaches
from runtime.memory.episodes import pending
from runtime.memory.episodes.experience import Experience, experiences_of
from runtime.memory.episodes.run_observations import RunObservation, observations_of
from runtime.memory.store import Record, Where
from runtime.workspace.inbox import Inbox
from runtime.workspace.workspace import DEFAULT, space_of, state_of

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

SIMILAR = 20
"""Experiences that learning compares. Source: learning.md."""
PATIENCE = 60.0
"""Seconds to wait for another process that indexes runs."""


class Unembedded(Record):
    """The id of an experience that has no vector yet."""

    KIND: ClassVar[str] = "unembedded"


class ExperienceIndex(Record):
    """The embedder of the vectors of experiences; one record, `experiences`."""

    KIND: ClassVar[str] = "episodes-by"

    made_by: str = ""


class Forgotten(Record):
    """Something forgotten that documents still contain: `run RUN`, `experience LOOP`, `said RUN#TURN`."""

    KIND: ClassVar[str] = "forgotten"

    at: str = ""


class Episodes:
    """The experiences in a brain's store, and their runs."""

    def __init__(self, brain: Brain, observe: Sequence[str] = ()) -> None:
        self.brain, self.observe = brain, observe
        self.memory = brain.settings.folder
        self.runs = state_of(self.memory) / "runs"

    @property
    def waiting(self) -> list[str]:
        """The runs that are not indexed yet."""
        return pending.waiting(self.memory)

    @property
    def postponed(self) -> list[str]:
        """The runs whose solved tasks are not stored yet; empty if the settings do not remember."""
        return pending.postponed(self.memory) if self.brain.config.remember else []

    def catch_up(self, read: Mapping[str, Sequence[Document]] | None = None) -> int:
        """Index the waiting runs and store postponed solved tasks; returns how many runs were waiting.

        Processes take turns. `read` holds documents that the caller has already read, by run.
        """
        waiting = self.waiting
        if not waiting and not self.postponed:
            return 0
        with self._lock():
            for run in self.waiting:
                path = self.memory / pending.FOLDER / run
                taking = path.with_name(f"{run}{pending.TAKING}")
                with disk.writing_state(path):
                    with suppress(FileNotFoundError):
                        path.replace(taking)  # a later note indexes the run again
                    self._index(run, (read or {}).get(run))
                    taking.unlink(missing_ok=True)
            for run in self.postponed:
                folder = self.runs / run
                documents = list(self._documents(folder)) if folder.is_dir() else []
                pending.stored(self.memory, run)  # a later failure postpones it again
                self.teach(run, documents)
        return len(waiting)

    def teach(self, run: str, documents: Sequence[Document]) -> None:
        """Store what a run solved. If that fails, postpone it and raise the error."""
        try:
            self.brain.end(documents, now())
        except (FractalError, OSError):
            with suppress(FractalError):
                pending.postpone(self.memory, run)
            raise

    def _lock(self) -> AbstractContextManager[None]:
        folder = self.memory / pending.FOLDER
        busy = StorageError(
            f"{folder}: another process has been indexing runs for {PATIENCE:.0f} seconds; try again"
        )
        return locks.lock(folder / ".lock", PATIENCE, lambda: busy)

    def rebuild(self) -> int:
        """Rebuild every experience from the documents; returns the number of runs."""
        runs = sorted(path.name for path in self.runs.iterdir()) if self.runs.is_dir() else []
        mine = [run for run in runs if pending.RUN.fullmatch(run) and self._is_ours(self.runs / run)]
        for run in mine:
            self._index(run)
        return len(mine)

    def _is_ours(self, folder: Path) -> bool:
        """Whether a run belongs to this space."""
        try:
            root = FileStore(folder).peek(f"system-{folder.name}")
        except FractalError:
            return True  # index what else is readable
        return space_of(state_of(self.memory), str(root.meta.extra.get("space") or DEFAULT)) == self.memory

    def _index(self, run: str, read: Sequence[Document] | None = None) -> None:
        """Index one run: its experiences and observations. Repeating it changes nothing."""
        folder, shelf = self.runs / run, self.brain.shelf
        if not folder.is_dir():
            return
        documents = list(self._documents(folder)) if read is None else read
        feedback = list(self._feedback(folder))
        if not teaches(documents):
            return
        verdicts = {run: bool(feedback[-1].get("good"))} if feedback else {}
        experiences = experiences_of(documents, verdicts, self._type)
        observations = self._observations(documents, feedback)
        names = [f"experience {each.id}" for each in experiences] + [
            f"said {run}#{each.turn}" for each in observations
        ]
        forgotten = {each.id for each in shelf.pick(Forgotten, [f"run {run}", *names])}
        if f"run {run}" in forgotten:
            return
        experiences = [each for each in experiences if f"experience {each.id}" not in forgotten]
        indexed = {each.id: each for each in shelf.pick(Experience, [each.id for each in experiences])}
        new = [each for each in experiences if (old := indexed.get(each.id)) is None or _changed(old, each)]
        new = [each.model_copy(update={"vectors": _old_vectors(indexed.get(each.id), each)}) for each in new]
        with shelf.transaction():
            shelf.put(*new, *(Unembedded(id=each.id) for each in new if not each.vectors))
            self._observe(run, [each for each in observations if f"said {run}#{each.turn}" not in forgotten])

    def _type(self, task: str) -> str:
        return self.brain.kinds.of(task)[0]

    def _observations(
        self, documents: Sequence[Document], feedback: Sequence[Mapping[str, Any]]
    ) -> list[RunObservation]:
        root = next((each for each in documents if not each.meta.parent), None)
        if root is None or not self.observe:
            return []
        return observations_of(root, feedback, self.observe, self.brain.settings.systems)

    def _observe(self, run: str, observations: Sequence[RunObservation]) -> None:
        """Store the observations of a run."""
        if not observations:
            return
        from runtime.memory.facts.mind import Mind

        mind, place = Mind.of(self.brain), {"source": f"run:{run}", "thread": run, "names": None}
        fields = ("said", "who", "at", "turn", "salience")
        mind.keep(
            mind.noting(each.text, **place, **{name: getattr(each, name) for name in fields})
            for each in observations
        )

    def _documents(self, folder: Path) -> Iterator[Document]:
        store = FileStore(folder)
        for loop in store.loops():
            with suppress(FractalError):
                yield store.peek(loop)

    def _feedback(self, folder: Path) -> Iterator[Mapping[str, Any]]:
        return (message for _, message in Inbox(folder).messages(("feedback",), lambda _: None))

    def all(self, where: Where | None = None) -> Iterator[Experience]:
        """The experiences that match the filter, including those of the last runs."""
        self.catch_up()
        return self.brain.shelf.scan(Experience, where)

    def similar(
        self, task: str, limit: int = SIMILAR, where: Where | None = None
    ) -> list[tuple[Experience, float]]:
        """The experiences with the most similar tasks, each with its cosine."""
        self.catch_up()
        shelf, embedder = self.brain.shelf, self.brain.embedder
        if not shelf.has(Experience):
            return []
        self._embed()
        (vector,) = embedder.embed([task])
        hits = shelf.nearest(Experience, embedder.name, vector, limit, where)
        scores = {hit.id: hit.score for hit in hits}
        return [(each, scores[each.id]) for each in shelf.pick(Experience, scores)]

    def _embed(self) -> None:
        """Embed the experiences that have no vector of the current embedder."""
        shelf, name = self.brain.shelf, self.brain.embedder.name
        index = shelf.get(ExperienceIndex, "experiences")
        if index is None or index.made_by != name:
            missing = [each.id for each in shelf.scan(Experience) if each.text and name not in each.vectors]
            shelf.embed(Experience, missing, self.brain.embedder)
            shelf.put(ExperienceIndex(id="experiences", made_by=name))
        waiting = [each.id for each in shelf.scan(Unembedded)]
        shelf.embed(Experience, waiting, self.brain.embedder)
        shelf.delete(Unembedded, *waiting)


def _changed(old: Experience, new: Experience) -> bool:
    return old.model_dump(exclude={"vectors"}) != new.model_dump(exclude={"vectors"})


def _old_vectors(old: Experience | None, new: Experience) -> dict[str, bytes]:
    return dict(old.vectors) if old is not None and old.text == new.text else {}
