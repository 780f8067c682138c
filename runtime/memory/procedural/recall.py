"""Recall: the stored task that a new one is, exactly or but for its leaves; else it is novel."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from runtime.embedding import Embedder
from runtime.memory.procedural.alignment import Alignment, Refusal, align
from runtime.memory.procedural.binding import Steps, Witness, bind
from runtime.memory.procedural.blame import confidence, suspect
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.ledger import Ledger
from runtime.memory.procedural.merging import absorb, tree_by
from runtime.memory.procedural.outcome import outcome
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.reading import Reading
from runtime.memory.procedural.recognition import WIDTH, Recognition, WorkingMemory, by_shape
from runtime.memory.procedural.rewards import deed
from runtime.memory.procedural.shape import NAME, shape
from runtime.memory.procedural.trees import NeuronTree, tree_of
from runtime.memory.procedural.words import Words
from runtime.store import Record, Shelf, pack

NEAREST = 8
"""Without fingerprints: the nearest by meaning that are compared, and as many by their words."""
LEAST_LIKE = 0.4
"""Of the cosine of two shapes, below which tasks are not compared."""
ENOUGH = 3
"""Stored tasks that fit, after which no more are compared: they tell each other's equal numbers apart."""
WITNESSES = 2
"""Other solved tasks of the same kind that are asked which number is which."""
READINGS = 4096
"""Stored tasks that are kept as they were read."""

Kind = Literal["exact", "variation", "novel"]


@dataclass(frozen=True)
class Recall:
    """What was recalled for a task: the procedure with its values, or why there is none."""

    kind: Kind
    tree: NeuronTree | None = None
    steps: tuple[dict[str, Any], ...] = ()
    success: tuple[dict[str, Any], ...] = ()
    output: str = ""
    candidates: int = 0
    changed: tuple[tuple[str, str], ...] = ()  # what stands for what of the stored task
    refused: tuple[tuple[str, str], ...] = field(default=())  # (tree, why) for those that came near
    ms: Mapping[str, float] = field(default_factory=dict[str, float])  # embed, find, align, bind
    confidence: float = 0.0  # how sure it is that this goes well, between 0 and 1
    agreed: bool = False  # another stored task fits, and comes to the same
    rivals: tuple[tuple[str, str], ...] = ()  # trees that fitted and were not used, and what each would do

    @property
    def why(self) -> str:
        """Why nothing was recalled, by the stored task that came nearest to it."""
        return "" if self.tree or not self.refused else self.refused[0][1]


class Outline(Record):
    """As much of a tree, by its id, as is looked at before its task is known to fit."""

    KIND: ClassVar[str] = "outline"

    task: str
    leaves: str = ""


@dataclass(frozen=True)
class _Stored:
    """A tree whose task fits, with as much of it as is needed before one is taken."""

    id: str
    reading: Reading
    alignment: Alignment
    exemplar: Mapping[str, Any]
    ledger: Ledger

    @property
    def judged(self) -> bool:
        """Whether something came of it, which its branches may have had a share in."""
        return bool(self.ledger.correct or self.ledger.incorrect)


@dataclass(frozen=True)
class _Fit:
    """A stored procedure with a new task's values."""

    stored: _Stored
    steps: tuple[dict[str, Any], ...]
    rest: Mapping[str, Any]


class ProceduralMemory:
    """What was solved before, on one shelf, found by its shape, or by one embedder without that part."""

    def __init__(self, shelf: Shelf, embedder: Embedder, words: Words, parts: Parts = ALL) -> None:
        self.shelf, self.embedder, self.words, self.parts = shelf, embedder, words, parts
        self._readings: OrderedDict[str, Reading] = OrderedDict()

    # ---- learning ----------------------------------------------------------------------------------------

    def learn(self, exemplar: Exemplar, *, run: str = "", rung: str = "", at: str = "") -> NeuronTree:
        """Keep a solved task; the same one solved in the same way keeps its ledger."""
        segmented = self.parts.segmentation
        tree = tree_of(exemplar, self.embedder, run=run, rung=rung, at=at, segmented=segmented)
        with self.shelf.transaction():
            if known := tree_by(self.shelf, tree.id):
                vectors = tree.vectors if known.id == tree.id else {}  # else they are of many tasks
                tree = known.model_copy(update={"vectors": {**known.vectors, **vectors}})
            return self._kept(tree, new=known is None)

    def take_in(self, tree: NeuronTree) -> NeuronTree:
        """Give a stored tree its neurons and its vectors."""
        grown = tree_of(tree.exemplar, self.embedder, segmented=self.parts.segmentation)
        vectors = {**tree.vectors, **grown.vectors}
        made = tree.model_copy(update={"vectors": vectors})
        if not tree.neurons:  # else they have been credited and blamed since
            made = made.model_copy(update={"neurons": grown.neurons, "synapses": grown.synapses})
        return self._kept(made, new=True)

    def _kept(self, tree: NeuronTree, *, new: bool) -> NeuronTree:
        """The tree as it is kept: what is the same procedure as one that is there becomes one with it."""
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
        """What a tree is found and compared by."""
        task = tree.exemplar.task
        read = self._read(task)
        vectors = {NAME: pack(shape(read, self.words))}
        return Outline(id=tree.id, task=task, leaves=_kinds(read), vectors=vectors)

    # ---- recalling ---------------------------------------------------------------------------------------

    def recall(self, task: str) -> Recall:
        """The procedure for a task, where every span of it is accounted for; else novel.

        Where two stored tasks fit and would do different things, none is taken.
        """
        clock = _Clock()
        with clock("embed"):
            read = Reading.read(task, self.words)
            vectors = self._vectors(task, read)
        with clock("find"):
            held = self._held(task, vectors)
            ids = list(held.candidates)
            outlines = self.shelf.fields(Outline, ids, ("task", "leaves"))
        with clock("align"):
            aligned, refused = self._aligned([(id, outlines.get(id, {})) for id in ids], read)
        with clock("bind"):
            stored = self._stored(aligned, refused)
            found = self._bound(stored, refused)
        told = Recall("novel", candidates=len(ids), refused=tuple(refused), ms=clock.ms)
        return self._chosen(task, found, told) if found else told

    def _chosen(self, task: str, found: Sequence[_Fit], told: Recall) -> Recall:
        """Of what fits, the one that is trusted most, where all that are trusted do the same."""
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
            why = "several stored tasks fit, and would do different things"
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
        """Why a tree that fits is not used, for what came of it before; "" where nothing is against it."""
        if self.parts.quarantine and stored.ledger.quarantined:
            return "it fits, and went wrong too often: it is in quarantine"
        misled = suspect(judged, task, self.parts) if judged else ""
        return f"it fits, and went wrong too often where this was otherwise: {misled}" if misled else ""

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
        """The trees that a task is compared with, the most like it first."""
        return list(self._held(task, self._vectors(task, Reading.read(task, self.words))).candidates)

    def _vectors(self, task: str, read: Reading) -> dict[str, Any]:
        if self.parts.fingerprints:
            return {NAME: shape(read, self.words)}
        return {self.embedder.name: self.embedder.embed([task])[0]}

    def _held(self, task: str, vectors: Mapping[str, Any]) -> WorkingMemory:
        """What is looked at for one task: the better the nearest shape is known, the less."""
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

    def _read(self, task: str) -> Reading:
        """A stored task as it is compared, read once."""
        known = self._readings.pop(task, None)
        self._readings[task] = known = known or Reading.read(task, self.words)
        if len(self._readings) > READINGS:
            self._readings.popitem(last=False)
        return known

    # ---- fitting -----------------------------------------------------------------------------------------

    def _aligned(
        self, outlines: Iterable[tuple[str, Mapping[str, Any]]], read: Reading
    ) -> tuple[dict[str, tuple[Reading, Alignment]], list[tuple[str, str]]]:
        """The stored tasks that fit, and why others do not; once enough do, no more are looked at."""
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
            alignment = align(stored, read, self.words)
            if isinstance(alignment, Refusal):
                refused.append((id, alignment.why))
            else:
                found[id] = (stored, alignment)
        return found, refused

    def _stored(
        self, aligned: Mapping[str, tuple[Reading, Alignment]], refused: list[tuple[str, str]]
    ) -> list[_Stored]:
        """What is known of these trees, but for those whose steps suit no other task."""
        found: list[_Stored] = []
        for id, told in self.shelf.fields(NeuronTree, aligned, ("exemplar", "ledger")).items():
            exemplar, (reading, alignment) = told.get("exemplar"), aligned[id]
            ledger = Ledger.model_validate(told.get("ledger") or {})
            if not isinstance(exemplar, dict):
                continue
            if exemplar.get("made") and not alignment.exact:
                why = "its steps hold text that came from no task, and may not suit another"
                refused.append((id, why))
            else:
                found.append(_Stored(id, reading, alignment, exemplar, ledger))
        return found

    def _bound(self, stored: Sequence[_Stored], refused: list[tuple[str, str]]) -> list[_Fit]:
        found: list[_Fit] = []
        for each in stored:
            fit = _fit(each, None)
            others = (other for other in stored if other is not each and self._sound(other))
            for witness in self._witnesses(each, others) if isinstance(fit, Refusal) else ():
                told = _fit(each, witness)
                if isinstance(told, _Fit):
                    fit = told
                    break
            if isinstance(fit, Refusal):
                refused.append((each.id, fit.why))
            else:
                found.append(fit)
        return found

    def _sound(self, stored: _Stored) -> bool:
        return not (self.parts.quarantine and stored.ledger.quarantined)

    def _agreed(self, fits: Sequence[_Fit]) -> list[_Fit]:
        """The same, each as the others testify: one number that is 5 by chance may be a 5 of its own."""
        found: list[_Fit] = []
        for each in fits:
            others = (other.stored for other in fits if other is not each)
            told = (_fit(each.stored, witness) for witness in self._witnesses(each.stored, others))
            found.append(next((fit for fit in told if isinstance(fit, _Fit)), each))
        return found

    def _witnesses(self, stored: _Stored, others: Iterable[_Stored]) -> Iterable[Witness]:
        asked = 0
        for other in others:
            if asked < WITNESSES and other.reading.tokens != stored.reading.tokens:
                found = align(stored.reading, other.reading, self.words)
                if isinstance(found, Alignment):
                    asked += 1
                    yield Witness(_steps(other), found)


def _steps(stored: _Stored) -> Steps:
    return stored.exemplar.get("steps") or ()


def _differ(done: Sequence[Steps]) -> bool:
    """Whether these steps do different things; they are worked out only where they are not the same."""
    return len({repr(each) for each in done}) > 1 and len({outcome(each) for each in done}) > 1


def _kinds(reading: Reading) -> str:
    """The kinds of the values of a task, in their order."""
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


class _Clock:
    """Milliseconds by part."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.ms[part] = round((time.perf_counter() - began) * 1000, 3)
