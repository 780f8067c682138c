"""What a tree loses in a dream: synapses that hardly pull, what grows below a branch that misled, old blame.

Blame is what keeps a tree from being replayed where it misled, so nothing that carries it is cut off: a
branch that misled too often is cut back to a stump, which from then on answers for all that it held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.memory.procedural.hebbian import weight
from runtime.memory.procedural.ledger import QUARANTINE_USES, more, rejected
from runtime.memory.procedural.trees import NeuronTree, Synapse

WEAK = 0.05
"""The weight below which a synapse goes. Source: dream.md."""
HALVES = 90.0
"""Days after which credit and blame count half."""
FADED = 0.01
"""Of credit or blame: what is less is none."""


def weak(synapses: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any synapse, as the store has it, is one to be pruned."""
    return any(_weak(each["weight"], each.get("right", 0), each.get("wrong", 0)) for each in synapses)


def _weak(weight: float, right: float, wrong: float) -> bool:
    return weight < WEAK and not (right or wrong)


def without_weak(tree: NeuronTree) -> NeuronTree:
    """Without the synapses that hardly pull and carry no credit, and what hangs on them alone."""
    return _reached(tree, [s for s in tree.synapses if not _weak(s.weight, s.right, s.wrong)])


def misled(synapses: Sequence[Mapping[str, Any]]) -> set[str]:
    """The children that misled too often and have something below them to be cut."""
    bad = {each["child"] for each in synapses if _bad(each.get("right", 0), each.get("wrong", 0))}
    return {each["parent"] for each in synapses if each["parent"] in bad}


def _bad(right: float, wrong: float) -> bool:
    return right + wrong >= QUARANTINE_USES and rejected(right, wrong)


def cut_back(tree: NeuronTree, stumps: Collection[str]) -> NeuronTree:
    """With nothing below these children any more."""
    return _reached(tree, [each for each in tree.synapses if each.parent not in stumps])


def _reached(tree: NeuronTree, synapses: Sequence[Synapse]) -> NeuronTree:
    """The tree with those of these synapses, and the neurons, that its root reaches."""
    if not tree.neurons:
        return tree
    below: dict[str, list[str]] = {}
    for each in synapses:
        below.setdefault(each.parent, []).append(each.child)
    found, waiting = {tree.neurons[0].id}, [tree.neurons[0].id]
    while waiting:
        for child in below.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return tree.model_copy(
        update={
            "neurons": tuple(each for each in tree.neurons if each.id in found),
            "synapses": tuple(each for each in synapses if each.parent in found and each.child in found),
        }
    )


def faded(tree: NeuronTree, days: float, *, hebbian: bool) -> NeuronTree:
    """With credit and blame that count less, the longer ago they were given."""
    share = 0.5 ** (days / HALVES)
    made: list[Synapse] = []
    for each in tree.synapses:
        if each.right or each.wrong:
            told = {name: _less(getattr(each, name), share) for name in ("right", "wrong")}
            each = each.model_copy(update={**told, "origin": each.origin or each.weight})
            each = each.model_copy(update={"weight": weight(each)}) if hebbian else each
        made.append(each)
    return tree.model_copy(update={"synapses": tuple(made)})


def _less(count: float, share: float) -> int | float:
    left = count * share
    return more(left, 0) if left >= FADED else 0
