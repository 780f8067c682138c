"""The Fiedler value against the known values of paths, rings, stars and complete graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.facts.health import by_iteration, fiedler


def path(count: int) -> list[tuple[str, str, float]]:
    return [(str(n), str(n + 1), 1.0) for n in range(count - 1)]


def ring(count: int) -> list[tuple[str, str, float]]:
    return [*path(count), (str(count - 1), "0", 1.0)]


def by_iteration_of(edges: list[tuple[str, str, float]]) -> float:
    """The Fiedler value by iteration, as it is computed for large graphs."""
    names = sorted({end for edge in edges for end in edge[:2]})
    at = {name: n for n, name in enumerate(names)}
    x = np.array([at[edge[0]] for edge in edges])
    y = np.array([at[edge[1]] for edge in edges])
    w = np.array([edge[2] for edge in edges])
    return by_iteration(len(at), x, y, w)


KNOWN = [
    (path(2), 2.0),
    (path(200), 2 - 2 * math.cos(math.pi / 200)),
    (path(700), 2 - 2 * math.cos(math.pi / 700)),
    (ring(50), 2 - 2 * math.cos(2 * math.pi / 50)),
    (ring(701), 2 - 2 * math.cos(2 * math.pi / 701)),
    ([(str(a), str(b), 1.0) for a in range(8) for b in range(a)], 8.0),
    ([("hub", str(n), 1.0) for n in range(30)], 1.0),
    ([("hub", str(n), 0.3) for n in range(30)], 0.3),
]


@pytest.mark.parametrize(("edges", "value"), KNOWN)
def test_known_values(edges: list[tuple[str, str, float]], value: float) -> None:
    assert fiedler([], edges).fiedler == pytest.approx(value, rel=1e-6, abs=1e-9)
    assert by_iteration_of(edges) == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_only_the_largest_component_counts_and_the_others_are_reported() -> None:
    result = fiedler(["lonely", "lonelier"], [*path(20), ("a", "b", 1.0)])
    assert result.components == 4
    assert result.largest == 20
    assert result.nodes == 24
    assert result.fiedler == pytest.approx(2 - 2 * math.cos(math.pi / 20), rel=1e-6)


def test_a_graph_that_is_torn_has_a_lower_value_than_before() -> None:
    whole = [(f"{side}{a}", f"{side}{b}", 1.0) for side in "xy" for a in range(10) for b in range(a)]
    bridges = [(f"x{n}", f"y{n}", 1.0) for n in range(10)]
    values = [fiedler([], [*whole, *bridges[:left]]).fiedler for left in (10, 5, 2, 1)]
    assert values == sorted(values, reverse=True)
    assert fiedler([], whole).components == 2


def test_nothing_has_no_connectivity() -> None:
    assert fiedler([], []).components == 0
    assert fiedler(["a"], [("a", "a", 1.0)]).fiedler == 0.0


@given(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40))
def test_both_ways_agree_with_all_eigenvalues(pairs: set[tuple[int, int]]) -> None:
    edges = [(str(a), str(b), 1.0) for a, b in pairs if a < b]
    result = fiedler([], edges)
    if result.components == 1 and result.largest > 1:
        assert by_iteration_of(edges) == pytest.approx(result.fiedler, rel=1e-5, abs=1e-8)
