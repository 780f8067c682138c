"""Tasks whose clauses stand in another order, and what only looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest
from growing import solved, words

from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import open_shelf
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.recall import ProceduralMemory, Recall

ROLLS = "A baker made 120 rolls. 75 rolls were sold. How many rolls are left?"
OLDER = "Ann is 5 years older than Bob. Bob is 12. How old is Ann?"
HALF = "Otto has $40. He gets $6. He spends half of his money. How much does Otto have?"
MOVED = "The red box has 9 pens. The blue box has 4 pens. 3 pens go from the red box to the blue box."
MOVED += " How many pens has the red box?"


def recalled(exemplar: Exemplar, task: str) -> Recall:
    memory = ProceduralMemory(open_shelf("memory", Path()), Lexical(), words())
    memory.learn(exemplar)
    return memory.recall(task)


@pytest.mark.parametrize(
    ("stored", "expression", "task", "bound"),
    [
        (ROLLS, "120-75", "Of 90 rolls a baker made, 34 were sold. How many rolls are left?", "90-34"),
        (
            ROLLS,
            "120-75",
            "How many rolls are left if 34 were sold and a baker made 90 rolls?",
            "90-34",
        ),
        (OLDER, "5+12", "How old is Ann if Bob is 20 and Ann is 6 years older than Bob?", "6+20"),
        (
            "Leo earns $15 per hour. He works 6 hours. How much does Leo earn?",
            "15*6",
            "How much does Mia earn if she works 8 hours and earns $12 per hour?",
            "12*8",
        ),
    ],
)
def test_clauses_in_another_order_are_the_same_task(
    stored: str, expression: str, task: str, bound: str
) -> None:
    found = recalled(solved(stored, expression), task)
    assert found.kind == "variation", found.why
    assert found.steps[0]["args"]["expression"] == bound


@pytest.mark.parametrize(
    ("stored", "expression", "task"),
    [
        (ROLLS, "120-75", "Of 90 rolls a baker sold, 34 were made. How many rolls are left?"),
        (ROLLS, "120-75", "How many rolls were sold if a baker made 90 rolls and 34 rolls are left?"),
        (OLDER, "5+12", "How old is Ann if Bob is 20 and Bob is 6 years older than Ann?"),
        (HALF, "(40+6)/2", "Otto has $40. He spends half of his money. He gets $6. How much does Otto have?"),
        (MOVED, "9-3", MOVED.replace("from the red box to the blue box", "from the blue box to the red box")),
        (MOVED, "9-3", MOVED.replace("red box?", "blue box?")),
    ],
)
def test_other_clauses_are_another_task(stored: str, expression: str, task: str) -> None:
    assert recalled(solved(stored, expression), task).kind == "novel"


def test_only_calculations_are_compared_so() -> None:
    step = {"tool": "write", "args": {"path": "a.txt", "content": "120 75"}, "needs": []}
    exemplar = Exemplar(task=ROLLS, steps=(step,), output="written")
    found = recalled(exemplar, "Of 90 rolls a baker made, 34 were sold. How many rolls are left?")
    assert found.kind == "novel"


# ---- words that are no names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "expression", "old", "new"),
    [
        ("A rectangular garden is 6 m by 4 m. What is its area?", "6*4", "rectangular", "triangular"),
        ("A rectangular garden is 6 m by 4 m. What is its area?", "6*4", "rectangular", "oval"),
        ("Two couples buy tickets for $9 each. How much do they pay?", "2*2*9", "couples", "friends"),
        ("Two friends buy tickets for $9 each. How much do they pay?", "2*9", "friends", "couples"),
        ("Ida has 12 bottles and sells 4 bottles. How many are left?", "12-4", "bottles", "pencils"),
    ],
)
def test_what_says_which_or_how_many_is_meant_is_no_name(
    task: str, expression: str, old: str, new: str
) -> None:
    exemplar = solved(task, expression)
    assert recalled(exemplar, task).kind == "exact"
    assert recalled(exemplar, task.replace(old, new)).kind == "novel"


def test_a_thing_before_a_noun_may_be_another() -> None:
    task = "A cookie jar has 12 cookies. Ben eats 4 cookies. How many cookies are in the cookie jar?"
    found = recalled(solved(task, "12-4"), task.replace("cookie", "muffin").replace("12", "15"))
    assert found.steps[0]["args"]["expression"] == "15-4"
