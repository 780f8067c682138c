"""Fisher's exact test, over one table or several strata, and which of many comparisons count.

Standard library alone: the samples are a few dozen attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

Table = tuple[int, int, int, int]
"""Did and went well, did and did not, did not do and went well, did not do and did not."""


def p_value(tables: Sequence[Table]) -> float:
    """How likely chance alone puts as many successes with those that did, or more: exact, one-sided.

    With several tables (strata, such as the attempts at one task each) only what differs inside each counts;
    that is the exact conditional test of a common odds ratio of one.
    """
    return _tail(tables, sum(table[0] for table in tables))


def least(tables: Sequence[Table]) -> float:
    """The smallest p-value that any outcome with these margins could have: below it nothing can be shown."""
    return _tail(tables, sum(min(_margins(table)[:2]) for table in tables))


def _tail(tables: Sequence[Table], observed: int) -> float:
    ways = [1]  # by the number of successes among those that did
    total = 1
    for table in tables:
        did, good, size = _margins(table)
        here = [comb(good, k) * comb(size - good, did - k) if did - k >= 0 else 0 for k in range(did + 1)]
        ways = _together(ways, here)
        total *= comb(size, did)
    return sum(ways[observed:]) / total


def _margins(table: Table) -> tuple[int, int, int]:
    return table[0] + table[1], table[0] + table[2], sum(table)


def _together(one: list[int], other: list[int]) -> list[int]:
    """The product of two polynomials: every sum of two numbers of successes, with its ways."""
    found = [0] * (len(one) + len(other) - 1)
    for i, first in enumerate(one):
        for j, second in enumerate(other):
            found[i + j] += first * second
    return found


def testable(leasts: Sequence[float], alpha: float) -> int:
    """How many comparisons the correction has to count: those that could be significant at all.

    Source: Tarone 1990. The smallest k such that at most k comparisons could reach alpha / k.
    """
    k = 1
    while sum(each <= alpha / k for each in leasts) > k:
        k += 1
    return k
