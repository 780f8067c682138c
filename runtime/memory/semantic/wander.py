"""A walk through what is known that goes where there is something to gain: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from runtime.memory.semantic.dates import moment
from runtime.memory.semantic.links import edges_of
from runtime.memory.semantic.records import Goal, Memory
from runtime.store import Shelf

if TYPE_CHECKING:
    from runtime.store.record import Vector

UNDER_EXPLORED, LOW_CONFIDENCE, NEAR_GOAL, STALE, RANDOM = 0.3, 0.2, 0.4, 0.2, 0.3
FEW, UNSURE, OLD = 3, 0.5, timedelta(days=14)
"""A memory with fewer uses is under-explored, one with less confidence unsure, one not used so long stale."""
SEEDS = 10
"""The first step is drawn from so many."""
EDGE = 0.4
"""What the weight of an edge counts for in a step; the rest is what there is to gain."""
STEPS = 6
WIDEST = 200
"""Edges of one memory that a step looks at."""


@dataclass(frozen=True)
class Step:
    """A memory on the way, and what drew the walk there."""

    memory: Memory
    gain: float
    why: tuple[str, ...]
    by: str = ""  # the id of the edge; "" for the first


def gain(memory: Memory, now: datetime, goals: Sequence[Vector] = (), embedder: str = "", near: float = 0.5):
    """What there is to gain at a memory, without chance: the score and its reasons.

    `goals` are vectors of open goals, and a memory is near one from the similarity `near`.
    """
    reasons: list[tuple[str, float]] = []
    if memory.accessed < FEW:
        reasons.append(("under-explored", UNDER_EXPLORED))
    if memory.confidence < UNSURE:
        reasons.append(("unsure", LOW_CONFIDENCE))
    vector = memory.vector(embedder) if goals else None
    if vector is not None and max(float(vector @ goal) for goal in goals) >= near:
        reasons.append(("near a goal", NEAR_GOAL))
    last = memory.last_access or memory.changed or memory.created
    if last and now - moment(last) > OLD:
        reasons.append(("stale", STALE))
    return sum(weight for _, weight in reasons), tuple(name for name, _ in reasons)


def walk(
    shelf: Shelf,
    start: Sequence[Memory],
    now: datetime,
    *,
    seed: int,
    goals: Sequence[Goal] = (),
    embedder: str = "",
    near: float = 0.5,
    steps: int = STEPS,
) -> list[Step]:
    """Memories one after another: the first from the ten of `start` with most to gain, then along edges.

    Chance has its part in what is best. No memory is met twice; the walk ends where no edge leads on.
    """
    chance = random.Random(seed)
    wished = [vector for goal in goals if (vector := goal.vector(embedder)) is not None]

    def look(memory: Memory, edge: float = 0.0, by: str = "") -> tuple[float, Step]:
        told, why = gain(memory, now, wished, embedder, near)
        luck = RANDOM * chance.random()
        drawn = EDGE * edge + (1 - EDGE) * (told + luck) if by else told + luck
        return drawn, Step(memory, round(told, 6), why, by)

    first = sorted((look(each) for each in start), key=lambda each: (-each[0], each[1].memory.id))[:SEEDS]
    if not first or steps < 1:
        return []
    ((_, begin),) = chance.choices(first, [max(weight, 1e-9) for weight, _ in first])
    way = [begin]
    while len(way) < steps and (ahead := _onwards(shelf, way, look)):
        way.append(max(ahead, key=lambda each: each[0])[1])
    return way


def _onwards(shelf: Shelf, way: Sequence[Step], look: Any) -> list[tuple[float, Step]]:
    here, met = way[-1].memory, {step.memory.id for step in way}
    edges = [edge for edge in edges_of(shelf, [here.id])[here.id] if not edge.invalidated]
    ends = {edge.target if edge.source == here.id else edge.source: edge for edge in edges[-WIDEST:]}
    there = shelf.pick(Memory, sorted(ends.keys() - met))
    return [look(each, ends[each.id].weight, ends[each.id].id) for each in there if not each.superseded]
