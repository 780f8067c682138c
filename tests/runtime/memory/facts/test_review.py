"""Reviews by FSRS-6: what is due when, how a memory is graded, and that the same comes of the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.facts.records import Memory, stamp
from runtime.memory.facts.review import (
    Grade,
    due,
    due_at,
    feedback,
    grade,
    interval,
    retrievability,
    review,
)

START = datetime(2026, 5, 4, 8, tzinfo=UTC)
DAY = timedelta(days=1)


def memory(**fields: object) -> Memory:
    return Memory(id="a" * 24, text="Anna lives in Paris", created=stamp(START), **fields)  # pyright: ignore


def test_a_new_memory_is_due_after_half_a_day() -> None:
    assert not due(memory(), START + DAY / 3)
    assert due(memory(), START + DAY / 2)


def test_what_is_past_is_never_due() -> None:
    assert not due(memory(superseded="b"), START + 100 * DAY)
    assert not due(memory(until=stamp(START)), START + 100 * DAY)


def test_the_better_a_memory_does_the_later_it_is_due() -> None:
    grades: tuple[Grade, ...] = ("again", "hard", "good", "easy")
    found = [review(memory(), START + DAY, graded=each).stability for each in grades]
    assert found == sorted(found)
    assert len(set(found)) == 4


def test_intervals_grow_while_it_goes_well_and_a_lapse_is_counted() -> None:
    now, kept, lengths = START, memory(), []
    for _ in range(6):
        now += timedelta(days=interval(kept))
        assert due(kept, now)
        kept = review(kept, now, graded="good").memory
        lengths.append(interval(kept))
        assert not due(kept, now)
    assert lengths[-1] > 20 * lengths[0]
    lapsed = review(kept, now + timedelta(days=interval(kept)), graded="again")
    assert lapsed.lapsed
    assert lapsed.memory.card["lapses"] == 1
    assert lapsed.stability < lengths[-1]
    again = review(lapsed.memory, now + 200 * DAY, graded="good").memory
    assert again.card["lapses"] == 1


def test_a_memory_is_less_known_the_longer_it_was_not_reviewed() -> None:
    kept = review(memory(), START + DAY, graded="good").memory
    days = [retrievability(kept.card, START + (1 + n) * DAY) for n in (0, 1, 10, 100)]
    assert days == sorted(days, reverse=True)
    assert days[0] == pytest.approx(1.0)


def test_decay_is_the_one_of_fsrs_6() -> None:
    kept = review(memory(), START, graded="good").memory
    decay = 0.1542
    factor = 0.9 ** (-1 / decay) - 1
    stability = 2.3065
    wanted = (1 + factor * 10 / stability) ** -decay
    assert retrievability(kept.card, START + 10 * DAY) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("days", "score", "hop", "contradicted", "graded"),
    [
        (1, 0.80, 0, False, "good"),
        (1, 0.95, 0, False, "easy"),
        (1, 0.95, 1, False, "hard"),
        (1, 0.50, 0, False, "hard"),
        (9, 0.80, 0, False, "hard"),
        (9, 0.50, 0, False, "again"),
        (9, 0.95, 0, False, "good"),
        (1, 0.80, 0, True, "hard"),
        (9, 0.50, 1, True, "again"),
    ],
)
def test_how_a_memory_is_graded(days: int, score: float, hop: int, contradicted: bool, graded: str) -> None:
    used = memory(accessed=1, last_access=stamp(START), last_score=score, last_hop=hop)
    assert grade(used, START + days * DAY, contradicted=contradicted) == graded


def test_what_nobody_ever_used_is_hard() -> None:
    assert grade(memory(), START + 9 * DAY) == "hard"


def test_a_word_against_counts_twice_one_in_favour() -> None:
    assert feedback(memory(), True).confidence == pytest.approx(0.55)
    assert feedback(memory(), False).confidence == pytest.approx(0.40)


STEPS = st.tuples(st.sampled_from(["again", "hard", "good", "easy"]), st.floats(0.5, 90))


@given(st.lists(STEPS, max_size=12))
def test_the_same_reviews_come_to_the_same_and_are_kept_as_json(steps: list[tuple[str, float]]) -> None:
    one, other, now = memory(), memory(), START
    for graded, days in steps:
        now += timedelta(days=days)
        one = review(one, now, graded=graded).memory  # pyright: ignore[reportArgumentType]
        other = Memory.model_validate_json(other.model_dump_json())
        other = review(other, now, graded=graded).memory  # pyright: ignore[reportArgumentType]
    assert one == other
    assert due_at(one) >= stamp(now)
