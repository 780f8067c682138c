"""Merging: two trees that are one procedure become one, so that what is known of it stands in one place.

Vectors that are alike are not enough: the steps of one tree with the other's values must be the other's
steps, and the tasks may differ in numbers and the like only, not in words. Whatever the one that goes would
have answered, the one that stays answers. Decisions that name the one that went find the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from runtime.memory.procedural.alignment import Refusal, align
from runtime.memory.procedural.binding import bind
from runtime.memory.procedural.ledger import Ledger, more
from runtime.memory.procedural.reading import Reading
from runtime.memory.procedural.stages import lower
from runtime.memory.procedural.trees import Neuron, NeuronTree
from runtime.store import Record, Shelf, pack

if TYPE_CHECKING:
    from runtime.memory.procedural.exemplar import Exemplar
    from runtime.memory.procedural.words import Words

ALIKE = 0.92
"""Similarity of fingerprints from which on neurons merge. Source: memory.md."""


class Alias(Record):
    """A tree that was merged into another: its id, and what holds it now."""

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
    """Merge a tree into the first of those near it that is the same procedure; returns what holds it now.

    One that is in quarantine takes in nothing: what solved a task anew would be in quarantine with it.
    """
    for other in near:
        if other.id == tree.id or other.ledger.quarantined:
            continue
        if alike(other, tree) and subsumes(other.exemplar, tree.exemplar, words):
            made = merged(other, tree)
            with shelf.transaction():
                shelf.put(made, Alias(id=tree.id, into=made.id))
                shelf.delete(NeuronTree, tree.id)
            return made
    return tree


def alike(one: NeuronTree, other: NeuronTree) -> bool:
    """Whether the fingerprints of their tasks are: of their meaning by one embedder, or of their shape."""
    from runtime.memory.procedural.fingerprint import Fingerprint

    pairs = [(one.vector(name), other.vector(name)) for name in one.vectors.keys() & other.vectors.keys()]
    return any(
        Fingerprint.of(first).similarity(Fingerprint.of(second)) > ALIKE
        for first, second in pairs
        if first is not None and second is not None
    )


def _similar(one: Neuron, other: Neuron) -> bool:
    from runtime.memory.procedural.fingerprint import Fingerprint

    first, second = Fingerprint(frozenset(one.fingerprint)), Fingerprint(frozenset(other.fingerprint))
    return first.similarity(second) > ALIKE


def subsumes(kept: Exemplar, other: Exemplar, words: Words) -> bool:
    """Whether one procedure with another's values is that other, and their tasks differ in leaves alone."""
    old, new = (Reading.read(each.task, words) for each in (kept, other))
    found = align(old, new, words)
    if isinstance(found, Refusal) or found.exchanged or found.phrases:
        return False
    steps = bind(kept.steps, found)
    if isinstance(steps, Refusal) or steps != [dict(each) for each in other.steps]:
        return False
    rest = bind([{"output": kept.output, "success": list(kept.success)}], found, used=steps)
    return not isinstance(rest, Refusal) and rest == [
        {"output": other.output, "success": list(other.success)}
    ]


def merged(kept: NeuronTree, other: NeuronTree) -> NeuronTree:
    """One tree of two: vectors by strength, strengths and ledgers together."""
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
    alike = next((each for each in others if each.depth == neuron.depth and _similar(neuron, each)), None)
    return neuron.model_copy(update={"strength": neuron.strength + alike.strength}) if alike else neuron


def _added(one: Ledger, other: Ledger) -> Ledger:
    mine, yours = one.forgiven, other.forgiven
    return Ledger(
        uses=one.uses + other.uses,
        correct=more(one.correct, other.correct),
        incorrect=more(one.incorrect, other.incorrect),
        forgiven=(mine[0] + yours[0], more(mine[1], yours[1]), more(mine[2], yours[2])),
    )
