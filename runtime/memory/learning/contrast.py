"""Finds rules that separate successful attempts from failed ones, by exact statistics without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb

from runtime.memory.learning.attempts import Tried, advantages, differs
from runtime.memory.learning.rules import KINDS, Offered, Rule, candidates

# ---- Fisher's exact test, for one table or several strata ----------------------------------------------


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


# ---- contrasts -----------------------------------------------------------------------------------------


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
    ways = [each.trajectory for each in found.tried]
    told = {rule: tuple(rule.holds(way) for way in ways) for rule in known}
    explained = [column for column in told.values() if len({*column}) > 1]
    strata = [
        "|".join([stratum, *(str(column[at]) for column in explained)])
        for at, stratum in enumerate(found.strata)
    ]
    goods = [bool(each.good) for each in found.tried]
    comparisons: dict[frozenset[Column], _Comparison] = {}
    for rule in candidates(ways, offered):
        column = tuple(rule.holds(way) for way in ways)
        contrary = tuple(None if each is None else not each for each in column)
        if {True, False} - {*column} or rule in told:
            continue
        if any(_agree(column, other) for other in told.values()):
            continue
        made = comparisons.setdefault(
            frozenset((column, contrary)), _Comparison(column, tables(column, goods, strata))
        )
        made.rules.append((rule, column == made.column))
    looking = offered.looking if offered else frozenset[str]()
    return _best(found, [*comparisons.values()], alpha, refused, looking)


@dataclass
class _Comparison:
    """One division of the attempts, and all rules that make it; False marks the opposite division."""

    column: Column
    tables: list[Table]
    rules: list[tuple[Rule, bool]] = field(default_factory=list[tuple[Rule, bool]])

    def side(self, did: bool, looking: frozenset[str]) -> Rule | None:
        """The rule that best describes one side, preferably a positive one.

        None if every rule forbids a tool that only reads: reading cannot cause a failure.
        """
        rules = [Rule(rule.kind, rule.names, same != did) for rule, same in self.rules]
        said = [rule for rule in rules if not rule.refuses_a_look(looking)]
        if not said:
            return None
        return min(said, key=lambda rule: (rule.refuses - 2 * KINDS[rule.kind].says, str(rule)))


def tables(column: Column, goods: Sequence[bool], strata: Sequence[str]) -> list[Table]:
    """A two-by-two table for each stratum, of the attempts that the rule applies to."""
    counted: dict[str, list[int]] = {}
    for did, good, stratum in zip(column, goods, strata, strict=True):
        if did is not None:
            counted.setdefault(stratum, [0, 0, 0, 0])[2 * (not did) + (not good)] += 1
    return [(row[0], row[1], row[2], row[3]) for row in counted.values()]


def turned(found: Sequence[Table]) -> list[Table]:
    """The tables of the opposite rule."""
    return [(c, d, a, b) for a, b, c, d in found]


def _best(
    found: Sample,
    comparisons: Sequence[_Comparison],
    alpha: float,
    refused: frozenset[str],
    looking: frozenset[str],
) -> Finding | None:
    leasts = [2 * min(least(each.tables), least(turned(each.tables))) for each in comparisons]
    count = testable(leasts, alpha)
    ranked: list[tuple[float, int, str, Rule, Column]] = []
    for each in comparisons:
        for did, side in ((True, each.tables), (False, turned(each.tables))):
            p = min(1.0, 2 * p_value(side))
            rule = each.side(did, looking)
            if rule is not None and p * count <= alpha and str(rule) not in refused:
                column = tuple(None if told is None else told == did for told in each.column)
                ranked.append((p, -KINDS[rule.kind].says, str(rule), rule, column))
    for p, _, _, rule, column in sorted(ranked, key=lambda one: one[:3]):
        made = _finding(found, rule, column, p, count)
        if sum(each.accepted for each in made.followers) >= SUCCESSES:
            return made
    return None


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
    column = tuple(rule.holds(each.trajectory) for each in found.tried)
    if {True, False} - {*column}:
        return 1.0, 1.0, None
    table = tables(column, [bool(each.good) for each in found.tried], found.strata)
    helps = p_value(table)
    return helps, p_value(turned(table)), _finding(found, rule, column, helps, 1)
