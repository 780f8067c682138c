"""A gate that is opened by what was kept is the one that is made of every member."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.embedding.lexical import Lexical
from runtime.memory.procedural import opening
from runtime.memory.procedural.gate import features
from runtime.memory.procedural.opening import WORTH, KeptSpread, TypeWords
from runtime.memory.procedural.recognition import Member
from runtime.memory.procedural.types import MEMBERS, Lesson, Types
from runtime.store import Shelf, open_shelf

KINDS = (
    "sort the lines of",
    "count the words in",
    "send a letter to",
    "divide the cost of",
    "water",
    "paint",
)
NOUNS = ("notes", "apples", "friends", "boxes", "plants", "trains", "letters", "windows", "songs", "maps")
TASKS = [
    (f"{kind} {noun} {other} {number}", kind)
    for number in range(3)
    for kind in KINDS
    for noun in NOUNS
    for other in NOUNS[: 4 + number % 2]
]
ASKED = (
    "sort the lines of new notes",
    "water the songs",
    "count what is in a box",
    "play the trumpet loudly",
)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = open_shelf("sqlite", tmp_path, fsync=False)
    yield made
    made.close()


def taught(shelf: Shelf) -> Types:
    types = Types(shelf, Lexical())
    types.learn_all([Lesson(task, type=kind.split()[0]) for task, kind in TASKS], "2025-01-01")
    types.recognise(ASKED[0])
    types.learn_all([Lesson("water the last plants of all", type="water")])  # the spread is known by now
    return types


def seen(shelf: Shelf) -> list[tuple[str, str, float]]:
    found = [Types(shelf, Lexical()).recognise(each) for each in ASKED]
    return [(each.kind, each.type, round(each.distance, 5)) for each in found]


def test_what_was_kept_recognises_as_all_members_do(shelf: Shelf) -> None:
    taught(shelf)
    assert shelf.count(TypeWords) == len(KINDS) and shelf.count(KeptSpread) == 1
    kept = seen(shelf)
    opening.forget(shelf)
    assert not shelf.count(TypeWords)
    assert [each[:2] for each in kept] == [each[:2] for each in seen(shelf)]
    assert [each[2] for each in kept] == pytest.approx([each[2] for each in seen(shelf)], abs=0.01)


def test_the_words_are_those_of_the_members_also_where_some_had_to_go(shelf: Shelf) -> None:
    taught(shelf)
    for id, most in (("sort", MEMBERS), ("water", MEMBERS)):
        members = list(shelf.scan(Member, {"type": id}))
        kept = shelf.get(TypeWords, id)
        assert kept and kept.members == len(members) <= most
        counted: dict[str, int] = {}
        for each in members:
            for word in features(each.text):
                counted[word] = counted.get(word, 0) + 1
        assert kept.words == counted
    assert shelf.count(Member) >= WORTH > 0


def test_who_opens_it_so_learns_and_names_as_before(shelf: Shelf) -> None:
    taught(shelf)
    types = Types(shelf, Lexical())
    assert types.learn("water notes apples 7", at="2025-01-03") == "water"
    new = types.learn("translate this sonnet into Portuguese", at="2025-01-03")
    assert new not in {kind.split()[0] for kind in KINDS}
    assert Types(shelf, Lexical()).recognise("translate this sonnet into Portuguese").type == new
    assert shelf.get(TypeWords, new)


def test_what_is_damaged_or_missing_is_made_anew(shelf: Shelf) -> None:
    taught(shelf)
    wanted = seen(shelf)
    shelf.delete(TypeWords, "water")
    assert [each[:2] for each in seen(shelf)] == [each[:2] for each in wanted]
    Types(shelf, Lexical()).learn("water one more of the plants")
    assert shelf.get(TypeWords, "water")


def test_few_members_are_read_as_they_are(shelf: Shelf) -> None:
    types = Types(shelf, Lexical())
    types.learn_all([Lesson(task, type=kind) for task, kind in TASKS[:20]])
    types.recognise(ASKED[0])
    types.learn(TASKS[30][0])
    assert not shelf.count(TypeWords) and not shelf.count(KeptSpread)
