"""What retrieval chooses among: nodes. The best are opened, and only what is within is looked at closely.

A node is a memory with the observations that are found through it, or an observation that no memory leads to.
It is as good as the best of its rows: a memory that words its evidence badly hides none of it.
"""

from __future__ import annotations

from typing import Any

from runtime.memory.semantic.retrieval.index import Index


def opened(index: Index, rows: Any, scores: Any, wide: int) -> Any:
    """Of these rows those in the best nodes, in their order; when `wide` are open, no further node is."""
    import numpy as np

    if len(rows) <= wide:
        return rows
    node = index.nodes[rows]
    best = np.full(index.columns.count, -np.inf, np.float32)
    np.maximum.at(best, node, scores[rows])
    order = np.lexsort((-scores[rows], node, -best[node]))
    last = node[order[wide - 1]]
    reach = wide + int(np.argmin(np.append(node[order[wide:]] == last, False)))
    return np.sort(rows[order[:reach]])
