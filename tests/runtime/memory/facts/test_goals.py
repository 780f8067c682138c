"""How near a goal is, by what memories say; and where a walk about something begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.api.fractal import shipped_system
from runtime.memory.embed import choose
from runtime.memory.facts.mind import Mind
from runtime.memory.store import open_shelf

KNOWN = (
    "The nitrate in well 3 is three times as high as in spring.",
    "The nitrate probe lasts nine months.",
    "My thermos flask is in the blue bag.",
    "We measure the wells every Monday.",
    "Ben takes over the field work from Anna.",
    "I drink tea in the morning.",
    "The farm upstream spreads manure in March.",
)


@pytest.fixture
def mind(tmp_path: Path) -> Mind:
    shelf = open_shelf("sqlite", tmp_path, fsync=False)
    return Mind(shelf, choose("lexical"), systems=(shipped_system(),), clock=lambda: "2026-05-04T08:00:00Z")


@pytest.mark.parametrize(
    ("goal", "known", "gap"),
    [
        ("nitrate is back to normal", "The nitrate is three times as high as normal.", None),
        ("nitrate is back to normal", "The nitrate in well 3 is three times as high as in spring.", None),
        ("nitrate is back to normal", "Nitrate is back to normal since Monday.", 0.0),
        ("nitrate is back to normal", "Nitrate is not back to normal.", 1.0),
        ("the lake is clean", "The lake is dirty.", 1.0),
        ("I weigh 75 kg", "I weigh 82 kg.", 1.0),
        ("I weigh 75 kg", "I weigh 75 kg.", 0.0),
        ("I speak Portuguese fluently", "I am learning Portuguese.", None),
        ("the report is finished", "The report is not finished yet.", 1.0),
        ("the bicycle is paid", "The bicycle costs 240 euros.", None),
        ("the garden is planted", "The fence is painted.", None),
        ("the report is finished", "The report is nearly finished.", None),
        ("the book is finished", "The manual of the book is finished.", None),
        ("the book is finished", "Anna says that the book is finished.", None),
        ("the door is open", "The door is closed.", 1.0),
    ],
)
def test_a_goal_is_near_by_the_meaning_of_values_or_it_is_unknown(
    mind: Mind, goal: str, known: str, gap: float | None
) -> None:
    mind.remember(known)
    assert mind.gap(mind.set_goal(goal)) == gap


def test_of_what_was_said_about_a_goal_the_latest_counts(mind: Mind) -> None:
    goal = mind.set_goal("the lake is clean")
    mind.remember("The lake is dirty.", at="2026-05-01")
    assert mind.gap(goal) == 1.0
    mind.remember("The lake is clean.", at="2026-05-03")
    assert mind.gap(goal) == 0.0


def test_a_part_of_a_goal_is_a_part_of_the_way(mind: Mind) -> None:
    goal = mind.set_goal("the garden is planted and watered")
    mind.remember("The garden is planted.")
    gap = mind.gap(goal)
    assert gap is not None and 0 < gap < 0.5


def test_a_walk_about_something_begins_there(mind: Mind) -> None:
    for text in KNOWN:
        mind.remember(text)
    begun = {mind.wander(seed=seed, about="nitrate", steps=1)[0].memory.text for seed in range(40)}
    assert begun == {text for text in KNOWN if "nitrate" in text}


def test_a_walk_about_something_unknown_does_not_begin(mind: Mind) -> None:
    for text in KNOWN:
        mind.remember(text)
    assert mind.wander(seed=1, about="holiday in Spain") == []
    assert mind.wander(seed=1)
