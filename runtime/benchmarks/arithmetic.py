"""The suite `arithmetic`: word problems in families, which come again with other numbers and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from runtime.benchmarks.problem import Problem
from runtime.memory.tasks.binding import calculated

NAMES = ("Ida", "Ben", "Mia", "Tom", "Eva", "Max", "Lea", "Jan", "Ana", "Kai", "Zoe", "Leo")
THINGS = ("pens", "apples", "cards", "stamps", "shells", "marbles", "eggs", "books", "coins", "tickets")


@dataclass(frozen=True)
class Family:
    """Problems of one form. The numbers `a`, `b`, `c` are drawn; `ab` is a·b. The result is whole."""

    name: str
    text: str
    expression: str


_FORMS: Mapping[str, tuple[str, str]] = {
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
FAMILIES = tuple(Family(name, *form) for name, form in _FORMS.items())


@dataclass(frozen=True)
class Drawn:
    """A family with numbers and words."""

    family: Family
    values: Mapping[str, str | int]

    @property
    def text(self) -> str:
        """The problem."""
        return self.family.text.format(**self.values)

    @property
    def expression(self) -> str:
        """What calculates its answer."""
        return self.family.expression.format(**self.values)


def drawn(limit: int, seed: int) -> list[Drawn]:
    """Problems in random order; the same seed draws the same ones."""
    random = Random(f"arithmetic {seed}")
    return [_draw(random) for _ in range(limit)]


def _draw(random: Random) -> Drawn:
    a, b, c = random.randint(4, 30), random.randint(4, 30), random.randint(2, 15)
    words = {"name": random.choice(NAMES), "things": random.choice(THINGS)}
    return Drawn(random.choice(FAMILIES), {"a": a, "b": b, "c": c, "ab": a * b, **words})


def generate(limit: int, seed: int) -> list[Problem]:
    """The suite: problems with their answers."""
    return [
        Problem(str(number), each.text, _calculated(each), each.family.name)
        for number, each in enumerate(drawn(limit, seed), 1)
    ]


def _calculated(each: Drawn) -> str:
    """The answer, by the operation calc."""
    (result,) = calculated([{"tool": "calc", "args": {"expression": each.expression}}]) or ("",)
    return result
