"""Why memory did not answer: the nearest solved task, what differs, and what would be answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.explaining import Example, differences, example_of, explain, nearest
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Types

STORED = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"
STEPS = ({"tool": "calc", "args": {"expression": "3*8"}, "needs": []},)


def tree(text: str = STORED, **more: Any) -> NeuronTree:
    exemplar = Exemplar(task=text, steps=STEPS, made=more.pop("made", False))
    fields = {"id": "aaaaaaaa11", "run": "r00", "created": "2025-03-01", **more}
    return NeuronTree(text=text, exemplar=exemplar, **fields)


def asked(text: str, **more: Any) -> Decision:
    return Decision(id="system-r01/1", text=text, run="r01", at="2025-03-02", calls=2, **more)


def lines(text: str) -> dict[str, str]:
    return {
        name.strip(): rest.strip() for name, _, rest in (line.partition(":") for line in text.splitlines())
    }


@pytest.fixture
def shelf() -> Shelf:
    return open_shelf("memory", Path())


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (STORED.replace("3", "7"), ["only its values"]),
        (STORED, ["nothing"]),
        (STORED.replace("buys", "sells"), ["“sells” instead of “buys”"]),
        (STORED.replace(" each", ""), ["“each” is missing"]),
        (STORED.replace("boxes", "large boxes"), ["“large” is more than it has"]),
        (f"{STORED} He has $50.", ["“He has $50.” is more than it has"]),
        (
            "How much does Tom pay in total? Tom buys 3 boxes of apples for $8 each.",
            ["the same sentences in another order"],
        ),
        (
            "For $8 each Tom buys 3 boxes of apples. How much does Tom pay in total?",
            ["“For $8 each” stands in another place"],
        ),
    ],
)
def test_differences_are_told_in_plain_words(new: str, told: list[str]) -> None:
    assert differences(STORED, new) == told


def test_of_many_differences_a_few_are_told() -> None:
    found = differences("a b c d e f g h i j k l", "a 1 c 2 e 3 g 4 i 5 k 6")
    assert found[-1] == "and 2 more"
    assert len(found) == 5


def test_the_nearest_is_the_first_that_was_refused_else_the_one_with_the_same_words(shelf: Shelf) -> None:
    shelf.put(tree(), tree("The cat sat on the mat", id="cccccccc33"))
    other = "Tom buys 3 boxes of pears for $8 each. How much does he pay?"
    near = nearest(shelf, asked(other, near=(("gone", "x"), ("cccccccc33", "no counterpart for 'Tom'"))))
    assert near is not None
    assert (near[0].id, near[1]) == ("cccccccc33", "no counterpart for 'Tom'")
    near = nearest(shelf, asked(other))
    assert near is not None
    assert near[0].id == "aaaaaaaa11"
    assert nearest(shelf, asked("What is the weather like")) is None


def test_what_was_stored_later_or_by_the_run_itself_was_not_near(shelf: Shelf) -> None:
    shelf.put(tree(created="2025-03-02"))
    assert nearest(shelf, asked(STORED)) is None
    shelf.put(tree())
    assert nearest(shelf, asked(STORED, tree="aaaaaaaa11")) is None


@pytest.mark.parametrize(
    ("why", "answers"),
    [
        ("no counterpart for 'sells'", "asked in the words of the nearest task, with other values"),
        ("it matches, but is in quarantine: it went wrong too often", "fractal brain release aaaaaaaa"),
        ("a person refused it in run r00: ill singers cannot sing", "fractal feedback RUN good"),
        ("several stored tasks match and would do different things", "fractal feedback RUN bad"),
    ],
)
def test_it_is_said_what_would_be_answered(why: str, answers: str) -> None:
    told = lines(explain(asked(STORED, why=why), near=(tree(), why)))
    assert answers in told["answers if"]
    assert told["nearest"].startswith(f"“{STORED}” (memory aaaaaaaa, run r00;")
    assert why.removeprefix("no counterpart for 'sells'") in told["why"]


def test_what_was_learned_is_answered_next_time_and_why_nothing_was_is_told() -> None:
    kept = asked(STORED, tree="aaaaaaaa11")
    assert lines(explain(kept, tree()))["answers if"] == "asked again in these words, also with other values"
    assert lines(explain(kept, tree(made=True)))["answers if"] == "asked again in the same words"
    told = lines(explain(asked(STORED), not_kept="a person answered or guided it"))
    assert told["not learned"] == "a person answered or guided it"
    assert told["nearest"] == "no solved task in memory was like it"


def test_what_only_a_source_without_trust_said_leaves_the_outcome_unknown() -> None:
    own = lines(explain(asked(STORED, said={"own criteria": (True, 0.0)})))
    assert own["outcome"] == "not known yet; that its own criteria hold shows nothing"
    assert lines(explain(asked(STORED)))["outcome"] == "not known yet"


@pytest.mark.parametrize(
    ("recognition", "count", "told"),
    [
        ("recognized", 1, "like one solved task: “count a.md”"),
        ("familiar", 1, "a little like one solved task: “count a.md”"),
        ("recognized", 3, "a type: count lines (3 examples, such as “count a.md”)"),
        ("recognized", 5, "a well known type: count lines (5 examples, such as “count a.md”)"),
        ("familiar", 9, "close to a well known type: count lines (9 examples, such as “count a.md”)"),
    ],
)
def test_how_well_a_type_is_known_depends_on_its_examples(recognition: Any, count: int, told: str) -> None:
    decision = asked("count b.md", type="type-1f1c", recognition=recognition)
    found = lines(explain(decision, type=Example("count lines", "count a.md", count)))
    assert found["known as"] == told


def test_a_type_has_a_name_an_example_and_a_number(shelf: Shelf) -> None:
    types = Types(shelf, Lexical())
    id = types.learn("convert 3 km to miles")
    types.learn("convert 5 km to miles")
    assert example_of(shelf, id) == Example("convert km to miles", "convert 3 km to miles", 2)
    assert example_of(shelf, "type-gone") is None
