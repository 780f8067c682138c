"""The rung that answers a question from memory is certain, or leaves the task to the next one."""

from __future__ import annotations

import pytest

from kernel.document.model import Document, Meta, Note, Section
from runtime.api.fractal import Fractal
from runtime.api.knowledge import remember
from runtime.reflexes.known import SURE, Known

FACTS = (
    "Marit leads the project",
    "The money comes from the water board",
    "The team meets on Mondays at ten in room 214",
    "My sister lives in Bern",
    "We deploy on Fridays because the customers sleep then",
    "Backups run every night at two",
    "The rent is 870 euros a month",
    "Olga is the president of our club",
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    fractal = Fractal(tmp_path_factory.mktemp("knowing"), settings={"embedder": "lexical", "fsync": False})
    for fact in FACTS:
        remember(fractal, fact)
    return Known(fractal.memory)


def document(task: str, *notes: Note) -> Document:
    return Document(Meta("r1", "r1"), {1: Section(notes=(Note("task", task, "person"), *notes))})


def offered(known: Known, task: str, *notes: Note) -> bool:
    return known.offers(task, document(task, *notes)) is not None


def certain(known: Known, task: str) -> bool:
    return known.offers(task, document(task)) == SURE


@pytest.mark.parametrize(
    "question",
    [
        "who leads the project?",
        "when does the team meet?",
        "where does my sister live?",
        "why do we deploy on Fridays?",
        "how often do backups run?",
        "how much is the rent?",
    ],
)
def test_what_was_told_is_answered(known: Known, question: str) -> None:
    assert certain(known, question)


@pytest.mark.parametrize(
    "task",
    [
        "who is the president of France?",
        "what is the capital of Germany",
        "why is the sky blue",
        "what does a week in Bern cost",
        "how much money does a president earn a month?",
        "who leads the project in projects/plan.md?",
        "who is the lead of the band?",
        "lead the project",
        "write down who leads the project",
    ],
)
def test_every_other_task_goes_on(known: Known, task: str) -> None:
    assert not certain(known, task)


def test_a_question_with_context_of_its_own_goes_on(known: Known) -> None:
    assert not offered(known, "who leads the project?", Note("context", "the plan", "person", "stdin"))


def test_it_also_says_what_memory_lacks(known: Known) -> None:
    assert offered(known, "who is the president of France?") and offered(known, "who leads the project?")
    assert not offered(known, "lead the project") and not offered(known, "which files are empty?")
