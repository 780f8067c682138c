"""Synapse weights: a good use strengthens the synapses on its path, a bad one weakens them.

A weight is computed from the segmentation's weight and the credit and blame kept beside it, so order does not
matter and an outcome can be taken back. Old credit fades; weak synapses are pruned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runtime.memory.tasks.ledger import QUARANTINE_USES, more, rejected
from runtime.memory.tasks.trees import LEAST_WEIGHT, MOST_WEIGHT, NeuronTree, Synapse, short

RATE = 0.2
"""One good use multiplies a weight by e to this power."""
WEAK = 0.05
"""Synapses below this weight are pruned. Source: seed 000_39bad3da279292ba, "Dream Consolidation"."""
HALVES = 90.0
"""Days after which credit and blame count half."""
FADED = 0.01
"""Less credit or blame than this is dropped."""


def weight(synapse: Synapse) -> float:
    """The weight by origin, credit and blame, between `LEAST_WEIGHT` and `MOST_WEIGHT`."""
    grown = (synapse.origin or synapse.weight) * math.exp(RATE * (synapse.right - synapse.wrong))
    return round(min(max(grown, LEAST_WEIGHT), MOST_WEIGHT), 6)


def credited(
    synapses: Sequence[Synapse], shares: Mapping[str, float], good: bool, trust: float, *, hebbian: bool
) -> tuple[Synapse, ...]:
    """The synapses after an outcome, shared by short child id; a negative trust takes it back."""
    made: list[Synapse] = []
    for each in synapses:
        if share := shares.get(short(each.child), 0.0):
            name = "right" if good else "wrong"
            each = _counted(each, {name: more(getattr(each, name), round(share * trust, 6))}, hebbian)
        made.append(each)
    return tuple(made)


def faded(tree: NeuronTree, days: float, *, hebbian: bool) -> NeuronTree:
    """The tree with its credit and blame after this many more days."""
    share = 0.5 ** (days / HALVES)

    def less(count: float) -> int | float:
        return more(count * share, 0) if count * share >= FADED else 0

    made = (
        _counted(each, {"right": less(each.right), "wrong": less(each.wrong)}, hebbian)
        if each.right or each.wrong
        else each
        for each in tree.synapses
    )
    return tree.model_copy(update={"synapses": tuple(made)})


def _counted(synapse: Synapse, counts: Mapping[str, float], hebbian: bool) -> Synapse:
    made = synapse.model_copy(update={**counts, "origin": synapse.origin or synapse.weight})
    return made.model_copy(update={"weight": weight(made)}) if hebbian else made


def without_weak(tree: NeuronTree) -> NeuronTree:
    """The tree without its weak synapses and what only they connect; one with credit or blame is kept."""
    return _reached(tree, [s for s in tree.synapses if s.weight >= WEAK or s.right or s.wrong])


def failed(right: float, wrong: float) -> bool:
    """Whether a branch misled too often: the rule by which a whole tree is quarantined."""
    return right + wrong >= QUARANTINE_USES and rejected(right, wrong)


def cut_back(tree: NeuronTree) -> NeuronTree:
    """The tree without what is below neurons that misled too often.

    These keep their blame, so they still prevent a replay.
    """
    stumps = {each.child for each in tree.synapses if failed(each.right, each.wrong)}
    return _reached(tree, [each for each in tree.synapses if each.parent not in stumps])


def _reached(tree: NeuronTree, synapses: Sequence[Synapse]) -> NeuronTree:
    """The tree with those of these synapses, and the neurons, that its root reaches."""
    if not tree.neurons or len(synapses) == len(tree.synapses):
        return tree
    below: dict[str, list[str]] = {}
    for each in synapses:
        below.setdefault(each.parent, []).append(each.child)
    found, waiting = {tree.neurons[0].id}, [tree.neurons[0].id]
    while waiting:
        new = [child for child in below.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    neurons = tuple(each for each in tree.neurons if each.id in found)
    kept = tuple(each for each in synapses if each.parent in found and each.child in found)
    return tree.model_copy(update={"neurons": neurons, "synapses": kept})
