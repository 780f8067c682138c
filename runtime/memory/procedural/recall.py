"""Recall: the stored task that a new one is, exactly or but for its leaves; else it is novel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.embedding import Embedder
from runtime.memory.procedural.alignment import Refusal, align
from runtime.memory.procedural.binding import bind
from runtime.memory.procedural.exemplar import Exemplar
from runtime.memory.procedural.reading import Reading
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

    @property
    def confidence(self) -> float:
        """How sure it is that the next use goes well, between 0 and 1."""
        return self.tree.ledger.confidence if self.tree else 0.0


class ProceduralMemory:
    """What was solved before, on one shelf, found by one embedder."""

    def __init__(self, shelf: Shelf, embedder: Embedder, words: Words) -> None:
        self.shelf, self.embedder, self.words = shelf, embedder, words

    def learn(self, exemplar: Exemplar, *, run: str = "", rung: str = "", at: str = "") -> NeuronTree:
        """Keep a solved task; the same one solved in the same way keeps its ledger."""
        tree = tree_of(exemplar, self.embedder, run=run, rung=rung, at=at)
        with self.shelf.transaction():
            if known := self.shelf.get(NeuronTree, tree.id):
                tree = known.model_copy(update={"vectors": {**known.vectors, **tree.vectors}})
            self.shelf.put(tree)
        return tree

    def take_in(self, tree: NeuronTree) -> NeuronTree:
        """Give a stored tree its neurons and its vector."""
        grown = tree_of(tree.exemplar, self.embedder)
        vectors = {**tree.vectors, **grown.vectors}
        made = tree.model_copy(
            update={"vectors": vectors, "neurons": grown.neurons, "synapses": grown.synapses}
        )
        self.shelf.put(made)
        return made

    def recall(self, task: str) -> Recall:
        """The procedure for a task, where every span of it is accounted for; else novel.

        Where two stored tasks fit and would do different things, none is taken.
        """
        read = self._read(task)
        trees = self._candidates(task)
        refused: list[tuple[str, str]] = []
        found: list[Recall] = []
        for tree in trees:
            fits = self._fits(tree, read, len(trees))
            if isinstance(fits, Refusal):
                refused.append((tree.id, fits.why))
            else:
                found.append(fits)
        if len({repr(each.steps) for each in found}) > 1:
            why = "several stored tasks fit, and would do different things"
            return Recall(
                "novel",
                candidates=len(trees),
                refused=(*refused, *((r.tree.id, why) for r in found if r.tree)),
            )
        if not found:
            return Recall("novel", candidates=len(trees), refused=tuple(refused))
        return max(
            found, key=lambda each: (each.kind == "exact", each.tree.ledger.confidence if each.tree else 0)
        )

    def reward(self, tree: str, good: bool) -> NeuronTree | None:
        """What came of a use."""
        with self.shelf.transaction():
            known = self.shelf.get(NeuronTree, tree)
            if known is None:
                return None
            known = known.model_copy(update={"ledger": known.ledger.after(good)})
            self.shelf.put(known)
        return known

    def _read(self, task: str) -> Reading:
        return Reading.read(task, self.words)

    def _candidates(self, task: str) -> list[NeuronTree]:
        (vector,) = self.embedder.embed([task])
        near = self.shelf.nearest(NeuronTree, self.embedder.name, vector, CANDIDATES)
        worded = self.shelf.search(NeuronTree, task, CANDIDATES)
        ids = dict.fromkeys(hit.id for hit in (*near, *worded))
        return [tree for tree in self.shelf.pick(NeuronTree, ids) if not tree.ledger.quarantined]

    def _fits(self, tree: NeuronTree, read: Reading, candidates: int) -> Recall | Refusal:
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
