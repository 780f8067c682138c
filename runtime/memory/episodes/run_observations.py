"""What memory observes in a run: what a person asked to keep, its result, why it failed, what CHECK learned.

Only a person's own words (task, answer, guidance, feedback) are facts, and only in the forms of
`statements`. What a tool, a file or a model says
can only be part of a result, which has low salience.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernel.document.model import Document
from runtime.memory.episodes.experience import reason_of
from runtime.memory.episodes.statements import answered, asked_and_answered, told
from runtime.memory.tasks.exemplar import in_other_words
from runtime.text.lines import flat, shortened

PERSON = "person"
RESULT_CHARS, TASK_CHARS = 300, 200
WEIGHT: Mapping[str, float] = {"result": 0.3, "failure": 0.6, "reflection": 0.3}
"""Salience of results, failures and reflections; that of facts depends on their words."""
TURNS: Mapping[str, int] = {
    "task": 0,
    "guidance": 200,
    "answer": 300,
    "feedback": 400,
    "learned": 800,
    "end": 900,
}
"""First turn of each source in a run's thread, so that a later answer does not renumber earlier ones."""
MEMORYS = frozenset({"recall", "remember", "goal", "wander", "dream", "learn"})
"""Tools that return what memory already contains: their results are not observed."""


@dataclass(frozen=True)
class RunObservation:
    """The text and fields of one observation."""

    text: str
    said: Literal["fact", "result", "failure", "reflection"]
    who: str
    at: str
    turn: int
    salience: float | None = None


def observations_of(
    root: Document,
    feedback: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    systems: Sequence[Path],
) -> list[RunObservation]:
    """The observations in a run's root document and in later `feedback` by a person."""
    observations: list[RunObservation] = []
    if "facts" in kinds:
        remembered = _remembered(root)
        for place, at, text in _facts(root, feedback, systems):
            if not any(text.casefold() in each for each in remembered):
                observations.append(RunObservation(text, "fact", PERSON, at, place))
    if "reflections" in kinds:
        for place, text in _learned(root):
            said = RunObservation(text, "reflection", "", root.meta.updated, place, WEIGHT["reflection"])
            observations.append(said)
    if root.ended and (end := _end(root, kinds)):
        observations.append(
            RunObservation(end[1], end[0], "", root.meta.updated, TURNS["end"], WEIGHT[end[0]])
        )
    return observations


def _facts(
    root: Document, feedback: Sequence[Mapping[str, Any]], systems: Sequence[Path]
) -> Iterator[tuple[int, str, str]]:
    """The turn, the time and the text of each fact."""
    question, task = "", root.text(1, "task")
    places = dict(TURNS)
    for note in root.section(1).notes:
        if note.key == "question":
            question = note.text
        if note.origin != PERSON or note.key not in ("task", "answer", "guidance"):
            continue
        at = root.meta.created if note.key == "task" else root.meta.updated
        if note.key == "answer":
            if not root.ended and in_other_words(root) == note.text:
                yield TURNS["end"] - 1, at, asked_and_answered(task, note.text)
            facts = answered(question, note.text, systems, task)
        else:
            facts = told(note.text, systems, "" if note.key == "task" else task)
        for fact in facts:
            places[note.key] += 1
            yield places[note.key], at, fact
    for message in feedback:
        for fact in told(str(message.get("why") or ""), systems, task):
            places["feedback"] += 1
            yield places["feedback"], str(message.get("at") or root.meta.updated), fact


def _remembered(root: Document) -> list[str]:
    """Texts that the run stored with `remember`."""
    steps = (step for step in root.steps.values() if step.tool == "remember" and step.state == "done")
    return [str((step.args or {}).get("text", "")).casefold() for step in steps]


def _learned(root: Document) -> Iterator[tuple[int, str]]:
    """The turn of each attempt that CHECK did not accept, and what it learned of how this agent works."""
    task = shortened(flat(root.text(1, "task")), TASK_CHARS)
    for fold in root.section(2).folds:
        for note in fold.notes:
            if note.key == "learned" and note.text.strip():
                learned = shortened(flat(note.text), RESULT_CHARS)
                yield TURNS["learned"] + fold.attempt, f"my attempt {fold.attempt} at “{task}”: {learned}"


def _end(root: Document, kinds: Sequence[str]) -> tuple[Literal["result", "failure"], str] | None:
    """The result or failure of a run; None if it was cancelled, unanswered or only looked something up."""
    status = root.meta.status
    task = shortened(flat(root.text(1, "task")), TASK_CHARS)
    if status == "complete":
        result = shortened(flat(root.text(5, "result")), RESULT_CHARS)
        if "results" in kinds and result and _worth_storing(root):
            return "result", f"“{task}” came to: {result}"
    elif status not in ("cancelled", "unanswered") and "failures" in kinds:
        return "failure", f"“{task}” failed ({status}): {shortened(flat(reason_of(root)), RESULT_CHARS)}"
    return None


def _worth_storing(root: Document) -> bool:
    """Whether a result is worth storing: not if a reflex can find it again, unless something changed."""
    steps = root.steps.values()
    if steps and all(step.tool in MEMORYS for step in steps):
        return False
    beyond_reflexes = any(each.get("rung") != "reflex" for each in root.meta.rungs)
    return beyond_reflexes or any(step.evidence.get("touched") for step in steps)
