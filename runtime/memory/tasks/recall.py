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
from runtime.memory.tasks.binding import Steps, Witness, bind, deed
from runtime.memory.tasks.blame import confidence, suspect
from runtime.memory.tasks.clauses import compare
from runtime.memory.tasks.exemplar import Exemplar, only_for
from runtime.memory.tasks.fingerprint import NAME, shape
from runtime.memory.tasks.likeness import calculates
from runtime.memory.tasks.makers import marked, why_draft
from runtime.memory.tasks.merging import absorb, tree_by
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.refusals import Refusals
from runtime.memory.tasks.segmentation import tree_of
from runtime.memory.tasks.signing import DRAFT, Makers, unknown
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
    similar: int = 0  # stored tasks like it
    candidates: int = 0  # the best of them, which it was compared with
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

    @property
    def draft(self) -> str:
        """Why a procedure that fits may not be replayed; "" if there is none."""
        return next((why for _, why in self.refused if why.startswith(DRAFT)), "")


class Outline(Record):
    """The part of a tree that is read to compare its task."""

    KIND: ClassVar[str] = "outline"

    task: str
    leaves: str = ""


@dataclass(frozen=True)
class _Match:
    """A stored tree whose task aligns with a new one, and its procedure bound to that."""

    tree: NeuronTree
    reading: Reading
    alignment: Alignment
    steps: Steps = ()
    rest: Mapping[str, Any] = field(default_factory=dict[str, Any])  # output and success

    @property
    def id(self) -> str:
        return self.tree.id

    def bound(self, witness: Witness | None = None) -> _Match | Refusal:
        exemplar = self.tree.exemplar
        steps = bind(exemplar.steps, self.alignment, witness=witness, either=True)
        if isinstance(steps, Refusal):
            return steps
        rest = bind(
            [{"output": exemplar.output, "success": list(exemplar.success)}], self.alignment, used=steps
        )
        return rest if isinstance(rest, Refusal) else replace(self, steps=steps, rest=rest[0])


class ProceduralMemory:
    """The solved tasks of one shelf, found by shape, or by an embedder if fingerprints are off."""

    def __init__(self, shelf: Shelf, embedder: Embedder, words: Words, parts: Parts = ALL) -> None:
        self.shelf, self.embedder, self.words, self.parts = shelf, embedder, words, parts
        self.refusals = Refusals(shelf, words)
        self.makers: Makers = unknown
        """The makers whose procedures may be replayed."""
        self._read = lru_cache(READINGS)(lambda task: Reading.read(task, words))

    def learn(self, exemplar: Exemplar, *, run: str = "", rung: str = "", at: str = "") -> NeuronTree:
        """Keep a solved task; one that is already there keeps its ledger."""
        tree = tree_of(exemplar, self.embedder, segmented=self.parts.segmentation)
        tree = tree.model_copy(update={"run": run, "rung": rung, "maker": rung, "created": at})
        tree = tree.model_copy(update=marked(tree))
        with self.shelf.transaction():
            if known := tree_by(self.shelf, tree.id):
                vectors = tree.vectors if known.id == tree.id else {}  # a merged tree has mean vectors
                tree = known.model_copy(update={"vectors": {**known.vectors, **vectors}})
            return self._kept(tree, new=known is None)

    def take_in(self, tree: NeuronTree) -> NeuronTree:
        """Give a stored tree neurons and vectors."""
        grown = tree_of(tree.exemplar, self.embedder, segmented=self.parts.segmentation)
        update: dict[str, Any] = {"vectors": {**tree.vectors, **grown.vectors}}
        if not tree.neurons:  # otherwise they may have credit and blame
            update |= {"neurons": grown.neurons, "synapses": grown.synapses}
        return self._kept(tree.model_copy(update=update), new=True)

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

    def recall(self, task: str) -> Recall:
        """The procedure for a task; novel if no stored task matches every word of it.

        If two stored tasks match and would do different things, none is used.
        """
        ms: dict[str, float] = {}
        refused: list[tuple[str, str]] = []
        with _timed(ms, "embed"):
            read = Reading.read(task, self.words)
            vector = self._vector(task, read)
        with _timed(ms, "find"):
            near = self._near(task, vector)
            ids = list(near.candidates)
            fields = self.shelf.fields(Outline, ids, ("task", "leaves"))
            outlines = {
                id: fields[id] for id in ids if id in fields and isinstance(fields[id].get("task"), str)
            }
        with _timed(ms, "align"):
            aligned = self._aligned(outlines, read, refused)
        with _timed(ms, "bind"):
            found = self._bound(aligned, refused)
        novel = Recall("novel", similar=near.found, candidates=len(ids), refused=tuple(refused), ms=ms)
        return self._chosen(task, found, novel) if found else novel

    def _chosen(self, task: str, found: Sequence[_Match], novel: Recall) -> Recall:
        """The most trusted match, if all trusted matches do the same."""
        doubts = {each.id: self._doubt(each.tree, task) for each in found}
        trusted = [each for each in found if not doubts[each.id]]
        if _differ(trusted):
            trusted = [self._witnessed(each, trusted) or each for each in trusted]
        if _differ(trusted):
            why = "several stored tasks match and would do different things"
            doubts |= {each.id: why for each in trusted}
            trusted = []
        if trusted:
            sure = {each.id: confidence(each.tree, task, self.parts) for each in trusted}
            best = max(trusted, key=lambda each: (each.alignment.exact, sure[each.id]))
            return replace(
                novel,
                kind="exact" if best.alignment.exact else "variation",
                tree=best.tree,
                steps=tuple(best.steps),
                success=tuple(best.rest["success"]),
                output=best.rest["output"],
                changed=best.alignment.changed,
                confidence=sure[best.id],
                agreed=len(trusted) > 1,
            )
        rivals = tuple((each.id, deed(each.steps)) for each in found)
        distrusted = [(id, why) for id, why in doubts.items() if why]
        return replace(novel, refused=(*distrusted, *novel.refused), rivals=rivals)

    def _doubt(self, tree: NeuronTree, task: str) -> str:
        if refused := self.refusals.against(tree.id, task, tree.text):
            return f"it matches, but {refused.said}"
        if self.parts.quarantine and tree.ledger.quarantined:
            return "it matches, but is in quarantine: it went wrong too often"
        misled = suspect(tree, task, self.parts)
        return f"it matches, but went wrong too often when this differed: {misled}" if misled else ""

    def candidates(self, task: str) -> list[str]:
        """The trees that a task is compared with, the most similar first."""
        return list(self._near(task, self._vector(task, Reading.read(task, self.words))).candidates)

    def _vector(self, task: str, read: Reading) -> Any:
        return shape(read, self.words) if self.parts.fingerprints else self.embedder.embed([task])[0]

    def _near(self, task: str, vector: Any) -> WorkingMemory:
        """The candidates for a task; fewer if the nearest shape is close."""
        if self.parts.fingerprints:
            near = self.shelf.nearest(Outline, NAME, vector, max(WIDTH.values()))
            memory = WorkingMemory(task, by_shape(near[0].score if near else 0.0))
            memory.take((hit.id, hit.score) for hit in near if hit.score >= LEAST_LIKE)
        else:
            near = self.shelf.nearest(NeuronTree, self.embedder.name, vector, NEAREST)
            worded = self.shelf.search(NeuronTree, task, NEAREST)
            memory = WorkingMemory(task, Recognition("novel"))
            memory.take((hit.id, -float(place)) for place, hit in enumerate((*near, *worded)))
        return memory

    def _aligned(
        self, outlines: Mapping[str, Mapping[str, Any]], read: Reading, refused: list[tuple[str, str]]
    ) -> list[_Match]:
        """The trees whose tasks align, up to `ENOUGH`, without those whose steps only fit their own task."""
        found: list[tuple[NeuronTree, Reading, Alignment]] = []
        for id, outline in outlines.items():
            if len(found) >= ENOUGH:
                break
            stored = self._read(outline["task"])
            kinds = sorted(outline["leaves"].split(" ")) == sorted(_kinds(read).split(" "))
            alignment = compare(stored, read) if kinds else Refusal("it has values of other kinds")
            if isinstance(alignment, Refusal):
                refused.append((id, alignment.why))
            elif tree := self.shelf.get(NeuronTree, id):
                if why := why_draft(tree, self.makers):
                    refused.append((id, why))
                else:
                    found.append((tree, stored, alignment))
        matches: list[_Match] = []
        for tree, stored, alignment in found:
            if not alignment.exact and (why := only_for(tree.exemplar)):
                refused.append((tree.id, why))
            elif alignment.reordered and not calculates(tree.exemplar):
                refused.append((tree.id, "its words stand in another order"))
            else:
                matches.append(_Match(tree, stored, alignment))
        return matches

    def _bound(self, aligned: Sequence[_Match], refused: list[tuple[str, str]]) -> list[_Match]:
        sound = [m for m in aligned if not (self.parts.quarantine and m.tree.ledger.quarantined)]
        found: list[_Match] = []
        for each in aligned:
            match = each.bound()
            if isinstance(match, Refusal):
                match = self._witnessed(each, sound) or match
            if isinstance(match, Refusal):
                refused.append((each.id, match.why))
            else:
                found.append(match)
        return found

    def _witnessed(self, match: _Match, others: Iterable[_Match]) -> _Match | None:
        """The procedure bound with the first of the other matches, as a witness, that helps."""
        asked = 0
        for other in others:
            if asked < WITNESSES and other.reading.tokens != match.reading.tokens:
                found = align(match.reading, other.reading)
                if isinstance(found, Refusal):
                    continue
                asked += 1
                bound = match.bound(Witness(other.tree.exemplar.steps, found))
                if isinstance(bound, _Match):
                    return bound
        return None


def _differ(matches: Sequence[_Match]) -> bool:
    return len(matches) > 1 and len({deed(each.steps) for each in matches}) > 1


def _kinds(reading: Reading) -> str:
    return " ".join(f"{kind}{unit}" for kind, unit in reading.leaves)


@contextmanager
def _timed(ms: dict[str, float], part: str) -> Generator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        ms[part] = round((time.perf_counter() - began) * 1000, 3)
