"""Two tasks span by span: what is a variation, what is another task, and what the bound steps are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.api.fractal import shipped_system
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.alignment import Alignment, align
from runtime.memory.tasks.binding import bind
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.words import Words, words_of
from runtime.text.tokens import tokens

WORDS = words_of((shipped_system(),))
STORED = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"
STEPS: list[dict[str, Any]] = [{"tool": "calc", "args": {"expression": "3*8"}}]


def aligned(old: str, new: str, words: Words = WORDS) -> Alignment | Refusal:
    return align(Reading.read(old, words), Reading.read(new, words))


def recalled(new: str, old: str = STORED, steps: list[dict[str, Any]] = STEPS) -> Any:
    """The bound steps, or why there are none."""
    found = aligned(old, new)
    bound = found if isinstance(found, Refusal) else bind(steps, found)
    return bound.why if isinstance(bound, Refusal) else [step["args"] for step in bound]


@pytest.mark.parametrize(
    ("task", "expression"),
    [
        (STORED, "3*8"),
        ("Tom buys 5 boxes of apples for $12 each. How much does Tom pay in total?", "5*12"),
        ("Tom buys five boxes of apples for 12 dollars each. How much does Tom pay in total?", "5*12"),
        ("Tom buys 1,200 boxes of apples for $0.5 each. How much does Tom pay in total?", "1200*0.5"),
        ("Tom buys 3 boxes of apples for two dollars6,060 each. How much does Tom pay in total?", "3*26060"),
        ("Anna buys 3 boxes of apples for $8 each. How much does Anna pay in total?", "3*8"),
        ("Tom buys 3 boxes of pears for $9 each. How much does Tom pay in total?", "3*9"),
        ("Tom buys 3 crates of apples for $9 each. How much does Tom pay in total?", "3*9"),
        ("Tom purchases 4 boxes of apples for $8 each. How much does Tom pay altogether?", "4*8"),
        ("Quick question. Tom buys 4 boxes of apples for $8 each. How much does Tom pay in total?", "4*8"),
        ("Tom buys 4 boxes of apples for $8 each. How much does Tom pay in total? Thanks!", "4*8"),
    ],
)
def test_a_variation_is_bound(task: str, expression: str) -> None:
    assert recalled(task) == [{"expression": expression}]


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("Tom sells 5 boxes of apples for $12 each. How much does Tom pay in total?", "no counterpart"),
        ("Tom buys 5 boxes of apples for $12 each. How much does Tom pay on average?", "no counterpart"),
        ("Tom buys 5 boxes of apples for 12 cents each. How much does Tom pay in total?", "no counterpart"),
        ("Tom buys 5 boxes of apples for $12 each, and a pear. How much does Tom pay in total?", "no count"),
        ("Tom buys 5 boxes of apples for 2 dollars 60 each. How much does Tom pay in total?", "no count"),
        ("How much does Tom pay in total?", "no counterpart"),
        ("Tom buys 5 boxes of apples for $12 each. How much does Anna pay in total?", "one place and kept"),
        ("Tom buys 5 boxes of Tom for $12 each. How much does Tom pay in total?", "has another role"),
        ("Tom buys 5 boxes of boxes for $12 each. How much does Tom pay in total?", "no counterpart"),
        ("Tom buys half boxes of apples for $12 each. How much does Tom pay in total?", "no counterpart"),
        ("", "empty"),
    ],
)
def test_another_task_is_refused(task: str, why: str) -> None:
    assert why in recalled(task)


def test_roles_that_are_swapped_are_another_task() -> None:
    old = "Ann is 3 years older than Bob. Bob is 8. How old is Ann?"
    new = "Bob is 3 years older than Ann. Ann is 8. How old is Bob?"
    assert "has another role" in recalled(new, old)


def test_a_stored_value_that_stands_for_two_is_ambiguous() -> None:
    old = "Add 4 apples and 4 pears."
    steps = [{"tool": "calc", "args": {"expression": "4+4"}}]
    assert recalled("Add 5 apples and 5 pears.", old, steps) == [{"expression": "5+5"}]
    assert "4 stands for 5 and 6" in recalled("Add 5 apples and 6 pears.", old, steps)


def test_a_value_that_went_into_a_step_in_another_form_is_refused() -> None:
    old = "How many days are 2 weeks?"
    steps = [{"tool": "calc", "args": {"expression": "7+7"}}]
    assert "is in no step" in recalled("How many days are 3 weeks?", old, steps)


def test_a_percentage_is_bound_in_the_form_in_which_the_step_has_it() -> None:
    old = "What is 20% of 50?"
    assert recalled("What is 35% of 80?", old, [{"tool": "calc", "args": {"expression": "50*0.2"}}]) == [
        {"expression": "80*0.35"}
    ]
    assert recalled("What is 35% of 80?", old, [{"tool": "calc", "args": {"expression": "50*20/100"}}]) == [
        {"expression": "80*35/100"}
    ]


@pytest.mark.parametrize(
    ("task", "args"),
    [
        ("Count the lines of src/b.txt", [{"path": "src/b.txt", "what": "lines"}]),
        ("Please count the lines of c.md.", [{"path": "c.md", "what": "lines"}]),
        ("Could you please count the lines of c.md?", [{"path": "c.md", "what": "lines"}]),
        ("Count the words of a.txt", [{"path": "a.txt", "what": "words"}]),
        ("Delete the lines of a.txt", "no counterpart for 'Delete'"),
        ("Count the lines in a.txt", "no counterpart for 'in'"),
    ],
)
def test_a_task_on_files_binds_what_its_steps_use_and_no_other_verb(task: str, args: Any) -> None:
    steps = [{"tool": "count", "args": {"path": "a.txt", "what": "lines"}}]
    assert recalled(task, "Count the lines of a.txt", steps) == args


def test_a_noun_that_no_step_uses_is_more_than_a_label_where_something_is_done() -> None:
    steps = [{"tool": "bash", "args": {"command": "wc -l a.txt"}}]
    assert "is in no step" in recalled("Count the words of a.txt", "Count the lines of a.txt", steps)


@pytest.mark.parametrize(("old", "new"), [("Square 5", "Cube 6"), ("Sum 3 and 4.", "Merge 3 and 4.")])
def test_an_order_is_no_name(old: str, new: str) -> None:
    assert isinstance(aligned(old, new), Refusal)


def test_references_and_tools_are_never_bound() -> None:
    steps = [
        {"tool": "calc", "args": {"expression": "3*8"}},
        {"tool": "calc", "args": {"expression": "{{ steps[1].result }}+3"}},
    ]
    old = "Take 3 times 8 and add 3."
    assert recalled("Take 5 times 9 and add 5.", old, steps) == [
        {"expression": "5*9"},
        {"expression": "{{ steps[1].result }}+5"},
    ]


def test_words_that_were_confirmed_to_mean_the_same_are_used() -> None:
    words = words_of((shipped_system(),))
    own = replace(words, same=dict(words.same))
    new = "Tom grabs 4 boxes of apples for $8 each. How much does Tom pay in total?"
    assert isinstance(aligned(STORED, new, own), Refusal)
    own.join([("buys",), ("grabs",)])
    assert isinstance(aligned(STORED, new, own), Alignment)


@given(st.text(max_size=300))
def test_any_text_has_tokens_in_their_order_and_aligns_with_itself(text: str) -> None:
    found = tokens(text)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(token.start < token.end for token in found)
    if found:
        read = Reading(found, WORDS)
        assert isinstance(align(read, read), Alignment)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_numbers_are_read_as_they_are_written(whole: int, part: int) -> None:
    (token,) = tokens(f"{whole:,}.{part}")
    assert token.value == Fraction(f"{whole}.{part}")
    assert [t.value for t in tokens("twenty-five")] == [25]
    assert [t.value for t in tokens("seventeen dollars")] == [17]
