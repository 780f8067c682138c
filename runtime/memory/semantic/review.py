"""When a memory is to be looked at again, and what came of it: FSRS-6, as the package `fsrs` has it.

Deterministic: no fuzzing, and the time is given. A memory's card is kept as `fsrs.Card.to_dict` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from runtime.memory.semantic.dates import moment, stamp
from runtime.memory.semantic.records import Memory

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

Grade = Literal["again", "hard", "good", "easy"]
SHARE = 0.8
"""Of its stability: a memory is due once so much of it has passed."""
SOON, LATER = 0.5, 1.0
"""Days that pass at least: for a new or relapsed memory, and for others."""
FRESH = 3.0
"""Days since it was last used within which a memory counts as known well."""
SURE, UNSURE = 0.92, 0.75
"""Retrieval scores from which a hit speaks for a memory, and below which it speaks against."""
HELPFUL, HARMFUL = 0.05, -0.10
"""What a person's or a check's word moves confidence by."""
_GRADES: tuple[Grade, ...] = ("again", "hard", "good", "easy")


@cache
def _scheduler() -> Scheduler:
    from fsrs import Scheduler

    return Scheduler(enable_fuzzing=False)


def _card(memory: Memory) -> Card:
    """Its card; a new one is from when the memory was made, with a number that its id decides."""
    from fsrs import Card

    if memory.card:
        card: dict[str, Any] = memory.card
        return Card.from_dict(card)  # pyright: ignore[reportArgumentType]
    return Card(card_id=int.from_bytes(memory.id.encode()[:6], "big"), due=moment(_born(memory)))


def _born(memory: Memory) -> str:
    return memory.created or memory.since or "1970-01-01T00:00:00.000Z"


def _young(memory: Memory) -> bool:
    """Whether it is new or relapsed."""
    return not memory.card or _card(memory).state.name != "Review"


def elapsed(memory: Memory, now: datetime) -> float:
    """Days since the last review, or since it was made."""
    last = _card(memory).last_review if memory.card else None
    return (now - (last or moment(_born(memory)))).total_seconds() / 86_400


def interval(memory: Memory) -> float:
    """Days after which a memory is due: 0.8 of its stability, and not before half a day or one."""
    stability = (_card(memory).stability if memory.card else None) or 0.0
    return max(SOON if _young(memory) else LATER, SHARE * stability)


def due(memory: Memory, now: datetime) -> bool:
    """Whether it is time to look at a memory; what is past is not looked at."""
    return not memory.superseded and not memory.until and stamp(now) >= due_at(memory)


def due_at(memory: Memory) -> str:
    """When it will be due."""
    last = _card(memory).last_review if memory.card else None
    return stamp((last or moment(_born(memory))) + timedelta(days=interval(memory)))


def retrievability(memory: Memory, now: datetime) -> float:
    """How likely it is to be known by now, between 0 and 1; 1 for what was never reviewed."""
    if not memory.card:
        return 1.0
    return float(_scheduler().get_card_retrievability(_card(memory), now))


def grade(memory: Memory, now: datetime, *, contradicted: bool = False) -> Grade:
    """How well a memory did since its last review.

    Good when it was used within three days (again, if it has relapsed), else hard; better for a direct hit
    with a high score, worse for a low score or a hit by way of others, and worse when it is contradicted.
    """
    used = bool(memory.last_access) and (now - moment(memory.last_access)) <= timedelta(days=FRESH)
    relapsed = bool(memory.card) and _card(memory).state.name == "Relearning"
    rating = (1 if relapsed else 3) if used else 2
    if memory.accessed:
        if memory.last_score > SURE and memory.last_hop == 0:
            rating += 1
        if memory.last_score < UNSURE or memory.last_hop > 0:
            rating -= 1
    rating -= contradicted
    return _GRADES[min(4, max(1, rating)) - 1]


@dataclass(frozen=True)
class Reviewed:
    """What a review came to."""

    memory: Memory  # with its new card
    grade: Grade
    stability: float
    due: str
    lapsed: bool  # known before, and no more


def review(
    memory: Memory, now: datetime, *, contradicted: bool = False, graded: Grade | None = None
) -> Reviewed:
    """The memory with its next card; nothing is written. Ask `due` first: what is not due is not reviewed."""
    from fsrs import Rating

    given = graded or grade(memory, now, contradicted=contradicted)
    before = _card(memory)
    card, _ = _scheduler().review_card(before, Rating(_GRADES.index(given) + 1), now)
    lapsed = before.state.name == "Review" and given == "again"
    told = dict(card.to_dict())
    if lapsed or memory.card.get("lapses"):
        told["lapses"] = int(memory.card.get("lapses", 0)) + lapsed
    after = memory.model_copy(update={"card": told})
    return Reviewed(after, given, float(card.stability or 0.0), due_at(after), lapsed)


def feedback(memory: Memory, helpful: bool) -> Memory:
    """The memory with its confidence moved by a word on it, up a little or down twice as much."""
    moved = memory.confidence + (HELPFUL if helpful else HARMFUL)
    return memory.model_copy(update={"confidence": round(min(1.0, max(0.0, moved)), 6)})
