"""Walks through what is known, which goals attract, and how far a goal is from what is known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.memory.facts.agreement import SHARED, Said, agreement
from runtime.memory.facts.gate import said_by
from runtime.memory.facts.graph import edges_of
from runtime.memory.facts.language import Language
from runtime.memory.facts.records import Goal, Memory, moment
from runtime.memory.facts.terms import terms_of
from runtime.memory.store import Shelf
from runtime.memory.store.record import Vector

UNDER_EXPLORED, LOW_CONFIDENCE, NEAR_GOAL, STALE, RANDOM = 0.3, 0.2, 0.4, 0.2, 0.3
"""What each reason to visit a memory weighs."""
FEW, UNSURE, OLD = 3, 0.5, timedelta(days=14)
"""A memory with fewer uses is under-explored, with less confidence unsure, unused for longer stale."""
SEEDS = 10
"""Memories that the first step is drawn from."""
TOP, CLOSE, LEAST = 3, 0.7, 0.75
"""A walk about something begins at one of so many memories, each with this share of the best similarity, and
with this share of the one that links an observation."""
EDGE = 0.4
"""The share of an edge's weight in a step; the rest is the gain."""
_PARTLY = frozenset(["almost", "barely", "half", "hardly", "nearly", "partly", "soon"])
"""With one of these words, a memory does not say that a goal is reached."""
STEPS = 6
WIDEST = 200
"""Edges of one memory that a step looks at."""


def about(near: Sequence[tuple[Memory, float]], link: float) -> list[Memory]:
    """The memories that are about what was asked for, of those nearest to it, the nearest first.

    None if nothing is near; `link` is the similarity above which an observation links to a memory.
    """
    least = max(LEAST * link, CLOSE * max((score for _, score in near), default=0.0))
    return [memory for memory, score in near[:TOP] if score >= least]


def gap(goal: Goal, near: Sequence[Memory], language: Language) -> float | None:
    """How far a goal is from what the memories near it say, by the meaning of their words and values.

    0: one says it; 1: one says the contrary, or another value; in between: one says a part of it and nothing
    else. None: nothing tells. The memory that shares most with the goal decides, then the latest. A memory
    with another subject does not count.
    """
    found: list[tuple[float, str, float]] = []
    for memory in near:
        wish = Said(goal.text, memory.who, memory.since)
        agreed = agreement(said_by(memory), wish, language)
        if agreed.shared < SHARED:
            continue
        if agreed.clashes:
            found.append((agreed.shared, memory.since, 1.0))
        elif agreed.mergeable and not agreed.both:
            wished, told = (terms_of(text, language, memory.who) for text in (goal.text, memory.text))
            part = len(wished.terms) > len(told.terms)
            subjects = {each.base or each.key for terms in (wished, told) for each in terms.terms[:1]}
            if len(subjects) == 1 and (part or told.lows.isdisjoint(_PARTLY - wished.lows)):
                found.append((agreed.shared, memory.since, 1.0 - agreed.shared if part else 0.0))
    return max(found)[2] if found else None


@dataclass(frozen=True)
class Step:
    """A memory on the way, and why the walk went there."""

    memory: Memory
    gain: float
    why: tuple[str, ...]
    by: str = ""  # the id of the edge; "" for the first


def gain(
    memory: Memory, now: datetime, wished: Sequence[Vector] = (), embedder: str = "", near: float = 0.5
) -> tuple[float, tuple[str, ...]]:
    """What a visit to a memory gains, without chance: the score and its reasons.

    `wished` are vectors of open goals; a memory is near one from the similarity `near`.
    """
    vector = memory.vector(embedder) if wished else None
    last = memory.last_access or memory.changed or memory.created
    near_goal = vector is not None and max(float(vector @ goal) for goal in wished) >= near
    reasons = (
        ("under-explored", UNDER_EXPLORED, memory.accessed < FEW),
        ("unsure", LOW_CONFIDENCE, memory.confidence < UNSURE),
        ("near a goal", NEAR_GOAL, near_goal),
        ("stale", STALE, bool(last) and now - moment(last) > OLD),
    )
    holding = [(name, weight) for name, weight, holds in reasons if holds]
    return sum(weight for _, weight in holding), tuple(name for name, _ in holding)


def wander(
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
    """A walk along edges that goes where there is most to gain; the same for the same seed.

    It begins at one of the ten of `start` with most to gain, meets no memory twice, and ends where no edge
    leads on.
    """
    chance = random.Random(seed)
    wished = [vector for goal in goals if (vector := goal.vector(embedder)) is not None]

    def look(memory: Memory, edge: float = 0.0, by: str = "") -> tuple[float, Step]:
        gained, why = gain(memory, now, wished, embedder, near)
        luck = RANDOM * chance.random()
        drawn = EDGE * edge + (1 - EDGE) * (gained + luck) if by else gained + luck
        return drawn, Step(memory, round(gained, 6), why, by)

    first = sorted((look(each) for each in start), key=lambda each: (-each[0], each[1].memory.id))[:SEEDS]
    if not first or steps < 1:
        return []
    ((_, begin),) = chance.choices(first, [max(weight, 1e-9) for weight, _ in first])
    way = [begin]
    while len(way) < steps:
        here, met = way[-1].memory.id, {step.memory.id for step in way}
        edges = [edge for edge in edges_of(shelf, [here])[here] if not edge.invalidated][-WIDEST:]
        ends = {edge.target if edge.source == here else edge.source: edge for edge in edges}
        there = [each for each in shelf.pick(Memory, sorted(ends.keys() - met)) if not each.superseded]
        if not there:
            break
        ahead = [look(each, ends[each.id].weight, ends[each.id].id) for each in there]
        way.append(max(ahead, key=lambda each: each[0])[1])
    return way
