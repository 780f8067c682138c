"""Finds rules that separate successful attempts from failed ones, by exact statistics without a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb

from runtime.memory.learning.attempts import StoredAttempt, advantages, differs
from runtime.memory.learning.rules import KINDS, Rule, ToolOptions, candidates

Table = tuple[int, int, int, int]
"""Counts: followed and succeeded, followed and failed, not followed and succeeded, not and failed."""


def p_value(tables: Sequence[Table]) -> float:
    """The exact one-sided p-value that followers succeed this often or more by chance.

    Several tables are strata: then it is the exact conditional test of a common odds ratio of one.
    """
    return _tail(tables, sum(table[0] for table in tables))


def smallest_p_value(tables: Sequence[Table]) -> float:
    """The smallest p-value that is possible with these margins."""
    return _tail(tables, sum(min(_margins(table)[:2]) for table in tables))


def _tail(tables: Sequence[Table], observed: int) -> float:
    ways = [1]  # index: successes among followers
    total = 1
    for table in tables:
        did, good, size = _margins(table)
        here = [comb(good, k) * comb(size - good, did - k) if did - k >= 0 else 0 for k in range(did + 1)]
        ways = _product(ways, here)
        total *= comb(size, did)
    return sum(ways[observed:]) / total


def _margins(table: Table) -> tuple[int, int, int]:
    return table[0] + table[1], table[0] + table[2], sum(table)


def _product(one: list[int], other: list[int]) -> list[int]:
    """The product of two polynomials, as coefficients."""
    product = [0] * (len(one) + len(other) - 1)
    for i, first in enumerate(one):
        for j, second in enumerate(other):
            product[i + j] += first * second
    return product


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
    attempts: tuple[StoredAttempt, ...]  # that it was learned from
    followers: tuple[StoredAttempt, ...]  # that follow the rule and are accepted

    @property
    def confidence(self) -> float:
        """The confidence by the p-value corrected for all comparisons; lower for few attempts."""
        size = len(self.attempts)
        return (1 - min(1.0, self.p * self.comparisons)) * size / (size + 4)


def sample(attempts: Iterable[StoredAttempt]) -> list[StoredAttempt]:
    """The attempts to compare.

    Deliberate attempts at one task (a group) count only if their outcomes differ, and are compared among
    themselves. Of a loop whose attempts all have the same outcome only the last counts.
    """
    groups: dict[str, list[StoredAttempt]] = {}
    for attempt in attempts:
        if attempt.good is not None and attempt.acts:
            groups.setdefault(attempt.group or attempt.loop, []).append(attempt)
    selected: list[StoredAttempt] = []
    for members in groups.values():
        if differs([bool(each.good) for each in members]):
            selected += members
        elif not members[0].group:
            selected.append(members[-1])
    return selected


def ready(attempts: Sequence[StoredAttempt]) -> bool:
    """Whether there are two accepted successes and a failure."""
    accepted = sum(each.accepted for each in attempts)
    return accepted >= SUCCESSES and sum(each.good is False for each in attempts) >= FAILURES


def pairs(attempts: Iterable[StoredAttempt]) -> tuple[list[StoredAttempt], list[StoredAttempt]]:
    """Up to three successes and two failures with the greatest group-relative advantage, groups first."""
    groups: dict[str, list[StoredAttempt]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.group, []).append(attempt)
    ranked = [
        (not group, advantage, each)
        for group, members in groups.items()
        for each, advantage in zip(members, advantages([one.reward for one in members]), strict=True)
    ]
    best = sorted((each for each in ranked if each[2].accepted and each[1] > 0), key=lambda e: (e[0], -e[1]))
    worst = sorted((each for each in ranked if each[2].good is False and each[1] < 0), key=lambda e: e[:2])
    return [each for _, _, each in best[: SHOWN[0]]], [each for _, _, each in worst[: SHOWN[1]]]


def contrast(
    attempts: Sequence[StoredAttempt],
    known: Sequence[Rule] = (),
    offered: ToolOptions | None = None,
    alpha: float = ALPHA,
    refused: frozenset[str] = frozenset(),
) -> Finding | None:
    """The rule that best separates successes from failures; None if none is significant.

    Only differences inside a stratum count: a group, and what `known` rules divide, so that their effect is
    not found again. `refused` rules are never returned.
    """
    if not ready(attempts):
        return None
    offered = offered or ToolOptions()
    explained = [_column(rule, attempts) for rule in known]
    dividing = [column for column in explained if len({*column}) > 1]
    strata = [(each.group, *(column[at] for column in dividing)) for at, each in enumerate(attempts)]
    sides: dict[Column, list[Rule]] = {}  # every division of the attempts, followed by the opposite one
    for rule in candidates([each.trajectory for each in attempts], offered):
        column = _column(rule, attempts)
        if rule in known or {True, False} - {*column} or any(_agree(column, other) for other in explained):
            continue
        sides.setdefault(column, []).append(rule)
        sides.setdefault(_opposite(column), []).append(replace(rule, refuses=True))
    tables_by_column = {column: tables(column, attempts, strata) for column in sides}
    leasts = [smallest_p_value(each) for each in tables_by_column.values()]
    count = testable([2 * min(pair) for pair in zip(leasts[::2], leasts[1::2], strict=True)], alpha)
    findings: list[Finding] = []
    for column, rules in sides.items():
        p, rule = min(1.0, 2 * p_value(tables_by_column[column])), _wording(rules, offered)
        if rule is not None and p * count <= alpha and str(rule) not in refused:
            findings.append(_finding(attempts, rule, column, p, count))
    enough = [each for each in findings if len(each.followers) >= SUCCESSES]
    return min(enough, key=lambda each: (each.p, -KINDS[each.rule.kind][1], str(each.rule)), default=None)


def _wording(rules: Sequence[Rule], offered: ToolOptions) -> Rule | None:
    """The rule that best describes one side, preferably a positive one.

    None if every rule forbids a tool that only reads: reading cannot cause a failure.
    """
    fitting = [rule for rule in rules if not rule.refuses_a_look(offered.looking)]
    return min(fitting, key=lambda rule: (rule.refuses - 2 * KINDS[rule.kind][1], str(rule)), default=None)


def _column(rule: Rule, attempts: Iterable[StoredAttempt]) -> Column:
    """Whether each attempt follows a rule."""
    return tuple(rule.holds(each.trajectory) for each in attempts)


def _opposite(column: Column) -> Column:
    """Whether each attempt follows the opposite rule."""
    return tuple(None if did is None else not did for did in column)


def tables(column: Column, attempts: Sequence[StoredAttempt], strata: Sequence[object]) -> list[Table]:
    """A two-by-two table for each stratum, of the attempts that the rule applies to."""
    counts: dict[object, list[int]] = {}
    for did, attempt, stratum in zip(column, attempts, strata, strict=True):
        if did is not None:
            counts.setdefault(stratum, [0, 0, 0, 0])[2 * (not did) + (not attempt.good)] += 1
    return [(row[0], row[1], row[2], row[3]) for row in counts.values()]


def _finding(attempts: Sequence[StoredAttempt], rule: Rule, column: Column, p: float, count: int) -> Finding:
    did = [each for each, follows in zip(attempts, column, strict=True) if follows]
    did_not = [each for each, follows in zip(attempts, column, strict=True) if follows is False]
    return Finding(
        rule,
        (sum(bool(each.good) for each in did), len(did)),
        (sum(bool(each.good) for each in did_not), len(did_not)),
        p,
        count,
        tuple(each for each, follows in zip(attempts, column, strict=True) if follows is not None),
        tuple(each for each in did if each.accepted),
    )


def _agree(one: Column, other: Column) -> bool:
    """Whether two rules nearly always agree, or nearly always disagree, where both apply."""
    both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    same = sum(a == b for a, b in both)
    return bool(both) and max(same, len(both) - same) >= SAME * len(both)


def retest(rule: Rule, attempts: Sequence[StoredAttempt]) -> tuple[float, float, Finding | None]:
    """A known rule on these attempts: the p-values that it helps and that it harms, and its figures."""
    column = _column(rule, attempts)
    if {True, False} - {*column}:
        return 1.0, 1.0, None
    groups = [each.group for each in attempts]
    helps, harms = (p_value(tables(each, attempts, groups)) for each in (column, _opposite(column)))
    return helps, harms, _finding(attempts, rule, column, helps, 1)
