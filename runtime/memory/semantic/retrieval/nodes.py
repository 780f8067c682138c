"""What is looked at first: memories, and observations that no memory leads to. The best of them are opened.

An observation that became evidence of a memory is found through it. Where nothing has, nothing is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.memory.semantic.retrieval.index import Index

WIDE = 120
"""Observations that opened nodes lead to; when as many are open, no further node is opened."""
MEASURED = ("word", "meaning")
"""What nodes are chosen by, all alike: what else is measured, memories have none of."""


def opened(index: Index, told: Mapping[str, Any], wide: int = WIDE) -> Any:
    """For each row the score of the node that leads to it, −∞ where none of the best does.

    None where no memory leads to anything.
    """
    import numpy as np

    inside, columns = index.inside, index.columns
    if not inside:
        return None
    scores = np.zeros(columns.count, np.float32)
    for name in MEASURED:
        if name in told:
            scores += told[name]
    nodes = columns.alive.copy()
    for rows in inside.values():
        nodes[rows] = False
    found = np.full(columns.count, -np.inf, np.float32)
    places, count = np.flatnonzero(nodes), 0
    for node in places[np.argsort(-scores[places], kind="stable")].tolist():
        if count >= wide:
            break
        rows = inside.get(node, [])
        found[[node, *rows]] = scores[node]
        count += len(rows) or 1
    return found
