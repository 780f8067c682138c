"""Two problem types that became alike are joined; others, and those that a person named, are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks.mitosis import fuse, split
from runtime.memory.tasks.types import Lesson, ProblemType, Types

AT = "2026-11-20T03:00:00Z"
PAINT = [f"how many litres of paint do {n} walls of a hall need" for n in (3, 4, 5, 6)]
WALLS = [f"how many litres of paint do {n} walls of a room need" for n in (7, 8, 9, 11)]
TRAINS = [f"when does the train from {town} arrive" for town in ("Bern", "Basel", "Genf", "Chur")]


@pytest.fixture
def shelf() -> Shelf:
    return open_shelf("memory", Path())


def learned(shelf: Shelf, kinds: dict[str, Sequence[str]], explicit: Sequence[str] = ()) -> Types:
    types = Types(shelf, Lexical())
    types.learn_all([Lesson(task, type=id) for id, tasks in kinds.items() for task in tasks], AT)
    shelf.put(
        *(
            each.model_copy(update={"origin": "emergent"})
            for each in shelf.scan(ProblemType)
            if each.id not in explicit
        )
    )
    return types


def test_what_grew_together_is_one_type_and_both_are_recognised_as_it(shelf: Shelf) -> None:
    learned(shelf, {"paint": PAINT, "walls": WALLS[:3], "trains": TRAINS})
    (fused,) = fuse(shelf, Lexical.name, AT)
    assert (fused.kept, fused.gone, fused.members) == ("paint", "walls", 7)
    types = Types(shelf, Lexical())
    assert {types.recognise(task).type for task in (*PAINT, *WALLS)} == {"paint"}
    assert types.recognise(TRAINS[0]).type == "trains"
    assert fuse(shelf, Lexical.name, AT) == []
    assert split(shelf, Lexical.name, {"paint": 10_000}, AT) == [], "what is joined is not split again"


def test_a_name_that_a_person_gave_stays_and_two_of_them_are_never_joined(shelf: Shelf) -> None:
    learned(shelf, {"paint": PAINT, "walls": WALLS[:3]}, explicit=("walls",))
    assert [(each.kept, each.gone) for each in fuse(shelf, Lexical.name, AT)] == [("walls", "paint")]
    other = open_shelf("memory", Path())
    learned(other, {"paint": PAINT, "walls": WALLS}, explicit=("walls", "paint"))
    assert fuse(other, Lexical.name, AT) == []


def test_too_few_tasks_and_other_tasks_are_not_joined(shelf: Shelf) -> None:
    learned(shelf, {"paint": PAINT, "walls": WALLS[:2], "trains": TRAINS})
    assert fuse(shelf, Lexical.name, AT) == []
