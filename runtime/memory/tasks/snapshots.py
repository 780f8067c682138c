"""Snapshots: a line of figures of the whole memory after every N problems, to see how it grows.

Dreams delete old decisions, so these figures cannot be computed later. Source: seed 000_39bad3da279292ba,
"Benchmark Runner".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from runtime.memory.store import Record, Shelf
from runtime.memory.tasks.decisions import Decision, counted, free, in_order, rightness

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
    answered: float = 0.0  # without a model
    right: float | None = None  # of what memory answered, where the outcome is known
    calls: int = 0
    calls_saved: int = 0


class Problems(Record):
    """How many problems there were; one record, `problems`."""

    KIND: ClassVar[str] = "problems"

    n: int = 0


def count(shelf: Shelf, new: int, every: int, at: str) -> Snapshot | None:
    """Count `new` problems whose decisions are stored; returns the snapshot that is due (0: never one)."""
    known = shelf.get(Problems, "problems")
    before = known.n if known else shelf.count(Decision) - new
    shelf.put(Problems(id="problems", n=before + new))
    if not every or (before + new) // every == before // every:
        return None
    decisions = in_order(shelf)[-every:]
    sizes, totals = shelf.kinds(), counted(decisions)
    snapshot = Snapshot(
        id=f"{before + new:08}",
        n=before + new,
        at=at,
        sizes={name: sizes.get(kind, 0) for name, kind in KINDS.items()},
        answered=round(sum(map(free, decisions)) / len(decisions), 4),
        right=rightness(each for each in decisions if each.replayed),
        calls=totals["calls"],
        calls_saved=totals["calls_saved"],
    )
    shelf.put(snapshot)
    return snapshot


def all_of(shelf: Shelf) -> Sequence[Snapshot]:
    """Every snapshot, the oldest first."""
    return sorted(shelf.scan(Snapshot), key=lambda each: each.n)
