"""Recall: the stored task that a new one is, exactly or but for its leaves; else it is novel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from runtime.embedding import Embedder
from runtime.memory.procedural.alignment import Refusal, align
from runtime.memory.procedural.binding import bind
from runtime.memory.procedural.blame import confidence, suspect
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.leaves import Token, tokens, without_courtesies
from runtime.memory.procedural.merging import absorb, tree_by
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.rewards import deed
from runtime.memory.procedural.trees import NeuronTree, tree_of
from runtime.memory.procedural.words import Words
from runtime.store import Shelf

CANDIDATES = 8
"""Trees that are compared with a task: the nearest, and as many by their words."""

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
    confidence: float = 0.0  # how sure it is that this goes well, between 0 and 1
    rivals: tuple[tuple[str, str], ...] = ()  # trees that fitted and were not used, and what each would do


class ProceduralMemory:
    """What was solved before, on one shelf, found by one embedder."""

    def __init__(self, shelf: Shelf, embedder: Embedder, words: Words, parts: Parts = ALL) -> None:
        self.shelf, self.embedder, self.words, self.parts = shelf, embedder, words, parts

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
        """Give a stored tree its neurons and its vector."""
        grown = tree_of(tree.exemplar, self.embedder, segmented=self.parts.segmentation)
        vectors = {**tree.vectors, **grown.vectors}
        made = tree.model_copy(
            update={"vectors": vectors, "neurons": grown.neurons, "synapses": grown.synapses}
        )
        return self._kept(made, new=True)

    def _kept(self, tree: NeuronTree, *, new: bool) -> NeuronTree:
        """The tree as it is kept: what is the same procedure as one that is there becomes one with it."""
        self.shelf.put(tree)
        if not (new and self.parts.merging and tree.vectors):
            return tree
        return absorb(self.shelf, tree, self._candidates(tree.text), self.words)

    def recall(self, task: str) -> Recall:
        """The procedure for a task, where every span of it is accounted for; else novel.

        Where two stored tasks fit and would do different things, none is taken.
        """
        read = self._read(task)
        trees = self._candidates(task)
        refused: list[tuple[str, str]] = []
        found: list[Recall] = []
        rivals: list[tuple[str, str]] = []
        for tree in trees:
            fits = self._fits(tree, read, len(trees))
            if isinstance(fits, Refusal):
                refused.append((tree.id, fits.why))
                continue
            rivals.append((tree.id, deed(fits.steps)))
            if distrust := self._distrust(tree, task):
                refused.append((tree.id, distrust))
            else:
                found.append(replace(fits, confidence=confidence(tree, task, self.parts)))
        if len({repr(each.steps) for each in found}) > 1:
            why = "several stored tasks fit, and would do different things"
            refused += [(each.tree.id, why) for each in found if each.tree]
            found = []
        if not found:
            return Recall("novel", candidates=len(trees), refused=tuple(refused), rivals=tuple(rivals))
        return max(found, key=lambda each: (each.kind == "exact", each.confidence))

    def reward(self, tree: str, good: bool) -> NeuronTree | None:
        """What came of a use."""
        with self.shelf.transaction():
            known = self.shelf.get(NeuronTree, tree)
            if known is None:
                return None
            known = known.model_copy(update={"ledger": known.ledger.after(good)})
            self.shelf.put(known)
        return known

    def _read(self, task: str) -> list[Token]:
        return without_courtesies(tokens(task), self.words)

    def _candidates(self, task: str) -> list[NeuronTree]:
        (vector,) = self.embedder.embed([task])
        near = self.shelf.nearest(NeuronTree, self.embedder.name, vector, CANDIDATES)
        worded = self.shelf.search(NeuronTree, task, CANDIDATES)
        ids = dict.fromkeys(hit.id for hit in (*near, *worded))
        return self.shelf.pick(NeuronTree, ids)

    def _distrust(self, tree: NeuronTree, task: str) -> str:
        """Why a tree that fits is not used, for what came of it before; "" where nothing is against it."""
        if self.parts.quarantine and tree.ledger.quarantined:
            return "it fits, and went wrong too often: it is in quarantine"
        misled = suspect(tree, task, self.parts)
        return f"it fits, and went wrong too often where this was otherwise: {misled}" if misled else ""

    def _fits(self, tree: NeuronTree, read: Sequence[Token], candidates: int) -> Recall | Refusal:
        alignment = align(self._read(tree.exemplar.task), read, self.words)
        if isinstance(alignment, Refusal):
            return alignment
        steps = bind(tree.exemplar.steps, alignment)
        if isinstance(steps, Refusal):
            return steps
        rest = bind(
            [{"output": tree.exemplar.output, "success": list(tree.exemplar.success)}], alignment, used=steps
        )
        if isinstance(rest, Refusal):
            return rest
        kind: Kind = "exact" if alignment.exact else "variation"
        if kind == "variation" and tree.exemplar.made:
            return Refusal("its steps hold text that came from no task, and may not suit another")
        success = tuple(rest[0]["success"])
        changed = tuple(
            (old.text, new.text)
            for old, new in alignment.leaves
            if (old.value, old.unit) != (new.value, new.unit)
        )
        changed += tuple(alignment.exchanged.items())
        return Recall(kind, tree, tuple(steps), success, rest[0]["output"], candidates, changed)
