"""An order for a change is never answered by looking, and a question is still answered without a model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playing import ACCEPT, plan, write

from bench.everyday_files import create
from kernel.asking.responder import Ask, Ladder
from kernel.errors import Exit
from runtime.api.fractal import Fractal, shipped_system
from runtime.models.human import Human
from runtime.models.scripted import Scripted
from runtime.reflexes.matching import Match, match
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.reflex import Reflex
from runtime.reflexes.suggestions import examples, nearest
from runtime.reflexes.surroundings import Surroundings
from runtime.text.demand import demand

PAIRS = [
    line.split("\t")
    for line in Path(__file__).with_name("orders_and_questions.tsv").read_text("utf-8").splitlines()[1:]
]
ORDERS, QUESTIONS = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]
ANSWERED = 55
"""Of the 60 questions, as many as before orders were told apart."""
SYSTEMS = (shipped_system(),)
SHELF = Reflexes(SYSTEMS).shelf
EXAMPLES = list(examples(SHELF))
VERBS = (
    *("commit", "delete", "tag", "revert", "fix", "rename", "stash", "undo"),
    *("push", "update", "remove", "archive", "move", "edit", "merge", "encrypt"),
)


@pytest.fixture(scope="module")
def around() -> Iterator[Surroundings]:
    """The folder of the everyday tasks."""
    with tempfile.TemporaryDirectory() as place:
        create(Path(place))
        yield Surroundings(Path(place))


def looks_for_an_order(found: Match | None) -> bool:
    """Whether a part of a task that orders a change is read by a reflex that only looks."""
    if found is None:
        return False
    orders = demand(found.task, SYSTEMS) == "change" and not found.changes
    return orders or any(looks_for_an_order(part) for part in found.parts)


@pytest.mark.parametrize("task", ORDERS)
def test_an_order_is_not_answered_by_looking(task: str, around: Surroundings) -> None:
    found = match(task, SHELF, (), around)
    assert found is None or all(part.changes for part in found.parts or (found,))


def test_questions_with_the_same_nouns_are_answered_and_change_nothing(around: Surroundings) -> None:
    found = [match(task, SHELF, (), around) for task in QUESTIONS]
    assert not [each.task for each in found if each and each.changes]
    assert sum(each is not None for each in found) >= ANSWERED


def looking() -> list[str]:
    """The first example of each reflex that only looks."""
    first = {procedure.name: example for procedure, example in reversed(EXAMPLES) if not procedure.changes}
    return [example.rstrip("?.!") for _, example in sorted(first.items())]


@pytest.mark.parametrize(
    "form", ["{verb} {task}", "{verb} {rest}", "{task}, then {verb} it", "{task} and {verb} them"]
)
def test_with_a_verb_of_change_no_reflex_that_only_looks_reads_its_examples(
    form: str, around: Surroundings
) -> None:
    for at, example in enumerate(looking()[len(form) % 2 :: 2]):
        verb, rest = VERBS[at % len(VERBS)], example.partition(" ")[2] or example
        task = form.format(verb=verb, task=example, rest=rest)
        found = match(task, SHELF, (), around)
        assert found is None or found.changes, task
        assert not looks_for_an_order(found), task


CHANGING = [
    ("rename a.txt to b.txt", "move-file"),
    ("move a.txt to docs", "move-into-folder"),
    ("copy a.txt to c.txt", "copy-file"),
    ("delete a.txt", "remove"),
    ("sort words.txt in place", "sort-in-place"),
    ("sort words.txt", "sort-file"),
    ("sort people.csv by age and save it", ""),
    ("take a.txt", ""),
    ("strike a.txt", ""),
    ("give a.txt to b.txt", ""),
    ("give a.txt the name b.txt", "move-file"),
    ("email a.txt to b.txt", ""),
    ("commit a.txt to b.txt", ""),
    ("merge a.txt to docs", ""),
    ("revert a.txt", ""),
    ("encrypt a.txt to c.txt", ""),
    ("undo a.txt", ""),
    ("close a.txt", ""),
    ("stash words.txt in place", ""),
    ("delete a.txt to b.txt", ""),
    ("publish a.txt", ""),
    ("translate a.txt to b.txt", ""),
    ("link a.txt to b.txt", ""),
]


@pytest.mark.parametrize(("task", "name"), CHANGING)
def test_a_change_is_done_by_the_reflex_of_its_verb(task: str, name: str, around: Surroundings) -> None:
    found = match(task, SHELF, (), around)
    assert [each.name for each in found.used] == [name] if found else not name


def test_what_may_be_left_aside_is_no_verb_of_change_and_no_limit() -> None:
    for words in SHELF.language.aside:
        assert demand(f"{' '.join(words)} a.txt", SYSTEMS) != "change", words
        assert not SHELF.language.limits & {*words} - {"if", "when"}, words


CASES = ["commit src/util.py", "write hello into new.txt, then commit it", "undo my last commit"]


@pytest.mark.parametrize("task", CASES)
def test_without_a_model_an_order_waits_for_a_person(task: str, tmp_path: Path) -> None:
    create(tmp_path)
    ladder = Ladder((Reflex(SYSTEMS, place=tmp_path), Human()))
    fractal = Fractal(tmp_path, settings={"sandbox": "off", "fsync": False}, ladder=ladder)
    assert asyncio.run(fractal.run(task)).exit == Exit.WAITING
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize("task", CASES)
def test_with_a_model_an_order_is_left_to_it(task: str, tmp_path: Path) -> None:
    create(tmp_path)
    asked: list[str] = []

    def model(ask: Ask) -> dict[str, object]:
        asked.append(ask.document.task)
        return ACCEPT if ask.phase == "check" else plan(write("done.txt", "done"))

    ladder = Ladder((Reflex(SYSTEMS, place=tmp_path), Scripted(model)))
    settings = {"sandbox": "off", "fsync": False, "check": "always"}
    asyncio.run(Fractal(tmp_path, settings=settings, ladder=ladder).run(task))
    assert asked[0] == task


SUGGESTED = [
    ("rename a.txt", "rename a.txt to b.txt"),
    ("copy a.txt", "copy a.txt to b.txt"),
    ("list", "list all branches"),
    ("delete all .log files older than a week", ""),
    ("which day in sales.csv sold the most units?", ""),
    ("make a nice backup of sales.csv", ""),
    ("delete a.txt, but not b.txt", ""),
    ("do not delete draft.txt", ""),
    ("commit src/util.py", ""),
    ("delete the last two lines of a.txt", ""),
    ("convert people.csv", "convert people.csv to JSON"),
    ("count the apples", ""),
    ("remove every comment from src/app.py", ""),
    ("list the branches older than a month", ""),
    ("what is love", ""),
    ("what is my name?", ""),
]


@pytest.mark.parametrize(("task", "example"), SUGGESTED)
def test_a_suggestion_is_an_example_with_every_word_of_the_task(
    task: str, example: str, around: Surroundings
) -> None:
    said = nearest(task, SHELF, around)
    assert said == (f"What can be said, for example: {example}" if example else "")


def test_what_is_suggested_for_an_order_works_and_is_no_question(around: Surroundings) -> None:
    for task in ORDERS[::4]:
        example = nearest(task, SHELF, around).partition(": ")[2]
        found = match(example, SHELF, (), around) if example else None
        assert not example or (found and found.changes), (task, example)
