"""Merging: two trees that are one procedure become one, so that one ledger counts for both.

Similar fingerprints are not enough: the steps of one tree, bound to the other's values, must be the other's
steps, and the tasks may differ in values only. The id of the removed tree becomes an alias. Source: seed
000_39bad3da279292ba, "Neuron Merging".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from runtime.memory.store import Record, Shelf, pack
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import align
from runtime.memory.tasks.binding import bind
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.fingerprint import Fingerprint
from runtime.memory.tasks.ledger import Ledger, lower, more
from runtime.memory.tasks.makers import is_ours
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.trees import Neuron, NeuronTree
from runtime.memory.tasks.words import Words

ALIKE = 0.92
"""Neurons with more similar fingerprints merge. Source: the seed."""


class Alias(Record):
    """The id of a tree that was merged into another."""

    KIND: ClassVar[str] = "merged-tree"

    into: str


def tree_by(shelf: Shelf, id: str) -> NeuronTree | None:
    """A tree by its id, or the one that it was merged into."""
    seen: set[str] = set()
    while id and id not in seen:
        seen.add(id)
        if tree := shelf.get(NeuronTree, id):
            return tree
        alias = shelf.get(Alias, id)
        id = alias.into if alias else ""
    return None


def absorb(shelf: Shelf, tree: NeuronTree, near: Iterable[NeuronTree], words: Words) -> NeuronTree:
    """Merge a tree into the first near one that is the same procedure; returns the tree that remains.

    A tree in quarantine absorbs nothing: it would put a new solution in quarantine, too.
    """
    for other in near:
        if other.id == tree.id or other.ledger.quarantined:
            continue
        if (is_ours(other), other.maker, other.evidence) != (is_ours(tree), tree.maker, tree.evidence):
            continue  # what one may replay, the other may not
        if alike(other, tree) and subsumes(other.exemplar, tree.exemplar, words):
            made = merged(other, tree)
            with shelf.transaction():
                shelf.put(made, Alias(id=tree.id, into=made.id))
                shelf.delete(NeuronTree, tree.id)
            return made
    return tree


def alike(one: NeuronTree, other: NeuronTree) -> bool:
    """Whether the fingerprints of two tasks are similar by some embedder."""
    for name in one.vectors.keys() & other.vectors.keys():
        first, second = one.vector(name), other.vector(name)
        if first is None or second is None:
            continue
        if Fingerprint.of(first).similarity(Fingerprint.of(second)) > ALIKE:
            return True
    return False


def subsumes(kept: Exemplar, other: Exemplar, words: Words) -> bool:
    """Whether one procedure with another's values is that other, and their tasks differ in values alone."""
    found = align(Reading.read(kept.task, words), Reading.read(other.task, words))
    if isinstance(found, Refusal) or found.exchanged or found.phrases:
        return False
    steps = bind(kept.steps, found)
    if isinstance(steps, Refusal) or steps != [dict(each) for each in other.steps]:
        return False
    rest = bind([{"output": kept.output, "success": list(kept.success)}], found, used=steps)
    return rest == [{"output": other.output, "success": [dict(each) for each in other.success]}]


def merged(kept: NeuronTree, other: NeuronTree) -> NeuronTree:
    """The first tree with what is known of both."""
    return kept.model_copy(
        update={
            "vectors": _together(kept, other),
            "neurons": tuple(_stronger(each, other.neurons) for each in kept.neurons),
            "ledger": _added(kept.ledger, other.ledger),
            "standing": lower(kept.stands, other.stands) if kept.standing or other.standing else None,
        }
    )


def _together(kept: NeuronTree, other: NeuronTree) -> Mapping[str, bytes]:
    import numpy as np

    first, second = (tree.neurons[0].strength if tree.neurons else 1 for tree in (kept, other))
    made = {**other.vectors, **kept.vectors}
    for name in kept.vectors.keys() & other.vectors.keys():
        one, two = kept.vector(name), other.vector(name)
        if one is None or two is None or one.shape != two.shape:
            continue
        mean = (first * one + second * two) / (first + second)
        made[name] = pack(mean / (float(np.linalg.norm(mean)) or 1.0))
    return made


def _stronger(neuron: Neuron, others: Iterable[Neuron]) -> Neuron:
    mark = Fingerprint(frozenset(neuron.fingerprint))
    for each in others:
        if each.depth == neuron.depth and mark.similarity(Fingerprint(frozenset(each.fingerprint))) > ALIKE:
            return neuron.model_copy(update={"strength": neuron.strength + each.strength})
    return neuron


def _added(one: Ledger, other: Ledger) -> Ledger:
    mine, yours = one.forgiven, other.forgiven
    return Ledger(
        uses=one.uses + other.uses,
        correct=more(one.correct, other.correct),
        incorrect=more(one.incorrect, other.incorrect),
        forgiven=(mine[0] + yours[0], more(mine[1], yours[1]), more(mine[2], yours[2])),
    )
