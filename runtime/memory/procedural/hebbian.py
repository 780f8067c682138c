"""Hebbian weights: a synapse on the path of a right recall grows stronger, of a wrong one weaker.

A weight follows from what segmentation gave and from the credit and blame that are kept beside it. So it does
not matter in which order they came, and what is taken back leaves no trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from runtime.memory.procedural.ledger import more
from runtime.memory.procedural.trees import LEAST_WEIGHT, MOST_WEIGHT, Synapse, short

RATE = 0.2
"""How much one whole right use strengthens: by a factor of e to this power."""


def weight(synapse: Synapse) -> float:
    """What the weight is by origin, credit and blame; always within its bounds."""
    grown = (synapse.origin or synapse.weight) * math.exp(RATE * (synapse.right - synapse.wrong))
    return round(min(max(grown, LEAST_WEIGHT), MOST_WEIGHT), 6)


def credited(
    synapses: tuple[Synapse, ...], shares: Mapping[str, float], good: bool, trust: float, *, hebbian: bool
) -> tuple[Synapse, ...]:
    """The synapses after an outcome, of which each child has its share; a negative trust takes one back."""
    made: list[Synapse] = []
    for each in synapses:
        share = shares.get(short(each.child), 0.0)
        if share:
            name = "right" if good else "wrong"
            told = {
                name: more(getattr(each, name), round(share * trust, 6)),
                "origin": each.origin or each.weight,
            }
            each = each.model_copy(update=told)
        made.append(each.model_copy(update={"weight": weight(each)}) if share and hebbian else each)
    return tuple(made)
