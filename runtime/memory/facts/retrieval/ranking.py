"""What becomes of scores: which nodes are opened, what spreads along edges, and what is remembered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from runtime.memory.facts.graph import edges_of
from runtime.memory.facts.records import Edge, Memory
from runtime.memory.facts.retrieval.index import Index
from runtime.memory.facts.retrieval.rows import KINDS, Entry
from runtime.memory.facts.retrieval.scoring import Question
from runtime.memory.facts.review import retrievability


@dataclass
class Ranked:
    """Rows and the logarithm of their odds, by part."""

    rows: Any
    score: Any
    by_part: dict[str, Any]
    raw: Mapping[str, Any]  # how like each is, whatever other rows there are

    def shares(self) -> Any:
        """Each row's share of all odds."""
        odds = np.exp(self.score - self.score.max(initial=-60.0))
        return odds / max(float(odds.sum()), 1e-9)


def open_nodes(index: Index, rows: Any, scores: Any, wide: int) -> Any:
    """Those of these rows that are in the best nodes, in their order, until `wide` rows are open.

    A node is a memory with the observations that are found through it, or an observation that no memory leads
    to. It is as good as its best row, so a badly worded memory hides none of its evidence.
    """
    if len(rows) <= wide:
        return rows
    node = index.columns["node"][rows]
    best = np.full(index.columns.count, -np.inf, np.float32)
    np.maximum.at(best, node, scores[rows])
    order = np.lexsort((-scores[rows], node, -best[node]))
    last = node[order[wide - 1]]
    reach = wide + int(np.argmin(np.append(node[order[wide:]] == last, False)))
    return np.sort(rows[order[:reach]])


DECAY = 0.5
"""The share of a score that passes an edge."""
DEPTH = 2
SEEDS = 10
LEAST = 0.1
"""The least cosine that a neighbour counts with."""
INVALID = 0.3
"""The share of its weight that an invalidated edge keeps."""
SELF, AROUND, MOST_AROUND = 0.6, 0.4, 5
"""Weights of a record and of the mean of its neighbours, and how many. Source: the reference engine."""


def _weight(edge: Edge) -> float:
    return edge.weight * (INVALID if edge.invalidated else 1.0)


def _rows(index: Index, id: str) -> list[int]:
    return [index.at[kind, id] for kind in KINDS if (kind, id) in index.at]


def _neighbours(index: Index, ids: Collection[str]) -> dict[str, list[tuple[str, Edge]]]:
    """By the id of each of these records: its neighbours along edges, with the edge."""
    return {
        id: [
            (end, edge)
            for edge in sorted(edges, key=lambda edge: edge.id)
            for end in (edge.target, edge.source)
            if end != id
        ]
        for id, edges in edges_of(index.shelf, ids).items()
    }


def spread(
    index: Index, question: Question, chances: Mapping[int, float], allowed: Any
) -> dict[int, tuple[int, float]]:
    """Spreading activation: rows that an edge from a better one lifts, with that row and their new score."""
    vectors = index.columns.vectors
    best = dict(chances)
    came: dict[int, tuple[int, float]] = {}
    front = sorted(chances, key=lambda row: (-chances[row], row))[:SEEDS]
    for _ in range(DEPTH):
        ids = {parent: index.rows.keys[parent][1] for parent in front}
        neighbours = _neighbours(index, ids.values())
        joined = [
            (parent, child, edge)
            for parent in front
            for id, edge in neighbours[ids[parent]]
            for child in _rows(index, id)
            if allowed[child]
        ]
        front = []
        for parent, child, edge in joined:
            near = LEAST
            if vectors is not None and question.meant is not None:
                near = max(LEAST, float(np.dot(vectors[child], question.meant.whole)))
            score = best[parent] * DECAY * _weight(edge) * near
            if score > best.get(child, 0.0):
                best[child] = score
                came[child] = (parent, score)
                front.append(child)
    return came


def aggregated(
    index: Index, question: Question, ranked: Ranked, weights: Mapping[str, float], most: int
) -> Ranked:
    """The best rows again, each with its meaning mixed with that of its neighbours."""
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
    raw = {name: values[order] for name, values in ranked.raw.items()}
    return Ranked(rows, sum(by_part.values()), by_part, raw)


def _around(index: Index, row: int) -> list[int]:
    """The strongest neighbours along edges, else the turns before and after."""
    own = index.rows.keys[row][1]
    joined = sorted(_neighbours(index, [own])[own], key=lambda each: (-_weight(each[1]), each[0]))
    found = [near for id, _ in joined for near in _rows(index, id) if near != row][:MOST_AROUND]
    columns = index.columns
    return found or [int(there) for step in (-1, 1) if (there := columns.near[step][row]) < columns.count]


SUPERSEDED = 0.4
"""The weight of a memory that another has replaced."""


def strength(entry: Entry, now: datetime) -> dict[str, float]:
    """The factors of a score by name; an observation is what happened, and is not forgotten."""
    salience = entry.fields.get("salience")
    salience = salience if isinstance(salience, int | float) else 0.5
    factors = {"salience": 0.5 + 0.5 * min(1.0, max(0.0, float(salience)))}
    if entry.kind == Memory.KIND:
        factors["retrievability"] = retrievability(entry.fields.get("card"), now)
        if entry.fields.get("superseded"):
            factors["superseded"] = SUPERSEDED
    return factors
