"""The effect of learning: success, time and tokens before and after, coverage, and repeated mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from runtime.memory.learning.attempts import StoredAttempt
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


def report(attempts: Iterable[StoredAttempt], patterns: Sequence[Pattern]) -> Report:
    """The report on all attempts and an agent's patterns, including inactive ones."""
    ends = [each for each in attempts if each.last and each.good is not None and not each.parent]
    active = [each for each in patterns if each.active]
    types: list[ByType] = []
    for name in sorted({each.type for each in ends}):
        own = [each.name for each in active if {name, GENERAL} & {*each.types}]
        types.append(ByType(name, *_sides([each for each in ends if each.type == name], patterns), own))
    counted = [each for each in types if each.before.attempts + each.after.attempts >= COVERED_FROM]
    covered = sum(bool(each.patterns) for each in counted)
    return Report(
        *_sides(ends, patterns),
        types,
        [found for each in patterns if (found := _mistake(each, ends)).of],
        len(active),
        len(patterns) - len(active),
        covered / len(counted) if counted else 0.0,
        covered,
        len(counted),
    )


def _sides(attempts: Iterable[StoredAttempt], patterns: Iterable[Pattern]) -> tuple[Side, Side]:
    """The attempts before the first pattern of their type was learned, and those after it."""
    learned: dict[str, str] = {}  # by type: when
    for pattern in sorted((each for each in patterns if each.created), key=lambda each: each.created):
        for type in pattern.types:
            learned.setdefault(type, pattern.created)
    before: list[StoredAttempt] = []
    after: list[StoredAttempt] = []
    for attempt in attempts:
        first = min((learned[type] for type in (attempt.type, GENERAL) if type in learned), default="")
        (after if first and attempt.at > first else before).append(attempt)
    return _side(before), _side(after)


def _side(attempts: Sequence[StoredAttempt]) -> Side:
    if not attempts:
        return Side()
    return Side(
        len(attempts),
        round(fmean(bool(each.good) for each in attempts), 4),
        round(fmean(each.seconds for each in attempts), 3),
        round(fmean(each.tokens for each in attempts), 1),
        round(fmean(each.calls for each in attempts), 2),
    )


def _mistake(pattern: Pattern, attempts: Sequence[StoredAttempt]) -> Mistake:
    rule = parsed(pattern.rule)
    later = [each for each in attempts if pattern.created and each.at > pattern.created]
    applicable = [
        (each, followed)
        for each in later
        if rule and {each.type, GENERAL} & {*pattern.types}
        if (followed := rule.holds(each.trajectory)) is not None
    ]
    failed = [each for each, followed in applicable if not followed and each.good is False]
    repeated = sum(pattern.name in each.shown for each in failed)
    return Mistake(pattern.name, repeated, len(failed) - repeated, len(applicable))
