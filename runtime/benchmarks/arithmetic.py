"""The suite `arithmetic`: word problems in families, which come again with other numbers and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from runtime.benchmarks.problem import Problem
from runtime.memory.tasks.binding import calculated

NAMES = ("Ida", "Ben", "Mia", "Tom", "Eva", "Max", "Lea", "Jan", "Ana", "Kai", "Zoe", "Leo")
THINGS = ("pens", "apples", "cards", "stamps", "shells", "marbles", "eggs", "books", "coins", "tickets")


FAMILIES: Mapping[str, tuple[str, str]] = {
    "boxes": (
        "{name} buys {a} boxes with {b} {things} each and gives {c} {things} away. "
        "How many {things} are left?",
        "{a} * {b} - {c}",
    ),
    "shelves": (
        "{name} has {ab} {things} and puts {b} of them on each shelf. How many shelves does {name} need?",
        "{ab} / {b}",
    ),
    "week": (
        "{name} finds {a} {things} on Monday, {b} on Tuesday and {c} on Friday. "
        "How many {things} does {name} have?",
        "{a} + {b} + {c}",
    ),
    "change": (
        "{name} pays for {c} {things} at {a} dollars each, out of {ab}00 dollars. "
        "How many dollars does {name} get back?",
        "{ab}00 - {c} * {a}",
    ),
    "rows": (
        "A hall has {a} rows of {b} seats, and {c} seats are broken. How many seats can be used?",
        "{a} * {b} - {c}",
    ),
    "trips": (
        "A van makes {a} trips a day and takes {b} parcels each time. How many parcels in {c} days?",
        "{a} * {b} * {c}",
    ),
    "shared": (
        "{a} friends share {ab} {things} equally, and then each finds {c} more. "
        "How many {things} has each of them?",
        "{ab} / {a} + {c}",
    ),
    "age": (
        "{name} is {c} years old, and the uncle of {name} is {a} times as old. "
        "How old will the uncle be in {b} years?",
        "{c} * {a} + {b}",
    ),
    "pages": (
        "A book has {ab}0 pages. {name} reads {a} pages a day for {c} days. How many pages are left to read?",
        "{ab}0 - {a} * {c}",
    ),
    "fence": (
        "A garden is {a} metres long and {b} metres wide. How many metres of fence go around it?",
        "2 * ({a} + {b})",
    ),
    "two kinds": (
        "{name} sells {a} tickets at {b} dollars and {c} tickets at 3 dollars. How many dollars is that?",
        "{a} * {b} + {c} * 3",
    ),
    "pay": (
        "{name} earns {a} dollars an hour and works {b} hours a day. How many dollars is that in {c} days?",
        "{a} * {b} * {c}",
    ),
}
"""By name, a text and what calculates its whole answer. `a`, `b`, `c` are drawn; `ab` is a·b."""


@dataclass(frozen=True)
class Drawn:
    """A problem of a family, and the expression that calculates its answer."""

    family: str
    text: str
    expression: str


def drawn(limit: int, seed: int) -> list[Drawn]:
    """Problems in random order; the same seed draws the same ones."""
    random = Random(f"arithmetic {seed}")
    return [_draw(random) for _ in range(limit)]


def _draw(random: Random) -> Drawn:
    a, b, c = random.randint(4, 30), random.randint(4, 30), random.randint(2, 15)
    words = {"name": random.choice(NAMES), "things": random.choice(THINGS)}
    family, forms = random.choice(tuple(FAMILIES.items()))
    return Drawn(family, *(form.format(a=a, b=b, c=c, ab=a * b, **words) for form in forms))


def generate(limit: int, seed: int) -> list[Problem]:
    """The suite: problems with their answers, which the operation calc calculates."""
    problems: list[Problem] = []
    for number, each in enumerate(drawn(limit, seed), 1):
        (answer,) = calculated([{"tool": "calc", "args": {"expression": each.expression}}]) or ("",)
        problems.append(Problem(str(number), each.text, answer, each.family))
    return problems
