"""Snapshots: a line of figures of the whole memory after every N problems, to see how it grows.

Dreams delete old decisions, so these figures cannot be computed later. Source: seed 000_39bad3da279292ba,
"Benchmark Runner".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import ClassVar

from pydantic import Field

from runtime.memory.store import Record, Shelf
from runtime.memory.tasks.decisions import Decision, answered, counted, in_order, met, rightness

KINDS = {
    "trees": "neuron-tree",
    "types": "problem-type",
    "methods": "method",
    "memories": "memory",
    "edges": "edge",
    "experiences": "experience",
}
"""What is counted, by the kind of its records."""


class Snapshot(Record):
    """The figures after `n` problems; the shares are of the problems since the snapshot before."""

    KIND: ClassVar[str] = "snapshot"

    n: int = 0
    at: str = ""
    sizes: dict[str, int] = Field(default_factory=dict[str, int])
    answered: float = 0.0  # of the problems that memory decided on: without a model
    right: float | None = None  # of what memory answered, where the outcome is known
    calls: int = 0
    calls_saved: int = 0


class Problems(Record):
    """How many problems there were since the beginning, and how they were met; one record, `problems`."""

    KIND: ClassVar[str] = "problems"

    n: int = 0
    paths: dict[str, int] = Field(default_factory=dict[str, int])
    recognitions: dict[str, int] = Field(default_factory=dict[str, int])
    surprises: int = 0  # problems whose outcome was known at once, and predicted
    surprise: float = 0.0  # the sum of these

    @property
    def recognised(self) -> float | None:
        """The share of problems whose type was recognized or familiar; None if there was none."""
        met = sum(self.recognitions.values())
        return 1 - self.recognitions.get("novel", 0) / met if met else None

    def plus(self, decisions: Sequence[Decision]) -> Problems:
        """With the decisions on more problems."""
        paths, recognitions = Counter(self.paths), Counter(self.recognitions)
        paths.update(each.path for each in decisions)
        recognitions.update(each.recognition for each in decisions if each.path != "direct")
        surprises = [each.surprise for each in decisions if each.surprise is not None]
        return Problems(
            id=self.id,
            n=self.n + len(decisions),
            paths=dict(paths),
            recognitions=dict(recognitions),
            surprises=self.surprises + len(surprises),
            surprise=round(self.surprise + sum(surprises), 6),
        )


def problems(shelf: Shelf, without: Collection[str] = ()) -> Problems:
    """The problems so far, without these decisions; where they were not counted yet, what is left of them."""
    known = shelf.get(Problems, "problems")
    if known and known.paths:
        return known
    left = [each for each in shelf.scan(Decision) if each.id not in without]
    forgotten = known.n - len(left) if known else 0  # an earlier version counted only how many there were
    return Problems(id="problems", n=max(forgotten, 0)).plus(left)


def count(shelf: Shelf, new: Sequence[Decision], every: int, at: str) -> Snapshot | None:
    """Count problems whose decisions are stored; returns the snapshot that is due (`every` 0: never one)."""
    ids = [each.id for each in new]
    known = problems(shelf, ids)
    counted_now = known.plus(shelf.pick(Decision, ids))
    shelf.put(counted_now)
    before, n = known.n, counted_now.n
    if not every or n // every == before // every:
        return None
    decisions = in_order(shelf)[-every:]
    tasks = [met(each) for each in decisions]
    sizes, totals = shelf.kinds(), counted(decisions)
    snapshot = Snapshot(
        id=f"{n:08}",
        n=n,
        at=at,
        sizes={name: sizes.get(kind, 0) for name, kind in KINDS.items()},
        answered=answered(tasks) or 0.0,
        right=rightness(tasks),
        calls=totals["calls"],
        calls_saved=totals["calls_saved"],
    )
    shelf.put(snapshot)
    return snapshot


def all_of(shelf: Shelf) -> Sequence[Snapshot]:
    """Every snapshot, the oldest first."""
    return sorted(shelf.scan(Snapshot), key=lambda each: each.n)
