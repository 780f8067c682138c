"""What a mind keeps of its observations, and how its gate routes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kernel.errors import UsageError
from runtime.memory.embed.embedder import Array
from runtime.memory.embed.lexical import Lexical
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Links, Memory, Observation, Waiting
from runtime.memory.store import Shelf, open_shelf

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


def test_a_fact_stated_twice_is_one_memory_with_both_as_evidence(mind: Mind) -> None:
    one = mind.remember("Anna lives in Paris", at="2026-01-02")
    two = mind.remember("anna lives in Paris.", at="2026-03-02")
    assert two.id == one.id
    assert len(two.evidence) == 2
    assert two.since == "2026-01-02T00:00:00.000Z"
    assert two.confidence > one.confidence


LONG = "9" * 5000  # Python reads no such number
ODD = [
    "\ud800 lives in Paris",
    "a\0b",
    "’s",
    "1/0",
    "—",
    "\U0001f600" * 50,
    LONG,
    f"$3 {LONG}/2",
    f"1/{LONG}",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_are_kept_as_they_are(mind: Mind, text: str) -> None:
    mind.observe(text, at_once=True)
    memory = mind.remember(text)
    assert memory.text == text
    assert mind.remember(text).id == memory.id
    assert mind.wander(seed=1, about=text)


def test_fields_that_are_none_are_refused(mind: Mind) -> None:
    for wrong in ({"said": "rumour"}, {"salience": 7}, {"turn": "third"}, {"at": "0000-00-00"}):
        with pytest.raises(UsageError):
            mind.observe("Anna sings", **wrong)
    assert mind.shelf.count(Observation) == 0


class Failing(Lexical):
    """A lexical embedder that fails after 70 vectors."""

    left = 70

    def embed(self, texts: Sequence[str]) -> Array:
        self.left -= len(texts)
        if self.left < 0:
            raise RuntimeError("out of memory")
        return super().embed(texts)


def test_what_was_interrupted_waits_and_is_taken_in_next_time(shelf: Shelf) -> None:
    failing = Mind(shelf, Failing(), clock=lambda: MONDAY)
    failing.keep(failing.noting(f"turn {n} of the talk", thread="talk", turn=n) for n in range(100))
    with pytest.raises(RuntimeError):
        failing.take_in()
    assert shelf.count(Waiting) == 36
    assert Mind(shelf, Lexical(), clock=lambda: MONDAY).take_in() == 36
    assert shelf.count(Observation) == 100
    assert all(each.route and each.vector("lexical-1") is not None for each in shelf.scan(Observation))


class Other(Lexical):
    """A second embedder with its own vectors."""

    name = "other-1"


def test_another_embedder_makes_vectors_of_its_own_and_compares_none_across(shelf: Shelf) -> None:
    Mind(shelf, Lexical(), clock=lambda: MONDAY).remember("Anna lives in Paris")
    mind = Mind(shelf, Other(), clock=lambda: MONDAY)
    mind.take_in()
    (memory,) = mind.memories()
    assert set(memory.vectors) == {"lexical-1", "other-1"}
    found = mind.route(mind.noting("anna lives in paris"))
    assert (found.route, found.memory) == ("merge", memory.id)


def test_agents_know_nothing_of_each_other(shelf: Shelf) -> None:
    one, other = (Mind(shelf, Lexical(), agent=name, clock=lambda: MONDAY) for name in ("one", "other"))
    one.remember("The code of the door is 4711")
    other.remember("The code of the door is 8112")
    assert [memory.text for memory in one.memories()] == ["The code of the door is 4711"]
    assert [memory.text for memory in other.memories()] == ["The code of the door is 8112"]


def test_use_and_words_on_a_memory_are_kept(mind: Mind) -> None:
    memory = mind.remember("Anna lives in Paris")
    mind.used({memory.id: (0.8, 1), "nobody": (1.0, 0)})
    (used,) = mind.memories()
    assert (used.accessed, used.last_access, used.last_score, used.last_hop) == (1, MONDAY, 0.8, 1)
    assert mind.feedback(memory.id, False).confidence == pytest.approx(memory.confidence - 0.1)
    with pytest.raises(UsageError, match="no memory nobody"):
        mind.feedback("nobody", True)


def test_an_observation_needs_words_and_a_time_that_is_one(mind: Mind) -> None:
    with pytest.raises(UsageError, match="some words"):
        mind.observe("  \n")
    with pytest.raises(UsageError, match="is not a time"):
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
    assert mind.gap(goal) is None
    mind.remember("the report on penguins is not finished")
    assert mind.gap(goal) == 1.0
    mind.remember("the report on penguins is finished", at="2026-06-01")
    assert mind.gap(goal) == 0.0
    assert mind.set_goal("the report on penguins is finished").id == goal.id
    assert [each.id for each in mind.goals()] == [goal.id]
    mind.reached(goal.id)
    assert mind.goals() == []
    assert mind.goals(past=True)[0].reached == MONDAY
