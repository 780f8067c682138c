"""Figures over decisions: how often memory answered, how rightly, what it saved, and how that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from runtime.memory.procedural.decisions import Decision, Path
from runtime.memory.procedural.trees import NeuronTree
from runtime.store import Shelf

PATHS: tuple[str, ...] = get_args(Path)
"""How a task can be met, the cheapest first."""
WINDOWS = 10
"""A learning curve looks at one in so many of all decisions at a time, and at no fewer than these."""


@dataclass(frozen=True)
class Point:
    """A place on the learning curve: over the decisions up to this one."""

    n: int
    answered: float  # share that was answered without a model
    right: float | None  # of the answered ones whose outcome is known


def in_order(shelf: Shelf) -> list[Decision]:
    """All decisions, the oldest first."""
    return sorted(shelf.scan(Decision), key=lambda each: (each.at, each.id))


def counted(decisions: Iterable[Decision]) -> dict[str, Any]:
    """How many there are, what came of them, and what they saved."""
    found = list(decisions)
    right = sum(each.outcome is True for each in found)
    wrong = sum(each.outcome is False for each in found)
    return {
        "decisions": len(found),
        "right": right,
        "wrong": wrong,
        "unknown": len(found) - right - wrong,
        "calls": sum(each.calls for each in found),
        "calls_saved": sum(each.saved for each in found),
    }


def report(decisions: Sequence[Decision], trees: Iterable[NeuronTree]) -> dict[str, Any]:
    """Everything that a report tells, as an object."""
    replayed = [each for each in decisions if each.replayed]
    surprises = [each.surprise for each in decisions if each.surprise is not None]
    count = 0
    shut: list[dict[str, Any]] = []
    for tree in trees:
        count += 1
        if tree.ledger.quarantined:
            ledger = tree.ledger
            told = {"uses": ledger.uses, "correct": ledger.correct, "incorrect": ledger.incorrect}
            shut.append({"id": tree.id, "task": tree.text, "run": tree.run, **told})
    return {
        **counted(decisions),
        "answered": _share(decisions, free),
        "right_of_answered": rightness(replayed),
        "surprise": round(sum(surprises) / len(surprises), 4) if surprises else None,
        "paths": grouped(decisions, lambda each: each.path, PATHS),
        "types": grouped(decisions, lambda each: each.type),
        "trees": {"count": count, "quarantined": shut},
        "ms": _medians(decisions),
    }


def free(decision: Decision) -> bool:
    """Whether it took no model at all."""
    return decision.replayed and not decision.calls


def rightness(decisions: Iterable[Decision]) -> float | None:
    """The share of right ones among those whose outcome is known."""
    known = [each.outcome for each in decisions if each.outcome is not None]
    return round(sum(known) / len(known), 4) if known else None


def grouped(
    decisions: Iterable[Decision], key: Callable[[Decision], str], names: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Counts by what `key` tells; the given names first, then by how many there are."""
    found: dict[str, list[Decision]] = {name: [] for name in names}
    for each in decisions:
        found.setdefault(key(each), []).append(each)
    order = {name: place for place, name in enumerate(names)}
    last = len(order)
    sorts = sorted(found.items(), key=lambda each: (order.get(each[0], last), -len(each[1]), each[0]))
    return {name: counted(held) for name, held in sorts if held}


def curve(decisions: Sequence[Decision], window: int | None = None) -> list[Point]:
    """A point for each decision, over a window that moves along."""
    size = window or max(WINDOWS, len(decisions) // WINDOWS)
    points: list[Point] = []
    for end in range(1, len(decisions) + 1):
        part = decisions[max(end - size, 0) : end]
        right = rightness(each for each in part if each.replayed)
        points.append(Point(end, _share(part, free) or 0.0, right))
    return points


def _share(decisions: Sequence[Decision], holds: Callable[[Decision], bool]) -> float | None:
    return round(sum(map(holds, decisions)) / len(decisions), 4) if decisions else None


def _medians(decisions: Iterable[Decision]) -> dict[str, float]:
    from statistics import median

    found: dict[str, list[float]] = {}
    for each in decisions:
        for name, value in each.ms.items():
            found.setdefault(name, []).append(value)
    return {name: round(median(values), 3) for name, values in found.items()}


@dataclass(frozen=True)
class Difference:
    """What two stores hold of one kind."""

    kind: str
    first: int
    second: int
    same: int
    changed: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def differences(first: Shelf, second: Shelf) -> list[Difference]:
    """The records that differ, by kind."""
    return [_difference(first, second, kind) for kind in sorted({*first.kinds(), *second.kinds()})]


def _difference(first: Shelf, second: Shelf, kind: str) -> Difference:
    from runtime.store.record import same

    mine, yours = ({row.id: row for row in shelf.rows(kind)} for shelf in (first, second))
    both = mine.keys() & yours.keys()
    changed = sorted(id for id in both if mine[id] != yours[id] and not same(mine[id], yours[id]))
    return Difference(
        kind,
        len(mine),
        len(yours),
        len(both) - len(changed),
        tuple(changed),
        tuple(sorted(mine.keys() - both)),
        tuple(sorted(yours.keys() - both)),
    )
