"""How much of what is found is still held: retrievability by FSRS, and salience."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from runtime.memory.semantic.records import Memory
from runtime.memory.semantic.retrieval.rows import Entry

SUPERSEDED = 0.4
"""What a memory still counts when another has taken its place."""


def strength(entry: Entry, now: datetime) -> dict[str, float]:
    """The factors of a score by name; an observation is what happened, and is not forgotten."""
    told = entry.fields
    salience = told.get("salience")
    salience = salience if isinstance(salience, int | float) else 0.5
    factors = {"salience": 0.5 + 0.5 * min(1.0, max(0.0, float(salience)))}
    if entry.kind == Memory.KIND:
        factors["retrievability"] = retrievability(told.get("card"), now)
        if told.get("superseded"):
            factors["superseded"] = SUPERSEDED
    return factors


def retrievability(card: Any, now: datetime) -> float:
    """The chance that what this card of FSRS-6 stands for is remembered; 1 where it never was reviewed."""
    if not isinstance(card, dict) or not card.get("last_review"):
        return 1.0
    from fsrs import Card

    try:
        read = Card.from_dict(card)  # type: ignore[arg-type]
        now = now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)
        return float(_scheduler().get_card_retrievability(read, now))
    except (KeyError, TypeError, ValueError):
        return 1.0  # a card that is damaged is told by the shelf


@cache
def _scheduler() -> Any:
    from fsrs import Scheduler

    return Scheduler()
