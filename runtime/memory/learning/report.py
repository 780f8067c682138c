"""The effect of learning: success, time and tokens before and after, coverage, and repeated mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from runtime.memory.learning.attempts import Tried
from runtime.memory.learning.patterns import GENERAL, Pattern
from runtime.memory.learning.rules import parsed

COVERED_FROM = 3
"""Attempts from which a task type counts for coverage."""


@dataclass(frozen=True)
class Side:
    """Attempts before the first pattern of their type, or after it."""

    attempts: int = 0
    success: float = 0.0
    seconds: float = 0.0  # mean per attempt, as tokens and calls
    tokens: float = 0.0
    calls: float = 0.0


@dataclass(frozen=True)
class ByType:
    """The figures of one task type."""

    type: str
    before: Side
    after: Side
    patterns: Sequence[str] = ()


@dataclass(frozen=True)
class Mistake:
    """How often a pattern was not followed after it was learned, and the attempt failed."""

    pattern: str
    repeated: int  # although the pattern was shown
    unseen: int  # the pattern was not shown
    of: int  # later attempts that the rule applies to


@dataclass(frozen=True)
class Best:
    """The best known agent for a task type."""

    type: str
    agent: str
    score: float
    samples: int


@dataclass(frozen=True)
class Report:
    """All figures."""

    before: Side
    after: Side
    types: Sequence[ByType] = ()
    mistakes: Sequence[Mistake] = ()
    patterns: int = 0
    off: int = 0
    coverage: float = 0.0  # share of task types (with three attempts) that have a pattern
    covered: int = 0
    of: int = 0
    best: Sequence[Best] = ()

    def as_dict(self) -> dict[str, Any]:
        """The report for `--json`."""
        return asdict(self)


def report(tried: Iterable[Tried], patterns: Sequence[Pattern]) -> Report:
    """The report on all attempts and an agent's patterns, including inactive ones."""
    ends = [each for each in tried if each.last and each.good is not None and not each.parent]
    active = [each for each in patterns if each.active]
    since = _since(patterns)
    types: list[ByType] = []
    for name in sorted({each.type for each in ends}):
        mine = [each for each in ends if each.type == name]
        before, after = _parted(mine, since)
        own = [each.name for each in active if name in each.types or GENERAL in each.types]
        types.append(ByType(name, _side(before), _side(after), own))
    all_before, all_after = _parted(ends, since)
    counted = [each for each in types if each.before.attempts + each.after.attempts >= COVERED_FROM]
    covered = sum(bool(each.patterns) for each in counted)
    return Report(
        _side(all_before),
        _side(all_after),
        types,
        [found for each in patterns if (found := _mistake(each, ends)).of],
        len(active),
        len(patterns) - len(active),
        covered / len(counted) if counted else 0.0,
        covered,
        len(counted),
    )


def _since(patterns: Sequence[Pattern]) -> Mapping[str, str]:
    """When the first pattern of each type was learned."""
    found: dict[str, str] = {}
    for each in patterns:
        for type in each.types if each.created else ():
            found[type] = min(found.get(type, each.created), each.created)
    return found


def _parted(tried: Iterable[Tried], since: Mapping[str, str]) -> tuple[list[Tried], list[Tried]]:
    before: list[Tried] = []
    after: list[Tried] = []
    for each in tried:
        first = min((at for type in (each.type, GENERAL) if (at := since.get(type))), default="")
        (after if first and each.at > first else before).append(each)
    return before, after


def _side(tried: Sequence[Tried]) -> Side:
    if not tried:
        return Side()
    return Side(
        len(tried),
        round(fmean(bool(each.good) for each in tried), 4),
        round(fmean(each.seconds for each in tried), 3),
        round(fmean(each.tokens for each in tried), 1),
        round(fmean(each.calls for each in tried), 2),
    )


def _mistake(pattern: Pattern, tried: Sequence[Tried]) -> Mistake:
    rule = parsed(pattern.rule)
    repeated = unseen = of = 0
    for each in tried if rule else ():
        if not pattern.created or each.at <= pattern.created or not {each.type, GENERAL} & {*pattern.types}:
            continue
        followed = rule.holds(each.trajectory) if rule else None
        of += followed is not None
        if followed is False and each.good is False:
            repeated += pattern.name in each.shown
            unseen += pattern.name not in each.shown
    return Mistake(pattern.name, repeated, unseen, of)
