"""Recall: finds the stored task that a new one repeats exactly or as a variation; else the task is novel.

Source: seed 000_39bad3da279292ba, "Three Recall Modes".
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

from runtime.memory.embed import Embedder
from runtime.memory.store import Record, Shelf, pack
from runtime.memory.tasks import ALL, Parts, Refusal
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import Steps, Witness, bind, outcome
from runtime.memory.tasks.blame import confidence, suspect
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.fingerprint import NAME, shape
from runtime.memory.tasks.ledger import Ledger
from runtime.memory.tasks.merging import absorb, tree_by
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.rewards import deed
from runtime.memory.tasks.segmentation import tree_of
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import WIDTH, Recognition, WorkingMemory, by_shape
from runtime.memory.tasks.words import Words

NEAREST = 8
"""Without fingerprints: so many candidates by meaning, and so many by words."""
LEAST_LIKE = 0.4
"""Tasks whose shapes have a smaller cosine are not compared."""
ENOUGH = 3
"""After so many matching tasks no more are compared; they are each other's witnesses."""
WITNESSES = 2
"""Witnesses that are tried for one match."""
READINGS = 4096
"""Readings of stored tasks that are cached."""

Kind = Literal["exact", "variation", "novel"]


@dataclass(frozen=True)
class Recall:
    """What was recalled: the procedure with the new task's values, or why there is none."""

    kind: Kind
    tree: NeuronTree | None = None
    steps: tuple[dict[str, Any], ...] = ()
    success: tuple[dict[str, Any], ...] = ()
    output: str = ""
    candidates: int = 0
    changed: tuple[tuple[str, str], ...] = ()  # (stored, new) values
    refused: tuple[tuple[str, str], ...] = field(default=())  # (tree, why)
    ms: Mapping[str, float] = field(default_factory=dict[str, float])  # embed, find, align, bind
    confidence: float = 0.0  # the probability that this is right
    agreed: bool = False  # another stored task matches and does the same
    rivals: tuple[tuple[str, str], ...] = ()  # matching trees that are not used, and their deeds

    @property
    def why(self) -> str:
        """Why nothing was recalled: the reason for the nearest stored task."""
        return "" if self.tree or not self.refused else self.refused[0][1]


class Outline(Record):
    """The part of a tree that is read to compare its task."""

    KIND: ClassVar[str] = "outline"

    task: str
    leaves: str = ""


@dataclass(frozen=True)
class _Stored:
    """A tree whose task aligns."""

    id: str
    reading: Reading
    alignment: Alignment
    exemplar: Mapping[str, Any]
    ledger: Ledger

    @property
    def judged(self) -> bool:
        """Whether any use of it was judged."""
        return bool(self.ledger.correct or self.ledger.incorrect)


@dataclass(frozen=True)
class _Fit:
    """A stored procedure bound to a new task."""

    stored: _Stored
    steps: tuple[dict[str, Any], ...]
    rest: Mapping[str, Any]


class ProceduralMemory:
    """The solved tasks of one shelf, found by shape, or by an embedder if fingerprints are off."""

    def __init__(self, shelf: Shelf, embedder: Embedder, words: Words, parts: Parts = ALL) -> None:
        self.shelf, self.embedder, self.words, self.parts = shelf, embedder, words, parts
        self._read = lru_cache(READINGS)(lambda task: Reading.read(task, words))

    # ---- learning ----------------------------------------------------------------------------------------

    def learn(self, exemplar: Exemplar, *, run: str = "", rung: str = "", at: str = "") -> NeuronTree:
        """Keep a solved task; one that is already there keeps its ledger."""
        segmented = self.parts.segmentation
        tree = tree_of(exemplar, self.embedder, run=run, rung=rung, at=at, segmented=segmented)
        with self.shelf.transaction():
            if known := tree_by(self.shelf, tree.id):
                vectors = tree.vectors if known.id == tree.id else {}  # a merged tree has mean vectors
                tree = known.model_copy(update={"vectors": {**known.vectors, **vectors}})
            return self._kept(tree, new=known is None)

    def take_in(self, tree: NeuronTree) -> NeuronTree:
        """Give a stored tree neurons and vectors."""
        grown = tree_of(tree.exemplar, self.embedder, segmented=self.parts.segmentation)
        vectors = {**tree.vectors, **grown.vectors}
        made = tree.model_copy(update={"vectors": vectors})
        if not tree.neurons:  # otherwise they may have credit and blame
            made = made.model_copy(update={"neurons": grown.neurons, "synapses": grown.synapses})
        return self._kept(made, new=True)

    def _kept(self, tree: NeuronTree, *, new: bool) -> NeuronTree:
        """Store a tree, merged with one that is the same procedure."""
        with self.shelf.transaction():
            self.shelf.put(tree, self.outline(tree))
            if not (new and self.parts.merging):
                return tree
            near = self.shelf.pick(NeuronTree, self.candidates(tree.text))
            held = absorb(self.shelf, tree, near, self.words)
            if held.id != tree.id:
                self.shelf.delete(Outline, tree.id)
            return held

    def outline(self, tree: NeuronTree) -> Outline:
        """The outline of a tree."""
        task = tree.exemplar.task
        read = self._read(task)
        vectors = {NAME: pack(shape(read, self.words))}
        return Outline(id=tree.id, task=task, leaves=_kinds(read), vectors=vectors)

    # ---- recalling ---------------------------------------------------------------------------------------

    def recall(self, task: str) -> Recall:
        """The procedure for a task; novel if no stored task matches every word of it.

        If two stored tasks match and would do different things, none is used.
        """
        ms: dict[str, float] = {}
        with _timed(ms, "embed"):
            read = Reading.read(task, self.words)
            vectors = self._vectors(task, read)
        with _timed(ms, "find"):
            held = self._held(task, vectors)
            ids = list(held.candidates)
            outlines = self.shelf.fields(Outline, ids, ("task", "leaves"))
        with _timed(ms, "align"):
            aligned, refused = self._aligned([(id, outlines.get(id, {})) for id in ids], read)
        with _timed(ms, "bind"):
            stored = self._stored(aligned, refused)
            found = self._bound(stored, refused)
        told = Recall("novel", candidates=len(ids), refused=tuple(refused), ms=ms)
        return self._chosen(task, found, told) if found else told

    def _chosen(self, task: str, found: Sequence[_Fit], told: Recall) -> Recall:
        """The most trusted match, if all trusted matches do the same."""
        judged = [each.stored.id for each in found if each.stored.judged]
        trees = {tree.id: tree for tree in self.shelf.pick(NeuronTree, judged)}
        distrusted: list[tuple[str, str]] = []
        trusted: list[_Fit] = []
        sure: dict[str, float] = {}
        for each in found:
            id = each.stored.id
            if why := self._distrust(each.stored, trees.get(id), task):
                distrusted.append((id, why))
                continue
            trusted.append(each)
            tree = trees.get(id)
            sure[id] = confidence(tree, task, self.parts) if tree else each.stored.ledger.confidence
        if _differ([each.steps for each in trusted]):
            trusted = self._agreed(trusted)
        if _differ([each.steps for each in trusted]):
            why = "several stored tasks match and would do different things"
            distrusted += [(each.stored.id, why) for each in trusted]
            trusted = []
        if trusted:
            best = max(trusted, key=lambda each: (each.stored.alignment.exact, sure[each.stored.id]))
            if tree := self.shelf.get(NeuronTree, best.stored.id):
                agreed = len(trusted) > 1
                return replace(self._told(told, best, tree), confidence=sure[tree.id], agreed=agreed)
        rivals = tuple((each.stored.id, deed(each.steps)) for each in found)
        return replace(told, refused=(*distrusted, *told.refused), rivals=rivals)

    def _distrust(self, stored: _Stored, judged: NeuronTree | None, task: str) -> str:
        """Why a matching tree is not trusted; "" if it is."""
        if self.parts.quarantine and stored.ledger.quarantined:
            return "it matches, but is in quarantine: it went wrong too often"
        misled = suspect(judged, task, self.parts) if judged else ""
        return f"it matches, but went wrong too often when this differed: {misled}" if misled else ""

    def _told(self, told: Recall, fit: _Fit, tree: NeuronTree) -> Recall:
        changed = tuple(
            (old.text, new.text)
            for old, new in fit.stored.alignment.leaves
            if (old.value, old.unit) != (new.value, new.unit)
        )
        return replace(
            told,
            kind="exact" if fit.stored.alignment.exact else "variation",
            tree=tree,
            steps=fit.steps,
            success=tuple(fit.rest["success"]),
            output=fit.rest["output"],
            changed=changed + tuple(fit.stored.alignment.exchanged.items()),
        )

    # ---- candidates --------------------------------------------------------------------------------------

    def candidates(self, task: str) -> list[str]:
        """The trees that a task is compared with, the most similar first."""
        return list(self._held(task, self._vectors(task, Reading.read(task, self.words))).candidates)

    def _vectors(self, task: str, read: Reading) -> dict[str, Any]:
        if self.parts.fingerprints:
            return {NAME: shape(read, self.words)}
        return {self.embedder.name: self.embedder.embed([task])[0]}

    def _held(self, task: str, vectors: Mapping[str, Any]) -> WorkingMemory:
        """The candidates for a task; fewer if the nearest shape is close."""
        if self.parts.fingerprints:
            near = self.shelf.nearest(Outline, NAME, vectors[NAME], max(WIDTH.values()))
            held = WorkingMemory(task, by_shape(near[0].score if near else 0.0))
            held.take((hit.id, hit.score) for hit in near if hit.score >= LEAST_LIKE)
            return held
        name = self.embedder.name
        near = self.shelf.nearest(NeuronTree, name, vectors[name], NEAREST)
        worded = self.shelf.search(NeuronTree, task, NEAREST)
        held = WorkingMemory(task, Recognition("novel"))
        held.take((hit.id, -float(place)) for place, hit in enumerate((*near, *worded)))
        return held

    # ---- fitting -----------------------------------------------------------------------------------------

    def _aligned(
        self, outlines: Iterable[tuple[str, Mapping[str, Any]]], read: Reading
    ) -> tuple[dict[str, tuple[Reading, Alignment]], list[tuple[str, str]]]:
        """The stored tasks that align, up to `ENOUGH`, and why others do not."""
        found: dict[str, tuple[Reading, Alignment]] = {}
        refused: list[tuple[str, str]] = []
        kinds = _kinds(read)
        for id, told in outlines:
            task = told.get("task")
            if not isinstance(task, str) or len(found) >= ENOUGH:
                continue
            if told.get("leaves") != kinds:
                refused.append((id, "it has values of other kinds"))
                continue
            stored = self._read(task)
            alignment = align(stored, read)
            if isinstance(alignment, Refusal):
                refused.append((id, alignment.why))
            else:
                found[id] = (stored, alignment)
        return found, refused

    def _stored(
        self, aligned: Mapping[str, tuple[Reading, Alignment]], refused: list[tuple[str, str]]
    ) -> list[_Stored]:
        """The aligned trees, without those whose steps only fit their own task."""
        found: list[_Stored] = []
        for id, told in self.shelf.fields(NeuronTree, aligned, ("exemplar", "ledger")).items():
            exemplar, (reading, alignment) = told.get("exemplar"), aligned[id]
            ledger = Ledger.model_validate(told.get("ledger") or {})
            if not isinstance(exemplar, dict):
                continue
            if exemplar.get("made") and not alignment.exact:
                why = "its steps hold text made for another task"
                refused.append((id, why))
            else:
                found.append(_Stored(id, reading, alignment, exemplar, ledger))
        return found

    def _bound(self, stored: Sequence[_Stored], refused: list[tuple[str, str]]) -> list[_Fit]:
        found: list[_Fit] = []
        for each in stored:
            fit = _fit(each, None)
            if isinstance(fit, Refusal):
                others = (other for other in stored if other is not each and self._sound(other))
                fit = self._witnessed(each, others) or fit
            if isinstance(fit, Refusal):
                refused.append((each.id, fit.why))
            else:
                found.append(fit)
        return found

    def _witnessed(self, stored: _Stored, others: Iterable[_Stored]) -> _Fit | None:
        """The procedure bound with the first of these witnesses that helps."""
        told = (_fit(stored, witness) for witness in self._witnesses(stored, others))
        return next((fit for fit in told if isinstance(fit, _Fit)), None)

    def _sound(self, stored: _Stored) -> bool:
        return not (self.parts.quarantine and stored.ledger.quarantined)

    def _agreed(self, fits: Sequence[_Fit]) -> list[_Fit]:
        """The matches bound again with each other as witnesses, to tell equal numbers apart."""
        return [
            self._witnessed(each.stored, (other.stored for other in fits if other is not each)) or each
            for each in fits
        ]

    def _witnesses(self, stored: _Stored, others: Iterable[_Stored]) -> Iterable[Witness]:
        asked = 0
        for other in others:
            if asked < WITNESSES and other.reading.tokens != stored.reading.tokens:
                found = align(stored.reading, other.reading)
                if isinstance(found, Alignment):
                    asked += 1
                    yield Witness(_steps(other), found)


def _steps(stored: _Stored) -> Steps:
    return stored.exemplar.get("steps") or ()


def _differ(done: Sequence[Steps]) -> bool:
    """Whether these steps do different things."""
    return len({repr(each) for each in done}) > 1 and len({outcome(each) for each in done}) > 1


def _kinds(reading: Reading) -> str:
    """The kinds of the values of a task, in order."""
    return " ".join(f"{kind}{unit}" for kind, unit in reading.leaves)


def _fit(stored: _Stored, witness: Witness | None) -> _Fit | Refusal:
    steps = bind(_steps(stored), stored.alignment, witness=witness, either=True)
    if isinstance(steps, Refusal):
        return steps
    rest = {
        "output": stored.exemplar.get("output") or "",
        "success": list(stored.exemplar.get("success") or ()),
    }
    bound = bind([rest], stored.alignment, used=steps)
    return bound if isinstance(bound, Refusal) else _Fit(stored, tuple(steps), bound[0])


@contextmanager
def _timed(ms: dict[str, float], part: str) -> Generator[None]:
    """Note the milliseconds of a part."""
    began = time.perf_counter()
    try:
        yield
    finally:
        ms[part] = round((time.perf_counter() - began) * 1000, 3)
