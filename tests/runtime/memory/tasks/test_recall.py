"""Recall over our families of tasks: what it answers, that answers are right, and that no trap works."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from growing import OTHER, STORED, shelf_of, solved, words

from bench.families import read_families
from bench.variations import play
from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.fingerprint import shape
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.recall import Outline, ProceduralMemory, Recall
from runtime.memory.tasks.trees import NeuronTree

FAMILIES = Path(__file__).with_name("families.jsonl")
PLAIN = ALL.without("fingerprints")


def memory(*tasks: tuple[str, ...], parts: Parts = ALL, shelf: Shelf | None = None) -> ProceduralMemory:
    made = ProceduralMemory(shelf or open_shelf("memory", Path()), Lexical(), words(), parts)
    for task, *expressions in tasks:
        made.learn(solved(task, *expressions))
    return made


def expressions(found: Recall) -> list[Any]:
    return [step["args"]["expression"] for step in found.steps]


@pytest.mark.parametrize("two", [False, True])
def test_families_are_answered_rightly_and_no_trap_is(two: bool) -> None:
    wrong: list[str] = []
    figures = play(
        read_families(FAMILIES),
        words(),
        Lexical(),
        two=two,
        observe=lambda question, found: (
            wrong.append(question.text) if question.answer is None and found.tree else None
        ),
    )
    assert wrong == []
    assert figures["false_replay"] == 0
    assert figures["right_of_answered"] == 1
    assert figures["answered"] >= 0.8
    kinds = figures["by_kind"]
    assert min(kinds[kind]["answered"] for kind in ("numbers", "format", "names")) >= 0.85


def test_without_fingerprints_the_nearest_by_meaning_are_compared() -> None:
    one, other = (play(read_families(FAMILIES), words(), Lexical(), parts=parts) for parts in (ALL, PLAIN))
    assert one["answered"] >= other["answered"] - 0.01
    assert other["false_replay"] == 0


def test_a_variation_is_nearest_to_its_own_task_by_shape() -> None:
    chosen = read_families(FAMILIES)

    def vector(text: str) -> Any:
        return shape(Reading.read(text, words()), words())

    stored = [vector(each.question) for each in chosen]
    places = Counter[bool]()
    for at, family in enumerate(chosen):
        for question in family.variations:
            likeness = [float(each @ vector(question.text)) for each in stored]
            places[max(range(len(likeness)), key=likeness.__getitem__) == at] += 1
    assert places[False] <= places.total() // 50


# ---- what a recall reports -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite"])
@pytest.mark.parametrize("parts", [ALL, PLAIN])
def test_a_recall_reports_what_it_used_and_how_long_it_took(kind: str, parts: Parts) -> None:
    with shelf_of(kind) as shelf:
        made = memory((STORED, "3*8"), parts=parts, shelf=shelf)
        found = made.recall(OTHER)
        assert (found.kind, expressions(found), found.candidates) == ("variation", ["5*9"], 1)
        assert found.changed == (("3", "5"), ("$ 8", "$ 9"))
        assert set(found.ms) == {"embed", "find", "align", "bind"}
        assert made.recall(STORED).kind == "exact"
        assert made.recall("What is the weather?").kind == "novel"


def test_a_refusal_gives_its_reason() -> None:
    made = memory((STORED, "3*8"))
    found = made.recall(STORED.replace("buys", "sells"))
    assert found.kind == "novel" and found.tree is None
    assert [why for _, why in found.refused] == ["no counterpart for 'sells'"]
    fewer = made.recall(STORED.replace(" for $8 each", ""))
    assert [why for _, why in fewer.refused] in (["it has values of other kinds"], [])


def test_a_tree_that_is_gone_is_not_recalled() -> None:
    with shelf_of() as shelf:
        made = memory((STORED, "3*8"), shelf=shelf)
        (id,) = made.candidates(OTHER)
        shelf.delete(NeuronTree, id)
        assert made.recall(OTHER).kind == "novel"
        assert shelf.get(Outline, id) is not None


def test_merged_trees_leave_no_outline() -> None:
    with shelf_of() as shelf:
        made = memory((STORED, "3*8"), (OTHER, "5*9"), shelf=shelf)
        assert {each.id for each in shelf.scan(Outline)} == {each.id for each in shelf.scan(NeuronTree)}
        assert expressions(made.recall(OTHER.replace("5", "7"))) == ["7*9"]


# ---- two exemplars ---------------------------------------------------------------------------------------

EQUAL = "A pot holds 4 liters and a cup holds 4 deciliters. How many liters are 7 pots and a cup?"
OF_EQUAL = ("7*4", "{{ steps[1].result }}+4/10")
SECOND = "A pot holds 6 liters and a cup holds 3 deciliters. How many liters are 2 pots and a cup?"
OF_SECOND = ("2*6", "{{ steps[1].result }}+3/10")
THIRD = "A pot holds 8 liters and a cup holds 5 deciliters. How many liters are 9 pots and a cup?"
OF_THIRD = ["9*8", "{{ steps[1].result }}+5/10"]


def test_a_second_exemplar_tells_equal_numbers_apart() -> None:
    alone = memory((EQUAL, *OF_EQUAL))
    assert alone.recall(THIRD).kind == "novel"
    both = memory((EQUAL, *OF_EQUAL), (SECOND, *OF_SECOND))
    assert expressions(both.recall(THIRD)) == OF_THIRD


FIGS = "Ann eats {} figs a day and Bo eats {} figs a day. How many figs are {} days?"


def test_equal_numbers_that_come_to_the_same_either_way_need_no_second_exemplar() -> None:
    made = memory((FIGS.format(2, 2, 9), "2+2", "{{ steps[1].result }}*9"))
    assert expressions(made.recall(FIGS.format(3, 5, 4))) == ["3+5", "{{ steps[1].result }}*4"]


def test_a_result_that_a_later_step_holds_as_a_number_is_refused() -> None:
    made = memory((FIGS.format(2, 3, 9), "2+3", "5*9"))
    assert made.recall(FIGS.format(2, 3, 9)).kind == "exact"
    assert [why for _, why in made.recall(FIGS.format(3, 4, 9)).refused] == [
        "5 in the steps has no known origin"
    ]


def test_a_number_that_a_word_tells_as_well_is_left_alone_until_a_second_exemplar_tells() -> None:
    weeks = "Lou reads 7 pages a day. How many pages does Lou read in a week and 7 pages more?"
    other = "Lou reads 5 pages a day. How many pages does Lou read in a week and 3 pages more?"
    third = "Lou reads 9 pages a day. How many pages does Lou read in a week and 2 pages more?"
    alone = memory((weeks, "7*7", "{{ steps[1].result }}+7"))
    assert alone.recall(third).kind == "novel"
    both = memory((weeks, "7*7", "{{ steps[1].result }}+7"), (other, "5*7", "{{ steps[1].result }}+3"))
    assert expressions(both.recall(third)) == ["9*7", "{{ steps[1].result }}+2"]


def test_a_number_that_no_step_uses_may_differ_once_a_second_exemplar_shows_it() -> None:
    def task(age: int, figs: int) -> str:
        return (
            f"Ann is {age} years old and has {figs} figs. She eats half of them. How many figs does she eat?"
        )

    alone = memory((task(9, 8), "8/2"))
    assert alone.recall(task(11, 6)).kind == "novel"
    both = memory((task(9, 8), "8/2"), (task(7, 4), "4/2"))
    assert expressions(both.recall(task(11, 6))) == ["6/2"]


def test_two_solutions_that_come_to_the_same_are_one() -> None:
    made = memory((STORED, "3*8"), (STORED, "8*3"))
    assert made.recall(OTHER).kind == "variation"
    made = memory((STORED, "3*8"), (STORED, "3+8"))
    assert made.recall(OTHER).kind == "novel"
