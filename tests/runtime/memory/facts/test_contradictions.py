"""The literal same with another value supersedes what was told earlier; all else stands beside it."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.api.fractal import shipped_system
from runtime.memory.embed.lexical import Lexical
from runtime.memory.facts.mind import Mind
from runtime.memory.facts.records import Edge, Memory, Observation
from runtime.memory.store import Shelf, open_shelf

NOW = "2026-05-04T08:00:00.000Z"


def mind_on(shelf: Shelf) -> Mind:
    return Mind(shelf, Lexical(), clock=lambda: NOW, systems=(shipped_system(),))


@pytest.fixture
def mind(tmp_path: Path) -> Mind:
    return mind_on(open_shelf("sqlite", tmp_path, fsync=False))


def texts(mind: Mind) -> list[str]:
    return sorted(memory.text for memory in mind.memories())


def test_a_later_fact_supersedes_and_both_are_kept_with_their_dates(mind: Mind) -> None:
    first = mind.remember("The rent is 900 euros", at="2024-01-10")
    later = mind.remember("The rent is 950 euros", at="2025-06-02")
    assert texts(mind) == ["The rent is 950 euros"]
    past = mind.shelf.get(Memory, first.id)
    assert past is not None
    assert past.superseded == later.id
    assert past.until == "2025-06-02T00:00:00.000Z"
    assert past.text == "The rent is 900 euros"
    edges = {edge.relation: edge for edge in mind.edges_of([first.id])[first.id]}
    assert set(edges) == {"contradicts", "supersedes"}
    for edge in edges.values():
        assert (edge.source, edge.target) == (later.id, first.id)
        assert (edge.source_at[:10], edge.target_at[:10]) == ("2025-06-02", "2024-01-10")
        assert "The rent is 900 euros" in edge.text


def test_a_later_statement_about_an_earlier_time_does_not_hold(mind: Mind) -> None:
    mind.remember("The rent is 1350 dollars", at="2025-06-02")
    mind.remember("The rent is 1200 dollars", at="2024-01-10")
    assert texts(mind) == ["The rent is 1350 dollars"]
    assert len(list(mind.memories(past=True))) == 2


def test_what_was_past_may_hold_again(mind: Mind) -> None:
    first = mind.remember("The fee is 5 euros", at="2024-01-01")
    mind.remember("The fee is 8 euros", at="2024-02-01")
    again = mind.remember("The fee is 5 euros", at="2024-03-01")
    assert texts(mind) == ["The fee is 5 euros"]
    assert again.id != first.id
    assert again.since[:10] == "2024-03-01"
    assert len(list(mind.memories(past=True))) == 3


def test_a_past_statement_repeated_without_a_date_holds_from_now(mind: Mind) -> None:
    mind.remember("The fee is 5 euros", at="2024-01-01")
    mind.remember("The fee is 8 euros", at="2024-02-01")
    assert mind.remember("The fee is 5 euros").since == NOW
    assert texts(mind) == ["The fee is 5 euros"]


def test_of_two_facts_of_one_time_both_stand(mind: Mind) -> None:
    mind.remember("The fee is 5 euros", at="2024-01-01")
    mind.remember("The fee is 8 euros", at="2024-01-01")
    assert len(texts(mind)) == 2
    assert [edge.relation for edge in mind.shelf.scan(Edge)] == ["contradicts"]


def test_what_two_people_say_stands_beside_each_other(mind: Mind) -> None:
    mind.remember("The fee is 5 euros", who="Alice", at="2024-01-01")
    mind.remember("The fee is 8 euros", who="Bob", at="2024-02-01")
    assert len(texts(mind)) == 2
    mind.remember("The fee is 9 euros", who="Alice", at="2024-03-01")
    assert texts(mind) == ["The fee is 8 euros", "The fee is 9 euros"]


def test_words_of_change_and_opposites_close_nothing(mind: Mind) -> None:
    for earlier, later in (
        ("Anna lives in Paris", "Anna moved to Berlin"),
        ("The office is open", "The office is closed"),
        ("We host at Hetzner", "We left Hetzner for Scaleway"),
        ("I like coffee", "I no longer drink coffee"),
    ):
        mind.remember(earlier, at="2024-01-01")
        mind.remember(later, at="2024-02-01")
    assert len(texts(mind)) == 8
    assert not [edge for edge in mind.shelf.scan(Edge) if edge.relation in ("contradicts", "supersedes")]


def test_two_people_who_say_i_do_not_contradict_each_other(mind: Mind) -> None:
    mind.remember("I live in Hamburg", who="Alice", at="2024-01-01")
    mind.remember("I live in Munich", who="Bob", at="2024-02-01")
    assert len(texts(mind)) == 2
    assert not [edge for edge in mind.shelf.scan(Edge) if edge.relation == "contradicts"]


def test_a_fact_that_an_observation_tells_supersedes_without_a_dream(mind: Mind) -> None:
    mind.remember("The port of the proxy is 8080", at="2024-01-01")
    mind.observe("The port of the proxy is 8443", said="fact", at="2024-02-01", at_once=True)
    assert texts(mind) == ["The port of the proxy is 8443"]


def test_settling_again_changes_nothing(mind: Mind) -> None:
    one = mind.remember("The fee is 5 euros", at="2024-01-01")
    other = mind.remember("The fee is 8 euros", at="2024-02-01")
    before = sorted(row.body for kind in ("memory", "edge", "links") for row in mind.shelf.rows(kind))
    mind.settle(one.id, other.id, "again")
    mind.settle(other.id, one.id, "again")
    assert sorted(row.body for kind in ("memory", "edge", "links") for row in mind.shelf.rows(kind)) == before


FEES = st.sampled_from(["5", "8", "9"])
WHO = st.sampled_from(["Anna", "Omar"])
DAY = st.integers(1, 28).map(lambda day: f"2024-02-{day:02}")


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(WHO, FEES, DAY), min_size=1, max_size=10))
def test_in_any_order_of_statements_one_fee_of_each_holds_and_nothing_is_lost(
    statements: list[tuple[str, str, str]],
) -> None:
    mind = mind_on(open_shelf("memory", Path()))
    for who, fee, day in statements:
        mind.remember(f"The fee of {who} is {fee} euros", at=day)
    every = list(mind.memories(past=True))
    holding = [memory for memory in every if not memory.superseded]
    for who in {who for who, _, _ in statements}:
        mine = [memory for memory in holding if who in memory.text]
        last = max(day for each, _, day in statements if each == who)
        fees = {fee for each, fee, day in statements if each == who and day == last}
        assert {memory.text.split()[-2] for memory in mine} == fees
        assert len(mine) == len(fees)
    evidence = [id for memory in every for id in memory.evidence]
    assert sorted(evidence) == sorted(each.id for each in mind.shelf.scan(Observation))
    known = {memory.id: memory for memory in every}
    for memory in every:
        assert bool(memory.superseded) == bool(memory.until)
        assert not memory.superseded or memory.superseded in known


def test_two_at_once_make_one_memory(tmp_path: Path) -> None:
    facts = [f"Room {n} has {n + 3} windows" for n in range(12)]
    minds = [mind_on(open_shelf("sqlite", tmp_path, fsync=False)) for _ in range(2)]
    threads = [Thread(target=lambda mind=mind: [mind.remember(fact) for fact in facts]) for mind in minds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts(minds[0]) == sorted(facts)
    assert all(len(memory.evidence) == 1 for memory in minds[0].memories())
