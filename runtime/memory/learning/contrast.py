"""Finds rules that separate successful attempts from failed ones, by exact statistics without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from operator import itemgetter

from runtime.memory.learning.attempts import Tried, advantages, differs
from runtime.memory.learning.rules import KINDS, Offered, Rule, candidates

Table = tuple[int, int, int, int]
"""Counts: followed and succeeded, followed and failed, not followed and succeeded, not and failed."""


def p_value(tables: Sequence[Table]) -> float:
    """The exact one-sided p-value that followers succeed this often or more by chance.

    Several tables are strata: then it is the exact conditional test of a common odds ratio of one.
    """
    return _tail(tables, sum(table[0] for table in tables))


def least(tables: Sequence[Table]) -> float:
    """The smallest p-value that is possible with these margins."""
    return _tail(tables, sum(min(_margins(table)[:2]) for table in tables))


def _tail(tables: Sequence[Table], observed: int) -> float:
    ways = [1]  # index: successes among followers
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
    """The product of two polynomials, as coefficients."""
    found = [0] * (len(one) + len(other) - 1)
    for i, first in enumerate(one):
        for j, second in enumerate(other):
            found[i + j] += first * second
    return found


def testable(leasts: Sequence[float], alpha: float) -> int:
    """The number of comparisons to correct for: the smallest k such that at most k can reach alpha / k.

    Source: Tarone 1990.
    """
    k = 1
    while sum(each <= alpha / k for each in leasts) > k:
        k += 1
    return k


SAMPLE = 60
"""Attempts compared at most. With 20, only a nearly total difference would be significant."""
ALPHA = 0.05
"""The accepted rate of false findings of one contrast."""
SUCCESSES, FAILURES = 2, 1
"""Accepted successes and failures that a contrast needs."""
SHOWN = (3, 2)
"""Successes and failures shown to a model, at most."""
SAME = 0.9
"""The share of attempts on which two rules agree, from which they count as the same."""

Column = tuple[bool | None, ...]


@dataclass(frozen=True)
class Finding:
    """A rule that separates the two sides, with its figures."""

    rule: Rule
    did: tuple[int, int]  # successes and total of the followers
    did_not: tuple[int, int]  # of the others
    p: float  # two-sided, of this comparison alone
    comparisons: int  # that could be significant
    attempts: tuple[Tried, ...]  # that it was learned from
    followers: tuple[Tried, ...]  # that follow the rule and are accepted

    @property
    def corrected(self) -> float:
        """The p-value corrected for all comparisons."""
        return min(1.0, self.p * self.comparisons)

    @property
    def confidence(self) -> float:
        """The confidence, lower for few attempts."""
        size = len(self.attempts)
        return (1 - self.corrected) * size / (size + 4)


@dataclass(frozen=True)
class Sample:
    """Attempts with their strata. Only differences inside a stratum count."""

    tried: tuple[Tried, ...]
    strata: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Whether there are two accepted successes and a failure."""
        accepted = sum(each.accepted and each.good is True for each in self.tried)
        return accepted >= SUCCESSES and sum(each.good is False for each in self.tried) >= FAILURES


def sample(tried: Sequence[Tried]) -> Sample:
    """The attempts to compare, with their strata.

    Deliberate attempts at one task (a group) are a stratum of their own and count only if their outcomes
    differ. Of a loop whose attempts all have the same outcome only the last counts.
    """
    groups: dict[str, list[Tried]] = {}
    for each in tried:
        if each.good is not None and each.acts:
            groups.setdefault(each.group or each.loop, []).append(each)
    kept: list[Tried] = []
    strata: list[str] = []
    for members in groups.values():
        if differs([bool(each.good) for each in members]):
            kept += members
            strata += [members[0].group] * len(members)
        elif not members[0].group:
            kept.append(members[-1])
            strata.append("")
    return Sample(tuple(kept), tuple(strata))


def pairs(found: Sample) -> tuple[list[Tried], list[Tried]]:
    """Up to three successes and two failures with the greatest group-relative advantage, groups first."""
    by_stratum: dict[str, list[Tried]] = {}
    for each, stratum in zip(found.tried, found.strata, strict=True):
        by_stratum.setdefault(stratum, []).append(each)
    ranked: list[tuple[bool, float, Tried]] = []
    for stratum, members in by_stratum.items():
        worths = advantages([each.reward for each in members])
        ranked += [(not stratum, worth, each) for worth, each in zip(worths, members, strict=True)]
    best = sorted((each for each in ranked if each[2].accepted and each[1] > 0), key=lambda e: (e[0], -e[1]))
    worst = sorted((each for each in ranked if each[2].good is False and each[1] < 0), key=lambda e: e[:2])
    return [each for _, _, each in best[: SHOWN[0]]], [each for _, _, each in worst[: SHOWN[1]]]


def contrast(
    found: Sample,
    known: Sequence[Rule] = (),
    offered: Offered | None = None,
    alpha: float = ALPHA,
    refused: frozenset[str] = frozenset(),
) -> Finding | None:
    """The rule that best separates successes from failures; None if none is significant.

    `known` rules become strata, so that their effect is not found again. `refused` rules are never returned.
    """
    if not found.ready:
        return None
    offered = offered or Offered()
    told = [_column(rule, found) for rule in known]
    explained = [column for column in told if len({*column}) > 1]
    strata = [
        "|".join([stratum, *(str(column[at]) for column in explained)])
        for at, stratum in enumerate(found.strata)
    ]
    sides: dict[Column, list[Rule]] = {}  # every division of the attempts, followed by the opposite one
    for rule in candidates([each.trajectory for each in found.tried], offered):
        column = _column(rule, found)
        if rule in known or {True, False} - {*column} or any(_agree(column, other) for other in told):
            continue
        sides.setdefault(column, []).append(rule)
        sides.setdefault(_turned(column), []).append(replace(rule, refuses=True))
    counted = {column: tables(column, found, strata) for column in sides}
    leasts = [least(each) for each in counted.values()]
    count = testable([2 * min(pair) for pair in zip(leasts[::2], leasts[1::2], strict=True)], alpha)
    ranked: list[tuple[tuple[float, int, str], Rule, Column]] = []
    for column, rules in sides.items():
        p, rule = min(1.0, 2 * p_value(counted[column])), _wording(rules, offered)
        if rule is not None and p * count <= alpha and str(rule) not in refused:
            ranked.append(((p, -KINDS[rule.kind][1], str(rule)), rule, column))
    ranked.sort(key=itemgetter(0))
    findings = (_finding(found, rule, column, rank[0], count) for rank, rule, column in ranked)
    return next((each for each in findings if len(each.followers) >= SUCCESSES), None)


def _wording(rules: Sequence[Rule], offered: Offered) -> Rule | None:
    """The rule that best describes one side, preferably a positive one.

    None if every rule forbids a tool that only reads: reading cannot cause a failure.
    """
    said = [rule for rule in rules if not rule.refuses_a_look(offered.looking)]
    return min(said, key=lambda rule: (rule.refuses - 2 * KINDS[rule.kind][1], str(rule)), default=None)


def _column(rule: Rule, found: Sample) -> Column:
    """Whether each attempt follows a rule."""
    return tuple(rule.holds(each.trajectory) for each in found.tried)


def _turned(column: Column) -> Column:
    """Whether each attempt follows the opposite rule."""
    return tuple(None if did is None else not did for did in column)


def tables(column: Column, found: Sample, strata: Sequence[str]) -> list[Table]:
    """A two-by-two table for each stratum, of the attempts that the rule applies to."""
    counted: dict[str, list[int]] = {}
    for did, each, stratum in zip(column, found.tried, strata, strict=True):
        if did is not None:
            counted.setdefault(stratum, [0, 0, 0, 0])[2 * (not did) + (not each.good)] += 1
    return [(row[0], row[1], row[2], row[3]) for row in counted.values()]


def _finding(found: Sample, rule: Rule, column: Column, p: float, count: int) -> Finding:
    told = [(each, did) for each, did in zip(found.tried, column, strict=True) if did is not None]
    did = [each for each, follows in told if follows]
    did_not = [each for each, follows in told if not follows]
    return Finding(
        rule,
        (sum(bool(each.good) for each in did), len(did)),
        (sum(bool(each.good) for each in did_not), len(did_not)),
        p,
        count,
        tuple(each for each, _ in told),
        tuple(each for each in did if each.accepted),
    )


def _agree(one: Column, other: Column) -> bool:
    """Whether two rules nearly always agree, or nearly always disagree, where both apply."""
    both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    same = sum(a == b for a, b in both)
    return bool(both) and max(same, len(both) - same) >= SAME * len(both)


def standing(rule: Rule, found: Sample) -> tuple[float, float, Finding | None]:
    """A known rule on these attempts: the p-values that it helps and that it harms, and its figures."""
    column = _column(rule, found)
    if {True, False} - {*column}:
        return 1.0, 1.0, None
    helps, harms = (p_value(tables(each, found, found.strata)) for each in (column, _turned(column)))
    return helps, harms, _finding(found, rule, column, helps, 1)
