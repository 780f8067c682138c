"""Decisions: how each task was met and what came of it, with figures for reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from pydantic import Field

from runtime.memory.store import Record, Shelf

if TYPE_CHECKING:  # a run that only records its outcome needs no vectors
    from runtime.memory.tasks.recall import Recall
    from runtime.memory.tasks.trees import NeuronTree

Recognition = Literal["recognized", "familiar", "novel"]
Path = Literal["direct", "exact", "variation", "method", "novel"]
PATHS: tuple[str, ...] = get_args(Path)
"""The ways to meet a task, the cheapest first."""
Item = TypeVar("Item")
PERSON = "person"
NEAR = 3
"""Trees that were refused, of which a decision keeps the reason."""
WINDOWS = 10
"""A learning curve is averaged over a tenth of all tasks, and at least over so many."""


class Decision(Record):
    """How a task was met: `text` is the task, `outcome` is None until it is known."""

    KIND: ClassVar[str] = "decision"

    run: str = ""
    at: str = ""  # ISO 8601
    type: str = ""  # the id of the problem type
    recognition: Recognition = "novel"
    path: Path = "novel"
    tree: str = ""  # what was replayed; on the path `novel`, what was learned
    method: str = ""
    way: str = ""  # the way in which a model was asked
    similar: int | None = None  # stored tasks like it
    candidates: int = 0  # the best of them, which it was compared with
    near: tuple[tuple[str, str], ...] = ()  # trees that came near, and why each was refused
    rivals: dict[str, str] = Field(default_factory=dict[str, str])
    # trees that matched and were not used: the `deed` of each
    did: str = ""  # the deed that solved the task instead
    why: str = ""  # why nothing was replayed
    predicted: float = 0.0  # confidence before, between 0 and 1
    outcome: bool | None = None
    source: str = ""  # who reported the outcome: criteria, check, person
    said: dict[str, tuple[bool, float]] = Field(default_factory=dict[str, tuple[bool, float]])
    # by source: the last outcome it reported, and how far it is trusted
    shares: dict[str, float] | None = None  # of the outcome, by branch of the tree
    released: tuple[int, int | float, int | float] | None = None
    # what the ledger had forgiven before this decision released the tree
    surprise: float | None = None  # |predicted - outcome|
    calls: int = 0  # model calls of the whole run
    calls_before: int = 0  # model calls that solving it the first time took
    ms: dict[str, float] = Field(default_factory=dict[str, float])
    # milliseconds by part: embed, find, recognise, align, bind

    @property
    def replayed(self) -> bool:
        """Whether it was answered without a model."""
        return self.path != "novel"

    @property
    def predicts(self) -> bool:
        """Whether a confidence was predicted; a shipped phrasing has no ledger to predict from."""
        return self.path not in ("novel", "direct")

    @property
    def saved(self) -> int:
        """Model calls that were saved, as far as the first solution's calls are known."""
        return max(self.calls_before - self.calls, 0) if self.replayed and self.outcome is not False else 0


def of_recall(id: str, task: str, found: Recall) -> Decision:
    """The decision that a recall leads to, without an outcome."""
    return Decision(
        id=id,
        text=task,
        path=found.kind,
        tree=found.tree.id if found.tree else "",
        similar=found.similar,
        candidates=found.candidates,
        near=found.refused[:NEAR] if found.kind == "novel" else (),
        rivals=dict(found.rivals),
        why=(found.why or "nothing similar is in memory") if found.kind == "novel" else "",
        predicted=found.confidence,
        calls_before=found.tree.calls if found.tree else 0,
        ms=dict(found.ms),
    )


class Met(NamedTuple):
    """How a task was met, for the figures: those on which memory decided, and all others."""

    at: str  # ISO 8601
    alone: bool  # answered without any model call; what waits, failed or was wrong is not answered
    right: bool | None = None  # what memory answered, where the outcome is known


@dataclass(frozen=True)
class Point:
    """A point of the learning curve: shares over the last tasks up to this one."""

    n: int
    answered: float  # without a model
    right: float | None  # of the answered ones whose outcome is known


@dataclass(frozen=True)
class Difference:
    """What two stores have of one kind of record."""

    kind: str
    first: int
    second: int
    same: int
    changed: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def in_order(shelf: Shelf, runs: Collection[str] | None = None) -> list[Decision]:
    """All decisions, the oldest first; with `runs`, only theirs."""
    found = (each for each in shelf.scan(Decision) if runs is None or each.run in runs)
    return sorted(found, key=lambda each: (each.at, each.id))


def counted(decisions: Iterable[Decision]) -> dict[str, Any]:
    """Numbers of decisions, outcomes, and model calls."""
    found = list(decisions)
    right = sum(each.outcome is True for each in found)
    wrong = sum(each.outcome is False for each in found)
    return {
        "decisions": len(found),
        "right": right,
        "wrong": wrong,
        "unknown": len(found) - right - wrong,
        "right_share": share(right, right + wrong),
        "calls": sum(each.calls for each in found),
        "calls_saved": sum(each.saved for each in found),
    }


def report(
    decisions: Sequence[Decision], trees: Iterable[NeuronTree], tasks: Sequence[Met]
) -> dict[str, Any]:
    """All figures of `fractal brain report`; `tasks` are those of `decisions` and all others."""
    from statistics import median

    surprises = [each.surprise for each in decisions if each.surprise is not None]
    kept = [(tree.id, tree.text, tree.run, tree.ledger) for tree in trees]
    ms: dict[str, list[float]] = {}
    for name, value in (part for each in decisions for part in each.ms.items()):
        ms.setdefault(name, []).append(value)
    return {
        **counted(decisions),
        "other_tasks": len(tasks) - len(decisions),
        "answered": answered(tasks),
        "right_of_answered": rightness(tasks),
        "surprise": round(sum(surprises) / len(surprises), 4) if surprises else None,
        "paths": grouped(decisions, lambda each: each.path, PATHS),
        "types": grouped(decisions, lambda each: each.type),
        "trees": {
            "count": len(kept),
            "quarantined": [
                {"id": id, "task": task, "run": run, **ledger.model_dump(exclude={"forgiven"})}
                for id, task, run, ledger in kept
                if ledger.quarantined
            ],
        },
        "ms": {name: round(median(values), 3) for name, values in ms.items()},
    }


def met(decision: Decision) -> Met:
    """How its task was met."""
    alone = decision.replayed and not decision.calls and decision.outcome is not False
    return Met(decision.at, alone, decision.outcome if decision.replayed else None)


def answered(tasks: Sequence[Met]) -> float | None:
    """The share of tasks that were answered without a model; None if there is no task."""
    return share(sum(each.alone for each in tasks), len(tasks))


def rightness(found: Iterable[Met]) -> float | None:
    """The share of right ones among memory's answers whose outcome is known; None if there is none."""
    known = [each.right for each in found if each.right is not None]
    return share(sum(known), len(known))


def share(part: int, whole: int) -> float | None:
    """A share with four digits; None of nothing."""
    return round(part / whole, 4) if whole else None


def grouped(
    decisions: Iterable[Decision], key: Callable[[Decision], str], names: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Counts by `key`: the given names first, then the most frequent."""
    found: dict[str, list[Decision]] = {name: [] for name in names}
    for each in decisions:
        found.setdefault(key(each), []).append(each)
    others = sorted(found.keys() - {*names}, key=lambda name: (-len(found[name]), name))
    return {name: counted(found[name]) for name in (*names, *others) if found[name]}


def curve(tasks: Sequence[Met], window: int | None = None) -> list[Point]:
    """A point for each task, over the last `window` tasks."""
    return [
        Point(end, answered(part) or 0.0, rightness(part))
        for end, part in enumerate(windows(tasks, window), 1)
    ]


def windows(items: Sequence[Item], size: int | None = None) -> Iterator[Sequence[Item]]:
    """For each item, the last items up to it over which a learning curve is averaged."""
    size = window_of(len(items), size)
    return (items[max(end - size, 0) : end] for end in range(1, len(items) + 1))


def window_of(count: int, size: int | None = None) -> int:
    """How many of `count` items a point of a learning curve averages."""
    return min(size or max(WINDOWS, count // WINDOWS), count)


def differences(first: Shelf, second: Shelf) -> list[Difference]:
    """The records that differ between two stores, by kind."""
    from runtime.memory.store.record import same

    found: list[Difference] = []
    for kind in sorted({*first.kinds(), *second.kinds()}):
        mine, yours = ({row.id: row for row in shelf.rows(kind)} for shelf in (first, second))
        both = mine.keys() & yours.keys()
        changed = sorted(id for id in both if mine[id] != yours[id] and not same(mine[id], yours[id]))
        only_mine, only_yours = (tuple(sorted({*rows} - both)) for rows in (mine, yours))
        equal = len(both) - len(changed)
        found.append(Difference(kind, len(mine), len(yours), equal, tuple(changed), only_mine, only_yours))
    return found
