"""When a memory is due for review, and the outcome: FSRS-6, by the package `fsrs`.

Deterministic: without fuzzing, and the time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from runtime.memory.facts.records import Memory, moment, stamp

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

Grade = Literal["again", "hard", "good", "easy"]
GRADES: tuple[Grade, ...] = ("again", "hard", "good", "easy")
SHARE = 0.8
"""The share of its stability after which a memory is due."""
SOON, LATER = 0.5, 1.0
"""The least days before a review: of a new or relapsed memory, and of others."""
FRESH = timedelta(days=3)
"""The time since its last use within which a memory counts as well known."""
SURE, UNSURE = 0.92, 0.75
"""Retrieval scores from which a hit speaks for a memory, and below which against it."""
HELPFUL, HARMFUL = 0.05, -0.10
"""How feedback moves confidence."""


@cache
def _scheduler() -> Scheduler:
    from fsrs import Scheduler

    return Scheduler(enable_fuzzing=False)


def _card(memory: Memory) -> Card:
    """Its card; a new one starts when the memory was made, and its number comes from the memory's id."""
    from fsrs import Card

    if memory.card:
        card: Any = memory.card
        return Card.from_dict(card)
    return Card(card_id=int.from_bytes(memory.id.encode()[:6], "big"), due=_born(memory))


def _born(memory: Memory) -> datetime:
    return moment(memory.created or memory.since or "1970-01-01T00:00:00.000Z")


def interval(memory: Memory) -> float:
    """Days between reviews: 0.8 of its stability, and at least half a day or one."""
    card = _card(memory)
    young = not memory.card or card.state.name != "Review"
    return max(SOON if young else LATER, SHARE * (card.stability or 0.0))


def due_at(memory: Memory) -> str:
    """When it is due."""
    last = _card(memory).last_review if memory.card else None
    return stamp((last or _born(memory)) + timedelta(days=interval(memory)))


def due(memory: Memory, now: datetime) -> bool:
    """Whether a memory is to be reviewed; one that no longer holds is not."""
    return not memory.superseded and not memory.until and stamp(now) >= due_at(memory)


def retrievability(card: Any, now: datetime) -> float:
    """The probability that this card (as JSON) is remembered; 1 if it was never reviewed, or is damaged."""
    from fsrs import Card

    if not isinstance(card, dict) or not card.get("last_review"):
        return 1.0
    now = now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)
    try:
        read: Any = card
        return float(_scheduler().get_card_retrievability(Card.from_dict(read), now))
    except (KeyError, TypeError, ValueError):
        return 1.0  # the shelf reports damaged records


def grade(memory: Memory, now: datetime, *, contradicted: bool = False) -> Grade:
    """How well a memory did since its last review.

    Good if it was used within three days (again, if it has relapsed), else hard; one better for a direct hit
    with a high score, one worse for a low score or an indirect hit, and one worse if it is contradicted.
    """
    used = bool(memory.last_access) and now - moment(memory.last_access) <= FRESH
    relapsed = bool(memory.card) and _card(memory).state.name == "Relearning"
    rating = (1 if relapsed else 3) if used else 2
    if memory.accessed:
        rating += memory.last_score > SURE and memory.last_hop == 0
        rating -= memory.last_score < UNSURE or memory.last_hop > 0
    rating -= contradicted
    return GRADES[min(4, max(1, rating)) - 1]


@dataclass(frozen=True)
class Reviewed:
    """The outcome of a review."""

    memory: Memory  # with its new card
    grade: Grade
    stability: float
    lapsed: bool  # known before, and no longer


def review(
    memory: Memory, now: datetime, *, contradicted: bool = False, graded: Grade | None = None
) -> Reviewed:
    """The memory with its next card; nothing is written. Review only what is `due`."""
    from fsrs import Rating

    given = graded or grade(memory, now, contradicted=contradicted)
    before = _card(memory)
    card, _ = _scheduler().review_card(before, Rating(GRADES.index(given) + 1), now)
    lapsed = before.state.name == "Review" and given == "again"
    state = dict(card.to_dict())
    if lapsed or memory.card.get("lapses"):
        state["lapses"] = int(memory.card.get("lapses", 0)) + lapsed
    return Reviewed(memory.model_copy(update={"card": state}), given, float(card.stability or 0.0), lapsed)


def feedback(memory: Memory, helpful: bool) -> Memory:
    """The memory with its confidence moved up a little, or down twice as much."""
    moved = memory.confidence + (HELPFUL if helpful else HARMFUL)
    return memory.model_copy(update={"confidence": round(min(1.0, max(0.0, moved)), 6)})
