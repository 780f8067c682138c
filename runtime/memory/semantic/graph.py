"""How well what is known hangs together: the second-smallest eigenvalue of the graph's Laplacian.

Of the largest component, with the number of components beside it: a single memory that stands alone would
make it zero for the whole graph. Weights of edges between the same two are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Pair = tuple[str, str, float]
"""Two ends and the weight between them."""
DENSE = 600
"""Nodes up to which all eigenvalues are computed at once, by numpy alone."""
CLOSE = 1e-10
"""Of the largest degree: how little the value still moves where the iteration stops."""
ROUNDS = 100
BLOCK = 4
"""Vectors that are iterated together: eigenvalues that lie close to each other are no hindrance."""


@dataclass(frozen=True)
class Connectivity:
    """The Fiedler value of the largest component, and how the graph falls apart."""

    fiedler: float = 0.0
    components: int = 0
    largest: int = 0  # nodes of the largest component
    nodes: int = 0
    edges: int = 0


def fiedler(nodes: Iterable[str], edges: Iterable[Pair]) -> Connectivity:
    """How well a graph hangs together; nodes that only edges name are nodes too."""
    at: dict[str, int] = {}
    for node in nodes:
        at.setdefault(node, len(at))
    weights: dict[tuple[int, int], float] = {}
    for one, other, weight in edges:
        x, y = at.setdefault(one, len(at)), at.setdefault(other, len(at))
        if x != y and weight > 0:
            key = (min(x, y), max(x, y))
            weights[key] = weights.get(key, 0.0) + weight
    parts = _components(len(at), weights)
    if not parts:
        return Connectivity()
    largest = max(parts, key=lambda part: (len(part), -part[0]))
    place = {node: n for n, node in enumerate(largest)}
    inside = {(place[x], place[y]): weight for (x, y), weight in weights.items() if x in place}
    value = _second(len(largest), inside) if len(largest) > 1 else 0.0
    return Connectivity(value, len(parts), len(largest), len(at), len(weights))


def _components(count: int, weights: dict[tuple[int, int], float]) -> list[list[int]]:
    """The nodes of each component, in order."""
    leader = list(range(count))

    def top(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for x, y in weights:
        one, other = top(x), top(y)
        leader[max(one, other)] = min(one, other)
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(top(node), []).append(node)
    return list(parts.values())


def _second(count: int, weights: dict[tuple[int, int], float]) -> float:
    """The second-smallest eigenvalue of the Laplacian of a graph that is in one piece."""
    import numpy as np

    x = np.fromiter((pair[0] for pair in weights), np.int64, len(weights))
    y = np.fromiter((pair[1] for pair in weights), np.int64, len(weights))
    w = np.fromiter(weights.values(), np.float64, len(weights))
    degree = np.bincount(x, w, count) + np.bincount(y, w, count)
    if count <= DENSE:
        laplacian = np.diag(degree)
        laplacian[x, y] = laplacian[y, x] = -w
        return max(0.0, float(np.linalg.eigvalsh(laplacian)[1]))
    if find_spec("scipy") is not None:
        return _by_scipy(x, y, w, degree)
    return by_iteration(x, y, w, degree)


def _by_scipy(x: Array, y: Array, w: Array, degree: Array) -> float:
    """By shift and invert: the shift lies a little below zero, where the matrix can be factored."""
    import numpy as np
    from scipy.sparse import coo_matrix, diags  # pyright: ignore[reportMissingImports]
    from scipy.sparse.linalg import eigsh  # pyright: ignore[reportMissingImports]

    count = len(degree)
    half = coo_matrix((w, (x, y)), shape=(count, count))
    laplacian = (diags(degree) - half - half.T).tocsc()
    start = np.random.default_rng(1).standard_normal(count)
    shift = -1e-6 * float(degree.max())
    found = eigsh(laplacian, k=2, sigma=shift, which="LM", v0=start, return_eigenvectors=False)
    return max(0.0, float(sorted(found)[1]))


def by_iteration(x: Array, y: Array, w: Array, degree: Array) -> float:
    """The same with numpy alone: inverse iteration of a few vectors, each solved by conjugate gradients.

    Ends of edges, their weights and the degrees of the nodes are given. The constant vector, which belongs to
    the eigenvalue zero, is taken out throughout.
    """
    import numpy as np

    count = len(degree)

    def times(vector: Array) -> Array:
        moved = np.bincount(x, w * vector[y], count) + np.bincount(y, w * vector[x], count)
        return degree * vector - moved

    block = np.random.default_rng(1).standard_normal((count, min(BLOCK, count - 1)))
    value = np.inf
    for _ in range(ROUNDS):
        block -= block.mean(axis=0)
        block, _ = np.linalg.qr(block)
        image = np.stack([times(column) for column in block.T], axis=1)
        values, turn = np.linalg.eigh(block.T @ image)
        block = block @ turn
        if abs(value - values[0]) <= CLOSE * min(float(degree.max()), max(float(values[0]), 1e-12)):
            return max(0.0, float(values[0]))
        value = float(values[0])
        block = np.stack([_solved(times, column, degree) for column in block.T], axis=1)
    return max(0.0, float(value))


def _solved(times: Callable[[Array], Array], wanted: Array, degree: Array) -> Array:
    """What the Laplacian turns into `wanted`, by conjugate gradients with the degrees as preconditioner."""
    import numpy as np

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
