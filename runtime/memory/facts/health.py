"""How well what is known hangs together (Fiedler value), and whether anything still surprises (saturation).

The Fiedler value is the second-smallest eigenvalue of the graph's Laplacian. It is that of the largest
component, with the number of components beside it: one isolated memory would make it zero for the whole
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import numpy as np

from runtime.memory.facts.records import Observation, moment

Array = np.ndarray[Any, np.dtype[Any]]

DENSE = 600
"""Nodes up to which all eigenvalues are computed at once."""
CLOSE = 1e-10
"""Relative change of the value at which the iteration stops."""
ROUNDS = 100
BLOCK = 4
"""Vectors that are iterated together, so that eigenvalues close to each other are no hindrance."""


@dataclass(frozen=True)
class Connectivity:
    """The Fiedler value of the largest component, and the parts of the graph."""

    fiedler: float = 0.0
    components: int = 0
    largest: int = 0  # nodes of the largest component
    nodes: int = 0
    edges: int = 0


def fiedler(nodes: Iterable[str], edges: Iterable[tuple[str, str, float]]) -> Connectivity:
    """The connectivity of a graph of weighted edges; parallel edges add up, ends of edges are nodes too."""
    at: dict[str, int] = {}
    for node in nodes:
        at.setdefault(node, len(at))
    weights: dict[tuple[int, int], float] = {}
    for one, other, weight in edges:
        x, y = at.setdefault(one, len(at)), at.setdefault(other, len(at))
        if x != y and weight > 0:
            key = (min(x, y), max(x, y))
            weights[key] = weights.get(key, 0.0) + weight
    if not at:
        return Connectivity()
    parts = _components(len(at), weights)
    largest = max(parts, key=len)
    place = {node: n for n, node in enumerate(largest)}
    inside = {(place[x], place[y]): weight for (x, y), weight in weights.items() if x in place}
    value = _second_eigenvalue(len(largest), inside) if len(largest) > 1 else 0.0
    return Connectivity(value, len(parts), len(largest), len(at), len(weights))


def _components(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes of each component (union-find)."""
    leader = list(range(count))

    def top(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for x, y in pairs:
        one, other = top(x), top(y)
        leader[max(one, other)] = min(one, other)
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(top(node), []).append(node)
    return list(parts.values())


def _second_eigenvalue(count: int, weights: dict[tuple[int, int], float]) -> float:
    """Of the Laplacian of a connected graph."""
    x, y = np.array(list(weights), np.int64).T
    w = np.array(list(weights.values()))
    if count > DENSE:
        return by_iteration(count, x, y, w)
    laplacian = np.diag(np.bincount(x, w, count) + np.bincount(y, w, count))
    laplacian[x, y] = laplacian[y, x] = -w
    return max(0.0, float(np.linalg.eigvalsh(laplacian)[1]))


def by_iteration(count: int, x: Array, y: Array, w: Array) -> float:
    """The same for large graphs: inverse iteration of a few vectors, each solved by conjugate gradients.

    `x` and `y` are the ends of edges, `w` their weights. The constant vector, which belongs to the eigenvalue
    zero, is projected out.
    """
    degree = np.bincount(x, w, count) + np.bincount(y, w, count)

    def times(vector: Array) -> Array:
        return degree * vector - np.bincount(x, w * vector[y], count) - np.bincount(y, w * vector[x], count)

    block = np.random.default_rng(1).standard_normal((count, min(BLOCK, count - 1)))
    value = np.inf
    for _ in range(ROUNDS):
        block -= block.mean(axis=0)
        block, _ = np.linalg.qr(block)
        image = np.stack([times(column) for column in block.T], axis=1)
        values, turn = np.linalg.eigh(block.T @ image)
        moved, value = abs(value - values[0]), float(values[0])
        if moved <= CLOSE * min(float(degree.max()), max(value, 1e-12)):
            break
        block = np.stack([_solved(times, column, degree) for column in (block @ turn).T], axis=1)
    return max(0.0, value)


def _solved(times: Callable[[Array], Array], wanted: Array, degree: Array) -> Array:
    """The vector that the Laplacian maps to `wanted`, by preconditioned conjugate gradients."""
    found = np.zeros_like(wanted)
    rest = wanted - wanted.mean()
    step = near = rest / degree
    product = float(rest @ near)
    goal = 1e-11 * float(np.linalg.norm(rest))
    for _ in range(8 * len(wanted)):
        image = times(step)
        far = product / float(step @ image)
        found = found + far * step
        rest = rest - far * image
        if np.linalg.norm(rest) <= goal:
            break
        near = rest / degree
        product, before = float(rest @ near), product
        step = near + product / before * step
    return found - found.mean()


WINDOW = timedelta(days=14)
MOVED = 0.03
"""The change of the mean that is a trend."""
FEW = 5
"""Observations that a judgement needs."""
LOW = 0.10
"""The mean surprise below which the self-image is saturated."""
SELF = ("identity", "reflection")
"""Kinds of observations about oneself."""


@dataclass(frozen=True)
class Saturation:
    """Mean prediction error of the last 14 days and of those before, and whether it is too low."""

    count: int = 0
    mean: float | None = None
    before: float | None = None
    trend: Literal["rising", "falling", "flat", "unknown"] = "unknown"
    saturated: bool = False


def saturation(observations: Iterable[Observation], now: datetime) -> Saturation:
    """Whether observations about oneself no longer surprise: the self-image needs a challenge."""
    windows: tuple[list[float], list[float]] = ([], [])
    for each in observations:
        if each.said in SELF and each.surprise is not None and each.at:
            window = (now - moment(each.at)) // WINDOW
            if window in (0, 1):
                windows[window].append(each.surprise)
    recent = windows[0]
    mean, before = (sum(each) / len(each) if each else None for each in windows)
    trend: Literal["rising", "falling", "flat", "unknown"] = "unknown"
    if mean is not None and before is not None:
        trend = "rising" if mean > before + MOVED else "falling" if mean < before - MOVED else "flat"
    return Saturation(
        len(recent), mean, before, trend, len(recent) >= FEW and mean is not None and mean < LOW
    )
