"""Which part of a task misled: branches share its outcomes, change weight, and may refuse a recall."""

from __future__ import annotations

import pytest
from growing import OTHER, STORED, decided, shelf_of, tree, words
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf
from runtime.memory.tasks import ALL
from runtime.memory.tasks.blame import changed, confidence, on_path, shares, suspect
from runtime.memory.tasks.hebbian import credited, weight
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.rewards import settle
from runtime.memory.tasks.trees import LEAST_WEIGHT, MOST_WEIGHT, NeuronTree, Synapse, short

TREE = tree()
PRICE = "Tom buys 3 boxes of apples for $7 each. How much does Tom pay in total?"
NAME = "Anna buys 3 boxes of apples for $8 each. How much does Anna pay in total?"
PRICE_AGAIN = "Tom buys 3 boxes of apples for $6 each. How much does Tom pay in total?"


def labelled_shares(of: NeuronTree, by_neuron: dict[str, float]) -> dict[str, float]:
    labels = {short(each.id): each.label for each in of.neurons}
    return {labels[child]: round(share, 2) for child, share in by_neuron.items()}


def met(shelf: Shelf, good: bool, task: str, times: int = 1) -> NeuronTree:
    for _ in range(times):
        id = f"d{sum(shelf.kinds().values())}"
        decided(shelf, id, TREE, task)
        settle(shelf, id, good, "criteria")
    found = shelf.get(NeuronTree, TREE.id)
    assert found
    return found


@pytest.mark.parametrize(
    ("task", "spans"),
    [
        (STORED, []),
        (STORED.upper(), []),
        (PRICE, ["8"]),
        (NAME, ["Tom", "Tom"]),
        (STORED.replace("boxes of apples", "apples"), ["boxes of"]),
        (STORED.replace("Tom buys", "Today Tom buys"), ["Tom"]),
        ("", [STORED]),
    ],
)
def test_what_changed_is_found_in_the_stored_task(task: str, spans: list[str]) -> None:
    assert [STORED[start:end] for start, end in changed(STORED, task)] == spans


@given(st.text(max_size=80), st.text(max_size=80))
def test_of_any_two_texts_what_changed_lies_in_the_stored_one(stored: str, task: str) -> None:
    assert all(0 <= start < end <= len(stored) for start, end in changed(stored, task))
    assert changed(stored, stored) == []


def test_an_outcome_is_shared_from_the_root_down_over_what_changed() -> None:
    found = labelled_shares(TREE, shares(TREE, PRICE))
    assert {label for label in found if "$8" not in label} == set()
    assert set(found.values()) == {1.0}  # one branch at each level
    both = shares(TREE, OTHER)
    top = {short(each.child) for each in TREE.synapses if each.parent == TREE.neurons[0].id}
    assert sum(share for child, share in both.items() if child in top) == pytest.approx(1)


def test_where_nothing_changed_all_branches_share_by_weight() -> None:
    found = shares(TREE, STORED)
    assert set(found) == {short(each.child) for each in TREE.synapses}
    root = TREE.neurons[0].id
    whole = sum(each.weight for each in TREE.synapses if each.parent == root)
    for each in TREE.synapses:
        if each.parent == root:
            assert found[short(each.child)] == pytest.approx(each.weight / whole, abs=1e-4)


def test_without_blame_all_on_the_path_have_the_whole_and_without_both_nobody_has() -> None:
    found = shares(TREE, OTHER, ALL.without("blame"))
    assert set(found) == set(map(short, on_path(TREE, changed(STORED, OTHER))))
    assert set(found.values()) == {1.0}
    assert shares(TREE, OTHER, ALL.without("blame").without("hebbian")) == {}


def test_a_right_recall_strengthens_its_path_and_a_wrong_one_weakens_it() -> None:
    with shelf_of() as shelf:
        shelf.put(TREE)
        before = {each.child: each.weight for each in TREE.synapses}
        path = on_path(TREE, changed(STORED, PRICE))
        after = {each.child: each.weight for each in met(shelf, True, PRICE).synapses}
        assert all((after[child] > before[child]) is (child in path) for child in before)
        after = {each.child: each.weight for each in met(shelf, False, PRICE, 2).synapses}
        assert all((after[child] < before[child]) is (child in path) for child in before)


def test_the_part_that_misled_is_no_longer_changed_and_the_rest_of_the_tree_serves() -> None:
    with shelf_of() as shelf:
        memory = ProceduralMemory(shelf, Lexical(), words())
        assert memory.learn(TREE.exemplar).id == TREE.id
        met(shelf, True, NAME, 5)
        found = met(shelf, False, PRICE, 2)
        assert not found.ledger.quarantined
        assert "$8" in suspect(found, PRICE_AGAIN)
        assert suspect(found, NAME) == ""
        assert confidence(found, NAME) > found.ledger.confidence > confidence(found, PRICE_AGAIN)
        assert suspect(found, PRICE_AGAIN, ALL.without("blame")) == ""
        assert confidence(found, PRICE, ALL.without("blame")) == found.ledger.confidence
        assert memory.recall(NAME).kind == "variation"
        refused = memory.recall(PRICE_AGAIN)
        assert refused.kind == "novel"
        assert "went wrong too often when this differed: " in refused.refused[0][1]
        assert ProceduralMemory(shelf, Lexical(), words(), ALL.without("blame")).recall(PRICE_AGAIN).steps


def test_a_tree_without_branches_goes_by_its_ledger() -> None:
    bare = TREE.model_copy(update={"neurons": (), "synapses": ()})
    assert shares(bare, OTHER) == {}
    assert confidence(bare, OTHER) == 0.5
    assert suspect(bare, OTHER) == ""


@given(st.floats(0, 1), st.lists(st.tuples(st.booleans(), st.floats(-1, 1), st.floats(0, 1)), max_size=40))
def test_a_weight_never_leaves_its_bounds(origin: float, moves: list[tuple[bool, float, float]]) -> None:
    synapses: tuple[Synapse, ...] = (Synapse(parent="p", child="c", weight=max(origin, LEAST_WEIGHT)),)
    for good, trust, share in moves:
        synapses = credited(synapses, {"c": share}, good, trust, hebbian=True)
        assert LEAST_WEIGHT <= synapses[0].weight <= MOST_WEIGHT
        assert synapses[0].right >= 0 and synapses[0].wrong >= 0
    assert LEAST_WEIGHT <= weight(synapses[0]) <= MOST_WEIGHT


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_what_is_taken_back_leaves_no_trace(origin: float, share: float, trust: float, good: bool) -> None:
    before = (Synapse(parent="p", child="c", weight=round(origin, 6), origin=round(origin, 6)),)
    once = credited(before, {"c": share}, good, trust, hebbian=True)
    assert credited(once, {"c": share}, good, -trust, hebbian=True) == before
