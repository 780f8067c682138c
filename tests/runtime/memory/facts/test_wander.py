"""Walks go where there is something to gain, and saturation is noticed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from runtime.memory.facts.gate import congruent
from runtime.memory.facts.goals import gain, wander
from runtime.memory.facts.graph import link
from runtime.memory.facts.health import saturation
from runtime.memory.facts.records import Goal, Memory, Observation, stamp
from runtime.memory.store import Shelf, open_shelf, pack

NOW = datetime(2026, 5, 4, 8, tzinfo=UTC)
DAY = timedelta(days=1)


def known(id: str, **fields: object) -> Memory:
    """A memory with nothing to gain."""
    values = {"accessed": 9, "confidence": 0.9, "last_access": stamp(NOW - DAY), **fields}
    return Memory(id=id, text=id, **values)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return open_shelf("sqlite", tmp_path, fsync=False)


def test_what_there_is_to_gain() -> None:
    assert gain(known("a"), NOW) == (0, ())
    assert gain(known("a", accessed=2), NOW)[0] == pytest.approx(0.3)
    assert gain(known("a", confidence=0.4), NOW)[0] == pytest.approx(0.2)
    assert gain(known("a", last_access=stamp(NOW - 15 * DAY)), NOW) == (0.2, ("stale",))
    wish = np.array([1, 0], np.float32)
    near = known("a", vectors={"e": pack([0.8, 0.6])})
    assert gain(near, NOW, [wish], "e") == (0.4, ("near a goal",))
    assert gain(near, NOW, [wish], "e", near=0.9) == (0, ())


def test_a_walk_is_the_same_for_the_same_seed_and_meets_nothing_twice(shelf: Shelf) -> None:
    all_of_them = [known(f"m{n}", accessed=n) for n in range(12)]
    shelf.put(*all_of_them)
    for n in range(12):
        for step in (1, 3, 5):
            link(shelf, f"m{n}", f"m{(n + step) % 12}")
    ways = [[step.memory.id for step in wander(shelf, all_of_them, NOW, seed=seed)] for seed in (1, 1, 2, 3)]
    assert ways[0] == ways[1]
    assert len({tuple(way) for way in ways}) == 3
    assert all(len(way) == len(set(way)) == 6 for way in ways)


def test_goals_draw_walks_towards_them(shelf: Shelf) -> None:
    shelf.put(*(known(f"m{n}", vectors={"e": pack([float(n == 7), float(n != 7)])}) for n in range(20)))
    for n in range(1, 20):
        link(shelf, "m0", f"m{n}")
    start = shelf.pick(Memory, ["m0"])
    goal = Goal(id="g", text="seven", vectors={"e": pack([1.0, 0.0])})

    def met(goals: list[Goal]) -> int:
        ways = (
            wander(shelf, start, NOW, seed=seed, goals=goals, embedder="e", steps=2) for seed in range(200)
        )
        return Counter(way[1].memory.id for way in ways)["m7"]

    assert met([goal]) > 150
    assert 0 < met([]) < 30


def test_what_was_superseded_is_not_met(shelf: Shelf) -> None:
    shelf.put(known("a"), known("b", superseded="c"))
    link(shelf, "a", "b")
    assert [step.memory.id for step in wander(shelf, shelf.pick(Memory, ["a"]), NOW, seed=1)] == ["a"]


def test_few_edges_and_a_borderline_score_are_not_congruent(shelf: Shelf) -> None:
    memory = known("a")
    shelf.put(memory)
    assert congruent(shelf, memory, 0.81, 0.80)
    assert not congruent(shelf, memory, 0.79, 0.80)
    link(shelf, "a", "b")
    assert not congruent(shelf, memory, 0.79, 0.80)
    link(shelf, "c", "a")
    assert congruent(shelf, memory, 0.79, 0.80)


def reflections(days_ago: float, surprises: list[float]) -> list[Observation]:
    at = stamp(NOW - timedelta(days=days_ago))
    return [
        Observation(id=f"{days_ago} {n}", text="I", said="reflection", at=at, surprise=each)
        for n, each in enumerate(surprises)
    ]


def test_saturation_is_noticed() -> None:
    before, now = reflections(20, [0.4, 0.5, 0.6]), reflections(3, [0.05] * 5)
    found = saturation([*before, *now], NOW)
    assert found.saturated
    assert found.trend == "falling"
    assert found.mean == pytest.approx(0.05)
    assert found.before == pytest.approx(0.5)


def test_too_few_reflections_or_fresh_surprise_saturate_nothing() -> None:
    assert not saturation(reflections(3, [0.05] * 4), NOW).saturated
    assert not saturation(reflections(3, [0.05, 0.05, 0.05, 0.05, 0.9]), NOW).saturated
    assert saturation(reflections(20, [0.4]), NOW).mean is None
    assert saturation([], NOW).trend == "unknown"
    both = [*reflections(20, [0.30] * 5), *reflections(3, [0.32] * 5)]
    assert saturation(both, NOW).trend == "flat"
    turns = [each.model_copy(update={"said": "turn"}) for each in reflections(3, [0.0] * 9)]
    assert saturation(turns, NOW).count == 0
