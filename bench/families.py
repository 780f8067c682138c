"""Families of tasks: a question with the program that solves it, variations of the question, and traps.

A variation is solved by the same program with other values. A trap looks like the question and asks for
something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from bench.harness import data_file, read_jsonl
from kernel.errors import UsageError
from runtime.memory.tasks.binding import calculated
from runtime.memory.tasks.exemplar import Exemplar

FILE = "variations/families.jsonl"
FORM = "a family: an object with question, program, variations and traps"
TOLERANCE = Fraction(1, 100)
"""How far a result may be from the answer, which has two decimal places."""
_REFERENCE = re.compile(r"\{\{ steps\[(\d+)\]\.result \}\}")


@dataclass(frozen=True)
class Question:
    """A variation, or a trap, which has no answer."""

    text: str
    kind: str
    answer: Fraction | None


@dataclass(frozen=True)
class Family:
    """A solved question, its variations and traps. `id` is the number of its line in the file, from 0."""

    id: int
    question: str
    program: tuple[str, ...]
    variations: tuple[Question, ...]
    traps: tuple[Question, ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        """Variations and traps."""
        return self.variations + self.traps


def read_families(path: Path | None = None, part: str = "all") -> list[Family]:
    """The families of a file; `part` is all, or those with even or odd ids."""
    path = path or data_file(FILE)
    families = read_jsonl(path, _family, FORM)
    if not families:
        raise UsageError(f"{path}: expected {FORM}, on each line")
    return [family for family in families if part == "all" or (family.id % 2 == 0) == (part == "even")]


def _family(id: int, line: Mapping[str, Any]) -> Family:
    if not isinstance(line["program"], list):
        raise TypeError("`program` is not a list")
    variations = tuple(
        Question(each["question"], each["kind"], Fraction(str(each["answer"]).replace(",", "")))
        for each in line["variations"]
    )
    traps = tuple(Question(each["question"], each["kind"].partition(":")[0], None) for each in line["traps"])
    return Family(id, line["question"], tuple(line["program"]), variations, traps)


def sample_families(count: int, seed: int, path: Path | None = None) -> list[Family]:
    """Random families, in random order."""
    families = read_families(path)
    Random(seed).shuffle(families)
    return families[:count]


def exemplar_of(question: str, program: Sequence[str]) -> Exemplar:
    """A program of calculator steps as the exemplar that a run would store."""
    steps: list[dict[str, Any]] = [
        {
            "tool": "calc",
            "args": {"expression": each},
            "needs": sorted({int(n) for n in _REFERENCE.findall(each)}),
        }
        for each in program
    ]
    output = f"{{{{ steps[{len(steps)}].result }}}}"
    return Exemplar(task=question, steps=tuple(steps), output=output, verified=True)


def result_of(steps: Sequence[Mapping[str, Any]]) -> Fraction | None:
    """The last result of calculator steps; None if they cannot be calculated."""
    results = calculated(steps)
    return Fraction(results[-1].replace("…", "")) if results else None


def is_right(steps: Sequence[Mapping[str, Any]], question: Question) -> bool:
    """Whether the result of the steps is the answer."""
    result = result_of(steps)
    return question.answer is not None and result is not None and abs(result - question.answer) <= TOLERANCE
