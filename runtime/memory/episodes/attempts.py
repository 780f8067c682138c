"""The attempts of an ended loop, with their decisions and the task that they solved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.document.model import Document
from runtime.catalogue.catalogue import Catalogue
from runtime.memory import DIRECT, FACTS, RUNG, WITHOUT_MODEL
from runtime.memory.tasks import Refusal
from runtime.memory.tasks.asked import way_of
from runtime.memory.tasks.decisions import PERSON, Decision
from runtime.memory.tasks.exemplar import exemplar, in_other_words, reporting
from runtime.memory.tasks.makers import evidence_of
from runtime.memory.tasks.trees import NeuronTree, identity

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

LIKE = 0.5
"""The least cosine of a refused task that a prompt shows."""
MOST_REFUSALS = 3
_OUTCOMES = {"complete": True, "unverified": False, "escalated": False, "failed": False}


@dataclass(frozen=True)
class Attempt:
    """One attempt of a loop: `planner` is the rung that planned it; `good` is None if unknown."""

    id: str
    planner: str
    by: str  # the rung's basis: `reflex:NAME` or a model's name
    good: bool | None
    judge: str  # criteria, check or person
    last: bool


def attempts(document: Document) -> Iterator[Attempt]:
    """The attempts that had a plan, in order."""
    meta = document.meta
    folded = {fold.attempt: fold.decision for fold in document.section(2).folds}
    for number in range(1, meta.attempt + 1):
        planner, by = answered(document, number, "plan", "fused", "turn")
        if not planner:
            continue
        last = number == meta.attempt
        good = _OUTCOMES.get(meta.status) if last and number not in folded else False
        yield Attempt(f"{meta.id}/{number}", planner, by, good, _judge(document, number), last)


def answered(document: Document, attempt: int, *phases: str) -> tuple[str, str]:
    """The rung that last answered one of these phases of an attempt, and its model; else ""."""
    replies = [
        (str(each.get("rung", "")), str(each.get("model", "")))
        for each in document.meta.rungs
        if each.get("attempt") == attempt and each.get("phase") in phases and not each.get("passed")
    ]
    return replies[-1] if replies else ("", "")


def _judge(document: Document, attempt: int) -> str:
    rung, _ = answered(document, attempt, "check")
    if rung in ("", *WITHOUT_MODEL):
        return "criteria"
    return "person" if rung == "person" else "check"


def decision_of(document: Document, attempt: Attempt, decision: Decision | None, at: str) -> Decision:
    """The decision of an attempt, completed from its document."""
    meta = document.meta
    base = decision or Decision(id=attempt.id)
    path = {DIRECT: "direct", RUNG: base.path, FACTS: "direct"}.get(attempt.planner, "novel")
    if attempt.last and meta.status == "unanswered":
        path = "novel"
    calls = int(meta.spent.get("calls", 0)) if attempt.last else 0
    way = "" if attempt.planner in (*WITHOUT_MODEL, PERSON) else way_of(document)
    changes = {"text": document.text(1, "task"), "run": meta.run, "at": at}
    return base.model_copy(update={**changes, "calls": calls, "path": path, "way": way})


def refusals(brain: Brain, task: str) -> list[str]:
    """What a person refused of tasks like this one, with their reasons, as lines for a prompt.

    Variations of the task come first, then tasks that are like it by meaning. Raises `FractalError`.
    """
    from runtime.memory.tasks.refusals import Refused

    if not (brain.there and brain.shelf.count(Refused)):
        return []
    near = {each.run for each, score in brain.episodes.similar(task) if score >= LIKE}
    like = (each for each in brain.shelf.scan(Refused) if each.run in near)
    found = {each.run: each for each in (*brain.refusals.of(task), *like)}
    return [f"“{' '.join(each.text.split())}”: {each.said}" for each in found.values()][:MOST_REFUSALS]


def lesson_of(
    document: Document, attempt: Attempt, at: str, systems: tuple[Path, ...]
) -> NeuronTree | Refusal | None:
    """The tree (without neurons) of an accepted attempt by a higher rung; None for others."""
    known = attempt.planner in WITHOUT_MODEL and not in_other_words(document)
    if known or not (attempt.last and attempt.good):
        return None
    lesson = exemplar(document, reporting(systems), Catalogue(systems).tools)
    if isinstance(lesson, Refusal):
        return lesson
    meta = document.meta
    return NeuronTree(
        id=identity(lesson),
        text=lesson.task,
        exemplar=lesson,
        run=meta.run,
        rung=attempt.planner,
        evidence=evidence_of(document, attempt.judge, attempt.planner),
        created=at,
        calls=int(meta.spent.get("calls", 0)),
    )
