"""A mind is told and asked: what it keeps, once, and what its gate makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.errors import UsageError
from runtime.embedding.lexical import Lexical
from runtime.memory.semantic.mind import Mind
from runtime.memory.semantic.records import Links, Memory, Observation, Waiting
from runtime.store import Shelf, open_shelf

MONDAY = "2026-05-04T08:00:00.000Z"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return open_shelf("sqlite", tmp_path, fsync=False)


@pytest.fixture
def mind(shelf: Shelf) -> Mind:
    return Mind(shelf, Lexical(), clock=lambda: MONDAY)


def test_the_same_observation_again_changes_nothing(mind: Mind, shelf: Shelf) -> None:
    one = mind.observe("Anna has three cats", who="Bob", thread="talk", turn=3)
    mind.take_in()
    before = shelf.get(Observation, one.id)
    mind.observe("Anna has three cats", who="Bob", thread="talk", turn=3)
    mind.take_in()
    assert shelf.count(Observation) == 1
    assert shelf.get(Observation, one.id) == before


def test_an_observation_is_embedded_when_it_is_taken_in(mind: Mind, shelf: Shelf) -> None:
    one = mind.observe("the pump failed at noon", said="failure")
    assert one.vectors == {}
    assert shelf.count(Waiting) == 1
    assert mind.take_in() == 1
    kept = shelf.get(Observation, one.id)
    assert kept is not None and kept.route == "novel" and kept.surprise == 1.0 and kept.gate == "lexical-1"
    assert shelf.count(Waiting) == 0


def test_what_is_new_and_matters_is_a_memory_at_once(mind: Mind) -> None:
    mind.observe("the pump failed at noon", said="failure", at_once=True)
    mind.observe("well, what shall we do now", said="turn", at_once=True)
    assert [memory.text for memory in mind.memories()] == ["the pump failed at noon"]


def test_a_fact_told_twice_is_one_memory_with_both_as_evidence(mind: Mind) -> None:
    one = mind.remember("Anna lives in Paris", at="2026-01-02")
    two = mind.remember("anna lives in Paris.", at="2026-03-02")
    assert two.id == one.id
    assert len(two.evidence) == 2
    assert two.since == "2026-01-02T00:00:00.000Z"
    assert two.confidence > one.confidence


def test_an_observation_needs_words_and_a_time_that_is_one(mind: Mind) -> None:
    with pytest.raises(UsageError, match="some words"):
        mind.observe("  \n")
    with pytest.raises(UsageError, match="is no time"):
        mind.observe("Anna sings", at="soon")
    with pytest.raises(UsageError, match="too long"):
        mind.observe("a" * 10_000_000)


def test_edges_are_found_from_both_ends_however_many(mind: Mind, shelf: Shelf) -> None:
    hub = mind.remember("the hub is in Rome")
    ids = [f"m{n}" for n in range(150)]
    shelf.put(*(Memory(id=id, text=id) for id in ids))
    for id in ids:
        mind.link(hub.id, id)
        mind.link(hub.id, id)
    found = mind.edges_of([hub.id, "m7", "nobody"])
    assert sorted(edge.target for edge in found[hub.id]) == sorted(ids)
    assert [edge.source for edge in found["m7"]] == [hub.id]
    assert found["nobody"] == []
    assert all(len(links.edges) <= 64 for links in shelf.scan(Links))


def test_a_goal_is_far_until_something_like_it_is_believed(mind: Mind) -> None:
    goal = mind.set_goal("the report on penguins is finished")
    assert mind.gap(goal) == 1.0
    mind.remember("the report on penguins is finished")
    assert mind.gap(goal) < 0.05
    assert mind.set_goal("the report on penguins is finished").id == goal.id
    assert [each.id for each in mind.goals()] == [goal.id]
    mind.reached(goal.id)
    assert mind.goals() == []
    assert mind.goals(past=True)[0].reached == MONDAY
