"""What is found along edges: the neighbours of a hit, and a record taken together with its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runtime.memory.semantic.records import Edge
from runtime.memory.semantic.retrieval.index import KINDS, Index
from runtime.memory.semantic.retrieval.scoring import Question

if TYPE_CHECKING:
    from runtime.memory.semantic.retrieval.searching import Ranked

DECAY = 0.5
"""What is left of a score after an edge."""
DEPTH = 2
SEEDS = 10
LEAST = 0.1
"""The cosine that an unlike neighbour is taken to have."""
INVALID = 0.3
"""What an edge that no longer holds still weighs."""
SELF, AROUND, MOST_AROUND = 0.6, 0.4, 5
"""Of a record and the mean of its neighbours. Source: memory-reference.md."""


def _weight(edge: Edge) -> float:
    return edge.weight * (INVALID if edge.invalidated else 1.0)


def _rows(index: Index, id: str) -> list[int]:
    return [index.at[kind, id] for kind in KINDS if (kind, id) in index.at]


def spread(
    index: Index, question: Question, chances: Mapping[int, float], allowed: Any
) -> dict[int, tuple[int, float]]:
    """Rows that an edge from a better one lifts: from which, and to what score."""
    import numpy as np

    vectors = index.columns.vectors
    best = dict(chances)
    came: dict[int, tuple[int, float]] = {}
    front = sorted(chances, key=lambda row: (-chances[row], row))[:SEEDS]
    for _ in range(DEPTH):
        following: list[int] = []
        ids = {parent: index.rows.keys[parent][1] for parent in front}
        edges = index.edges(ids.values())
        for parent in front:
            for id, edge in edges[ids[parent]]:
                for child in _rows(index, id):
                    near = LEAST
                    if vectors is not None and question.meant is not None:
                        near = max(LEAST, float(np.dot(vectors[child], question.meant.whole)))
                    score = best[parent] * DECAY * _weight(edge) * near
                    if allowed[child] and score > best.get(child, 0.0):
                        best[child] = score
                        came[child] = (parent, score)
                        following.append(child)
        front = following
    return came


def aggregated(
    index: Index, question: Question, ranked: Ranked, weights: Mapping[str, float], most: int
) -> Ranked:
    """The best rows again, each by its meaning together with that of its neighbours."""
    import numpy as np

    from runtime.memory.semantic.retrieval.searching import Ranked

    vectors = index.columns.vectors
    if vectors is None or question.meant is None or "meaning" not in ranked.by_part:
        return ranked
    order = np.argsort(-ranked.score, kind="stable")[:most]
    best = index.columns.bests(vectors @ question.meant.whole, np.flatnonzero(index.columns.alive))
    by_part = {name: values[order].copy() for name, values in ranked.by_part.items()}
    rows = ranked.rows[order]
    for at, row in enumerate(rows.tolist()):
        around = _around(index, row)
        if around:
            mixed = SELF * vectors[row] + AROUND * vectors[around].mean(axis=0)
            cosine = float(mixed @ question.meant.whole / max(float(np.linalg.norm(mixed)), 1e-9))
            by_part["meaning"][at] = weights.get("meaning", 0.0) * cosine / best[row]
    return Ranked(rows, sum(by_part.values()), by_part, ranked.likeness[order])


def _around(index: Index, row: int) -> list[int]:
    """The strongest neighbours along edges, else the turns before and after."""
    own = index.rows.keys[row][1]
    joined = sorted(index.edges([own])[own], key=lambda each: (-_weight(each[1]), each[0]))
    found = [near for id, _ in joined for near in _rows(index, id) if near != row][:MOST_AROUND]
    if found:
        return found
    columns = index.columns
    return [int(there) for step in (-1, 1) if (there := columns.near[step][row]) < columns.count]
