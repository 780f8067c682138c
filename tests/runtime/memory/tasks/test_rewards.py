"""Outcomes of decisions: counted once in any order of sources, and taken back when they no longer hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from growing import OTHER, STORED, decided, shelf_of, solved, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.memory.store import Shelf
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.binding import deed
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.ledger import Ledger
from runtime.memory.tasks.rewards import RELIABILITY, release, settle
from runtime.memory.tasks.trees import LEAST_WEIGHT, MOST_WEIGHT, NeuronTree

TREE = tree()
SOURCES = sorted(RELIABILITY)
SAID = st.lists(
    st.tuples(st.sampled_from(SOURCES), st.booleans()), max_size=8, unique_by=lambda each: each[0]
)


@pytest.fixture(params=["memory", "sqlite", "files"])
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    with shelf_of(request.param) as opened:
        opened.put(TREE)
        yield opened


def ledger(shelf: Shelf, of: NeuronTree = TREE) -> Ledger:
    found = shelf.get(NeuronTree, of.id)
    assert found
    return found.ledger


def state(shelf: Shelf) -> Any:
    found = shelf.get(NeuronTree, TREE.id)
    assert found
    return found.ledger, found.synapses, {each.id: each.outcome for each in shelf.scan(Decision)}


def test_an_outcome_goes_into_the_record_and_the_ledger(shelf: Shelf) -> None:
    decided(shelf, "d", TREE)
    made = settle(shelf, "d", True, "criteria")
    assert made and (made.outcome, made.source, made.surprise) == (True, "criteria", 0.5)
    assert shelf.get(Decision, "d") == made
    assert (ledger(shelf).uses, ledger(shelf).correct, ledger(shelf).incorrect) == (1, 1, 0)
    assert ledger(shelf).confidence == pytest.approx(2 / 3)


def test_a_word_of_less_trust_counts_for_less(shelf: Shelf) -> None:
    decided(shelf, "d", TREE)
    settle(shelf, "d", False, "check")
    assert (ledger(shelf).uses, ledger(shelf).incorrect) == (1, 0.6)
    decided(shelf, "e", TREE)
    settle(shelf, "e", False, "escalation")
    assert ledger(shelf).incorrect == 0.9


def test_the_same_source_counts_once(shelf: Shelf) -> None:
    decided(shelf, "d", TREE)
    settle(shelf, "d", True, "criteria")
    once = state(shelf)
    settle(shelf, "d", True, "criteria")
    assert state(shelf) == once


def test_a_persons_word_takes_back_what_the_machine_said(shelf: Shelf) -> None:
    decided(shelf, "d", TREE)
    settle(shelf, "d", True, "criteria")
    made = settle(shelf, "d", False, "person")
    assert made and (made.outcome, made.source, made.surprise) == (False, "person", 0.5)
    assert (ledger(shelf).uses, ledger(shelf).correct, ledger(shelf).incorrect) == (1, 0, 1)
    again = settle(shelf, "d", True, "criteria")
    assert again and again.outcome is False
    settle(shelf, "d", True, "person")  # who changes their mind
    assert (ledger(shelf).uses, ledger(shelf).correct, ledger(shelf).incorrect) == (1, 1, 0)


def test_a_decision_that_is_not_there_is_none(shelf: Shelf) -> None:
    assert settle(shelf, "nowhere", True, "person") is None
    decided(shelf, "d", TREE.model_copy(update={"id": "gone"}))
    made = settle(shelf, "d", True, "person")
    assert made and made.outcome is True


def test_how_a_tree_came_about_is_no_use_of_it_until_a_person_speaks(shelf: Shelf) -> None:
    decided(shelf, "d", TREE, STORED, path="novel", predicted=0.0)
    made = settle(shelf, "d", True, "criteria")
    assert made and made.surprise is None
    assert ledger(shelf) == Ledger()
    decided(shelf, "direct", TREE.model_copy(update={"id": ""}), path="direct", predicted=0.0)
    made = settle(shelf, "direct", True, "criteria")
    assert made and made.outcome and made.surprise is None
    settle(shelf, "d", False, "person")
    assert (ledger(shelf).uses, ledger(shelf).incorrect) == (1, 1)
    settle(shelf, "d", True, "person")
    assert (ledger(shelf).correct, ledger(shelf).incorrect) == (1, 0)


# ---- quarantine ------------------------------------------------------------------------------------------


def fail(shelf: Shelf, times: int, first: int = 0) -> None:
    for n in range(first, first + times):
        decided(shelf, f"bad{n}", TREE)
        settle(shelf, f"bad{n}", False, "criteria")


def test_two_refusals_put_a_tree_in_quarantine_and_one_does_not(shelf: Shelf) -> None:
    fail(shelf, 1)
    assert not ledger(shelf).quarantined
    fail(shelf, 1, first=1)
    assert ledger(shelf).quarantined


def test_a_success_among_them_keeps_a_tree_out_until_more_than_six_in_ten_fail(shelf: Shelf) -> None:
    decided(shelf, "good", TREE)
    settle(shelf, "good", True, "criteria")
    fail(shelf, 1)
    assert not ledger(shelf).quarantined
    fail(shelf, 1, first=1)
    assert ledger(shelf).quarantined


@pytest.mark.parametrize(("source", "out"), [("person", True), ("criteria", True), ("check", False)])
def test_a_persons_word_or_a_verified_success_releases_and_an_opinion_does_not(
    shelf: Shelf, source: str, out: bool
) -> None:
    fail(shelf, 5)
    decided(shelf, "good", TREE)
    settle(shelf, "good", True, source)
    assert ledger(shelf).quarantined is not out
    assert ledger(shelf).incorrect == 5  # nothing is forgotten
    fail(shelf, 2, first=5)
    assert ledger(shelf).quarantined  # a release is no pardon for ever


def test_a_release_that_is_taken_back_never_was(shelf: Shelf) -> None:
    fail(shelf, 5)
    decided(shelf, "good", TREE)
    settle(shelf, "good", True, "criteria")
    settle(shelf, "good", False, "person")
    assert ledger(shelf).quarantined
    assert ledger(shelf) == Ledger(uses=6, incorrect=6)


def test_a_person_may_release_a_tree_by_itself(shelf: Shelf) -> None:
    fail(shelf, 2)
    release(shelf, TREE.id)
    assert not ledger(shelf).quarantined
    assert release(shelf, "nowhere") is None


# ---- what others would have done -------------------------------------------------------------------------


def test_what_solved_a_task_tells_which_of_the_rivals_was_right(shelf: Shelf) -> None:
    right, poison = tree(STORED, "3*8"), tree(STORED, "3+8")
    taught = tree(OTHER, "5*9")
    shelf.put(right, poison, taught)
    rivals = {right.id: deed(solved(OTHER, "5*9").steps), poison.id: deed(solved(OTHER, "5+9").steps)}
    decided(shelf, "d", taught, path="novel", rivals=rivals)
    settle(shelf, "d", True, "criteria")
    assert (ledger(shelf, right).correct, ledger(shelf, right).incorrect) == (1, 0)
    assert (ledger(shelf, poison).correct, ledger(shelf, poison).incorrect) == (0, 1)
    settle(shelf, "d", False, "person")  # then nobody knows
    assert ledger(shelf, right) == ledger(shelf, poison) == Ledger()


# ---- surprise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicted", "good", "expected"),
    [(0.9, False, [0.9]), (0.9, True, []), (0.1, True, [0.9]), (0.7, True, []), (0.69, True, [0.31])],
)
def test_a_surprise_reaches_the_problem_type_once(
    shelf: Shelf, predicted: float, good: bool, expected: list[float]
) -> None:
    surprises: list[float] = []

    def moved(type: str, vectors: Mapping[str, bytes], surprise: float) -> None:
        assert type == "t" and vectors == TREE.vectors
        surprises.append(surprise)

    decided(shelf, "d", TREE, type="t", predicted=predicted)
    settle(shelf, "d", good, "criteria", moved=moved)
    settle(shelf, "d", good, "criteria", moved=moved)
    settle(shelf, "d", good, "check", moved=moved)
    assert surprises == pytest.approx(expected)
    decided(shelf, "e", TREE, type="t", predicted=predicted)
    settle(shelf, "e", good, "criteria", parts=ALL.without("surprise"), moved=moved)
    assert surprises == pytest.approx(expected)


# ---- of all orders ---------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(SOURCES), st.booleans()),
    max_size=14,
    unique_by=lambda each: each[:2],
)
TASKS = {
    "a": OTHER,
    "b": STORED,
    "c": "Tom buys 3 crates of apples for $8 each. How much does Tom pay in total?",
    "d": "Anna buys 3 boxes of apples for $7 each. How much does Anna pay in total?",
}


def played(steps: list[tuple[str, str, bool]], parts: Parts = ALL) -> Any:
    with shelf_of() as shelf:
        shelf.put(TREE)
        for id, task in TASKS.items():
            decided(shelf, id, TREE, task)
        for id, source, good in steps:
            settle(shelf, id, good, source, parts=parts)
        return state(shelf)


@settings(deadline=None, max_examples=examples(60))
@given(SAID, st.randoms(use_true_random=False), st.integers(0, 4))
def test_the_order_in_which_sources_speak_of_a_decision_changes_nothing(
    outcomes: list[tuple[str, bool]], random: Any, before: int
) -> None:
    def state_after(order: list[tuple[str, bool]]) -> Any:
        with shelf_of() as shelf:
            shelf.put(TREE)
            fail(shelf, before)
            decided(shelf, "d", TREE)
            for source, good in order:
                settle(shelf, "d", good, source)
            return state(shelf)

    shuffled = list(outcomes)
    random.shuffle(shuffled)
    assert state_after(outcomes) == state_after(shuffled)


@settings(deadline=None, max_examples=examples(60))
@given(STEPS, st.randoms(use_true_random=False))
def test_ledgers_do_not_depend_on_the_order_of_decisions(
    steps: list[tuple[str, str, bool]], random: Any
) -> None:
    other = list(steps)
    random.shuffle(other)
    (one, _, outcomes), (two, _, others) = played(steps), played(other)
    assert (one.uses, one.correct, one.incorrect) == (two.uses, two.correct, two.incorrect)
    assert outcomes == others


@settings(deadline=None, max_examples=examples(60))
@given(STEPS, st.sampled_from([ALL, ALL.without("blame"), ALL.without("hebbian")]))
def test_ledgers_and_weights_stay_within_their_bounds(
    steps: list[tuple[str, str, bool]], parts: Parts
) -> None:
    found, synapses, _ = played(steps * 3, parts)
    assert found.uses == len({id for id, _, _ in steps})
    assert 0 <= found.correct + found.incorrect <= found.uses
    assert 0 < found.confidence < 1
    assert all(LEAST_WEIGHT <= each.weight <= MOST_WEIGHT for each in synapses)
    assert all(each.right >= 0 and each.wrong >= 0 for each in synapses)
    if not parts.hebbian:
        assert [each.weight for each in synapses] == [each.weight for each in TREE.synapses]


@settings(deadline=None, max_examples=examples(60))
@given(STEPS)
def test_a_person_who_speaks_of_everything_leaves_no_trace_of_the_machines(
    steps: list[tuple[str, str, bool]],
) -> None:
    machines = [each for each in steps if each[1] != "person"]
    person = [(id, "person", True) for id in sorted({id for id, _, _ in steps})]
    mixed, plain = played([*machines, *person])[0], played(person)[0]
    assert (mixed.uses, mixed.correct, mixed.incorrect) == (plain.uses, plain.correct, plain.incorrect)
    assert not mixed.quarantined


def stands(shelf: Shelf) -> tuple[str, int]:
    found = shelf.get(NeuronTree, TREE.id)
    assert found
    return found.stands.stage, found.stands.waits


def test_a_failure_demotes_a_tree_and_it_has_to_wait_before_it_rises_again(shelf: Shelf) -> None:
    sure = TREE.model_copy(update={"ledger": Ledger(uses=60, correct=60)})
    shelf.put(sure)
    assert stands(shelf) == ("cerebellum", 0), "what had no standing stands where its ledger puts it"
    decided(shelf, "bad", sure)
    settle(shelf, "bad", False, "criteria")
    assert ledger(shelf).correct / 61 > 0.9 and stands(shelf) == ("neocortex", 10)
    settle(shelf, "bad", False, "criteria")
    settle(shelf, "bad", False, "check")
    assert stands(shelf) == ("neocortex", 10), "one decision demotes once"
    for number in range(10):
        assert stands(shelf)[0] == "neocortex"
        decided(shelf, f"good-{number}", sure)
        settle(shelf, f"good-{number}", True, "criteria")
    assert stands(shelf) == ("cerebellum", 0)
