"""Two trees that are one procedure become one; two that would do different things never do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from growing import OTHER, STORED, decided, shelf_of, solved, tree, words
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, pack
from runtime.memory.tasks import ALL
from runtime.memory.tasks.ledger import Ledger
from runtime.memory.tasks.merging import Alias, absorb, alike, merged, subsumes, tree_by
from runtime.memory.tasks.recall import ProceduralMemory
from runtime.memory.tasks.rewards import settle
from runtime.memory.tasks.trees import NeuronTree

SPACED = STORED.replace(" in total?", "  in total ?")
"""The same task, written otherwise: the same vector, another identity."""


@pytest.fixture(params=["memory", "sqlite"])
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    with shelf_of(request.param) as opened:
        yield opened


def remembering(shelf: Shelf, off: str = "") -> ProceduralMemory:
    return ProceduralMemory(shelf, Lexical(), words(), ALL.without(off) if off else ALL)


def test_the_same_procedure_for_the_same_task_becomes_one_tree(shelf: Shelf) -> None:
    memory = remembering(shelf)
    first = memory.learn(solved(STORED))
    second = memory.learn(solved(SPACED))
    assert second.id == first.id
    assert shelf.count(NeuronTree) == 1
    assert second.neurons[0].strength == first.neurons[0].strength + 1
    gone = tree(SPACED)
    assert tree_by(shelf, gone.id) == second
    assert shelf.get(Alias, gone.id) == Alias(id=gone.id, into=first.id)
    again = memory.learn(solved(SPACED))
    assert (again.id, shelf.count(NeuronTree)) == (first.id, 1)
    assert remembering(shelf).recall(OTHER).steps[0]["args"] == {"expression": "5*9"}


def test_what_is_said_of_a_tree_that_was_merged_goes_to_the_one_that_holds_it(shelf: Shelf) -> None:
    memory = remembering(shelf)
    memory.learn(solved(STORED))
    gone = tree(SPACED)
    memory.learn(solved(SPACED))
    decided(shelf, "d", gone)
    settle(shelf, "d", True, "person")
    held = tree_by(shelf, gone.id)
    assert held and held.ledger.correct == 1


def test_other_steps_for_the_same_task_are_never_merged(shelf: Shelf) -> None:
    memory = remembering(shelf)
    memory.learn(solved(STORED, "3*8"))
    memory.learn(solved(SPACED, "3+8"))
    assert shelf.count(NeuronTree) == 2
    assert alike(*shelf.scan(NeuronTree))


def test_what_solves_a_task_anew_does_not_go_into_quarantine_with_another(shelf: Shelf) -> None:
    memory = remembering(shelf)
    shut = memory.learn(solved(STORED))
    shelf.put(shut.model_copy(update={"ledger": Ledger(uses=2, incorrect=2)}))
    memory.learn(solved(SPACED))
    assert shelf.count(NeuronTree) == 2
    assert memory.recall(OTHER).kind == "variation"


def test_switched_off_it_merges_nothing(shelf: Shelf) -> None:
    memory = remembering(shelf, "merging")
    memory.learn(solved(STORED))
    memory.learn(solved(SPACED))
    assert shelf.count(NeuronTree) == 2


@pytest.mark.parametrize(
    ("task", "steps", "one"),
    [
        (OTHER, "5*9", True),
        (OTHER, "5+9", False),
        (OTHER, "9*5", False),  # perhaps as good, and not the same
        (STORED.replace("apples", "pears"), "3*8", False),  # who knows what else it fits
        (STORED.replace("buys", "sells"), "3*8", False),
        (STORED.replace("$8", "$3"), "3*3", True),  # three and three could not tell 5 from 9: it may go
    ],
)
def test_a_procedure_takes_in_what_differs_in_values_alone(task: str, steps: str, one: bool) -> None:
    assert subsumes(solved(STORED), solved(task, steps), words()) is one


def test_what_could_not_tell_two_values_apart_takes_in_nothing_that_can() -> None:
    vague = solved(STORED.replace("$8", "$3"), "3*3")
    assert not subsumes(vague, solved(STORED), words())


def test_another_output_or_criterion_is_another_procedure() -> None:
    other = solved(OTHER, "5*9")
    assert not subsumes(solved(STORED), other.model_copy(update={"output": "45"}), words())
    criterion = ({"file": "a.txt", "has": "45"},)
    assert not subsumes(solved(STORED), other.model_copy(update={"success": criterion}), words())


def test_vectors_are_weighted_by_strength_and_ledgers_added() -> None:
    first, second = tree(STORED), tree(SPACED)
    strong = tuple(each.model_copy(update={"strength": 3}) for each in first.neurons)
    one = first.model_copy(
        update={"neurons": strong, "vectors": {"m": pack([1.0, 0.0])}, "ledger": Ledger(uses=3, correct=3)}
    )
    two = second.model_copy(
        update={"vectors": {"m": pack([0.0, 1.0]), "n": pack([1.0])}, "ledger": Ledger(uses=2, incorrect=0.6)}
    )
    made = merged(one, two)
    vector = made.vector("m")
    assert vector is not None
    assert np.allclose(vector, np.array([3, 1]) / np.sqrt(10))
    assert set(made.vectors) == {"m", "n"}
    assert made.ledger == Ledger(uses=5, correct=3, incorrect=0.6)
    assert made.neurons[0].strength == 4


def test_an_alias_that_leads_nowhere_is_none(shelf: Shelf) -> None:
    shelf.put(Alias(id="a", into="b"), Alias(id="b", into="a"))
    assert tree_by(shelf, "a") is None
    assert tree_by(shelf, "") is None


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(2, 6), st.integers(2, 6), st.sampled_from("*+")), min_size=2, max_size=5)
)
def test_however_much_is_merged_every_stored_task_is_still_done_as_it_was(
    stored: list[tuple[int, int, str]],
) -> None:
    with shelf_of() as shelf:
        kept: list[NeuronTree] = []
        for a, b, sign in stored:
            task = STORED.replace("3", str(a)).replace("$8", f"${b}")
            each = tree(task, f"{a}{sign}{b}")
            shelf.put(each)
            same = each.model_copy(update={"vectors": {"m": pack([1.0, 0.0])}})  # alike to every other
            held = absorb(shelf, same, kept, words())
            kept = [held, *(one for one in kept if one.id != held.id)]
        for a, b, sign in stored:
            task = STORED.replace("3", str(a)).replace("$8", f"${b}")
            assert any(
                subsumes(each.exemplar, solved(task, f"{a}{sign}{b}"), words())
                or each.exemplar == solved(task, f"{a}{sign}{b}")
                for each in kept
            )
        if {sign for _, _, sign in stored} == {"*", "+"}:
            assert len(kept) >= 2
