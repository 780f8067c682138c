"""Every shipped reflex says in its markdown what it covers and what it leaves alone; both are held here."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from everyday_folder import around
from lanes import NIGHT

from kernel.asking.replies import Plan, gate_plan
from runtime.catalogue.catalogue import Catalogue
from runtime.proving.criteria import criterion_fault
from runtime.reflexes.matching import Match, earlier, match
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import LANGUAGE, Reflexes
from runtime.reflexes.slots import It

SYSTEM = Path(__file__).parents[3] / "system"
FILES = sorted(path for path in (SYSTEM / "reflexes").glob("*.md") if path.name != LANGUAGE)
SHELF = Reflexes([SYSTEM]).shelf
CATALOGUE = Catalogue([SYSTEM])
TRAPS = (Path(__file__).parent / "reflex_traps.txt").read_text("utf-8").splitlines()
AFTER = {  # what is said about a result that was there before: the text, what is said
    "total-of-numbers": [
        ("1\n2\n3.5", "sum them up"),
        ("10\n20", "what is the total?"),
        ("7\n8", "please tell me the sum"),
    ],
}


def section(path: Path, name: str) -> list[str]:
    hit = re.search(rf"(?ms)^## {name}\n(.*?)(?=^## |\Z)", path.read_text("utf-8"))
    return hit[1].strip().splitlines() if hit else []


def examples(path: Path) -> list[tuple[str, str]]:
    rows = [line for line in section(path, "Examples") if line.startswith("| ")][2:]
    return [
        (cells[0].strip(), cells[1].strip())
        for row in rows
        if (cells := [*row.strip("| ").split(" | ", 1), ""])
    ]


def shown(found: Match) -> str:
    """A match as the tables show it."""
    if found.parts:
        return " · ".join(f"{part.procedure.name}: {shown(part)}".rstrip(": ") for part in found.parts)
    return ", ".join(f"{bound.slot} = {value(bound.value)}" for bound in found.reading.bound)


def read(task: str) -> Match | None:
    """A task as it is read in the folder of the everyday tasks."""
    return match(task, SHELF, (), around()) or match(task, SHELF)


def taken(tasks: list[str]) -> list[str]:
    """Those that are read: at night in the folder and without one, by day every second one in the folder."""
    if NIGHT:
        return [task for task in tasks if read(task)]
    return [task for n, task in enumerate(tasks) if match(task, SHELF, (), around() if n % 2 else None)]


def value(it) -> str:
    if isinstance(it, It):
        return "the result before"
    return ", ".join(it) if isinstance(it, tuple) else str(it)


CHECKS = ("differs", "remembered", "dreamed")
EXAMPLES = [(path.stem, task, reads) for path in FILES for task, reads in examples(path)]
by_reflex = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_there_are_at_least_thirty_and_all_of_them_are_read():
    assert len(FILES) >= 30
    assert Reflexes([SYSTEM]).faults == []
    assert {each.path.name for each in SHELF.procedures} == {path.name for path in FILES}
    assert all(each.description for each in SHELF.procedures)


@by_reflex
def test_its_examples_are_read_as_its_table_says_and_their_plans_pass_the_gate(path):
    assert len(examples(path)) >= 3 or len(AFTER[path.stem]) >= 3
    for task, reads in examples(path):
        found = read(task)
        assert found is not None, task
        assert path.stem in [part.procedure.name for part in found.parts or (found,)], task
        assert (task, shown(found)) == (task, reads)
        made = draft(found, 0)
        fault = partial(criterion_fault, checks=CHECKS)
        plan = Plan(approach=path.stem, steps=made.steps, success=made.success)
        gate_plan(plan, CATALOGUE, may_split=True, retry=False, fault_of=fault, coded=True)


@pytest.mark.parametrize(
    ("name", "before", "task"), [(name, *each) for name, cases in AFTER.items() for each in cases]
)
def test_a_result_before_is_understood(name, before, task):
    assert match(task, SHELF) is None
    found = match(task, SHELF, (earlier(before, SHELF),))
    assert found is not None
    assert found.procedure.name == name


@by_reflex
def test_what_it_refuses_is_declined(path):
    refused = [line.removeprefix("- ") for line in section(path, "Not these") if line]
    assert refused
    assert taken(refused) == []


@pytest.mark.parametrize("start", range(8))
def test_traps_are_declined(start):
    assert taken(TRAPS[start::8]) == []


def test_there_are_many_traps():
    assert len(TRAPS) >= 60


def test_every_phrasing_can_be_understood():
    for procedure in SHELF.procedures:
        for phrasing in procedure.phrasings:
            assert phrasing.graph.edges
            assert "|" not in phrasing.needed, f"{phrasing.text}: put alternatives into parentheses"


COURTESIES = ["please {}", "can you {}?", "Could you please {}, thanks", "I want to {} now."]


@pytest.mark.parametrize(("start", "words"), list(enumerate(COURTESIES)), ids=COURTESIES)
def test_courtesies_change_nothing(start, words):
    for _, task, reads in EXAMPLES[start :: 4 if NIGHT else 16]:
        if re.match(r"(?:what|how|which|are|where|when|please|could|can|\d)", task, re.IGNORECASE):
            continue
        found = read(words.format(task.rstrip("?.")))
        assert found is not None, task
        assert shown(found) == reads


LIMITS = [
    "{} unless it rains",
    "do not {}",
    "{}, but not today",
    "{} except the first",
    "never {}",
    "if possible {}",
    "{} only when asked",
    "{} without asking",
    "{} or not",
    "don't {}",
    "pretend to {}",
    "{} and then dance",
]


@pytest.mark.parametrize(("start", "limit"), list(enumerate(LIMITS)), ids=LIMITS)
def test_a_limit_is_never_passed_over(start, limit):
    tasks = [task.rstrip("?.") for _, task, _ in EXAMPLES[start % 6 :: 6 if NIGHT else 36]]
    assert taken([limit.format(task) for task in tasks]) == []
