"""What a run lets memory know by itself: facts that its person stated, what it came to, why it failed.

A fact is what a person said, in their words: in the task, in an answer, with feedback. What a tool, a file or
a model says is never one; it can stand in a result, which is told as the run's and weighs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernel.document import Document
from runtime.memory.episodic import reason_of
from runtime.memory.statements import answered, statements

Noticed = Literal["facts", "results", "failures"]
PERSON = "person"
RESULT_CHARS, TASK_CHARS = 300, 200
WEIGHT: Mapping[str, float] = {"result": 0.3, "failure": 0.6}
"""Salience; facts are weighed by their words."""
TURNS: Mapping[str, int] = {"task": 0, "guidance": 200, "answer": 300, "feedback": 400, "end": 900}
"""Places in a run's thread, so that a later answer does not move what was said before."""
MEMORYS = frozenset({"recall", "remember", "goal", "wander", "dream", "learn"})
"""Tools whose runs come to what memory says: that is not to be heard as news."""


@dataclass(frozen=True)
class Heard:
    """One thing to be observed: the text, and the fields of the observation."""

    text: str
    said: Literal["fact", "result", "failure"]
    who: str
    at: str
    turn: int
    salience: float | None = None


def heard(
    root: Document,
    feedback: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    systems: Sequence[Path],
    redact: Callable[[str], str],
) -> list[Heard]:
    """What the document at the top of a run lets memory know; `feedback`: what a person said of it later."""
    found: list[Heard] = []
    if "facts" in kinds:
        kept = _remembered(root)
        for place, at, told in _facts(root, feedback, systems):
            if not any(told.casefold() in each for each in kept):
                found.append(Heard(redact(told), "fact", PERSON, at, place))
    if root.ended and (end := _end(root, kinds)):
        found.append(Heard(redact(end[1]), end[0], "", root.meta.updated, TURNS["end"], WEIGHT[end[0]]))
    return found


def _facts(
    root: Document, feedback: Sequence[Mapping[str, Any]], systems: Sequence[Path]
) -> Iterator[tuple[int, str, str]]:
    """Where a fact stands in the run, when it was said, and its words."""
    asked = ""
    places = dict(TURNS)
    for note in root.section(1).notes:
        if note.key == "question":
            asked = note.text
        if note.origin != PERSON or note.key not in ("task", "answer", "guidance"):
            continue
        at = root.meta.created if note.key == "task" else root.meta.updated
        told = answered(asked, note.text, systems) if note.key == "answer" else statements(note.text, systems)
        for each in told:
            places[note.key] += 1
            yield places[note.key], at, each
    for message in feedback:
        for each in statements(str(message.get("why") or ""), systems):
            places["feedback"] += 1
            yield places["feedback"], str(message.get("at") or root.meta.updated), each


def _remembered(root: Document) -> list[str]:
    """What the run itself was asked to keep, and has kept."""
    steps = (step for step in root.steps.values() if step.tool == "remember" and step.state == "done")
    return [str((step.args or {}).get("text", "")).casefold() for step in steps]


def _end(root: Document, kinds: Sequence[str]) -> tuple[Literal["result", "failure"], str] | None:
    """How a run ended, in short; nothing of one that only looked something up, or was cancelled."""
    status = root.meta.status
    task = _short(root.text(1, "task"), TASK_CHARS)
    if status == "complete":
        result = _short(root.text(5, "result"), RESULT_CHARS)
        if "results" in kinds and result and _tells(root):
            return "result", f"“{task}” came to: {result}"
    elif status != "cancelled" and "failures" in kinds:
        return "failure", f"“{task}” failed ({status}): {_short(reason_of(root), RESULT_CHARS)}"
    return None


def _tells(root: Document) -> bool:
    """Whether a result is worth knowing: a reflex finds again what it found, unless it changed something."""
    steps = root.steps.values()
    if steps and all(step.tool in MEMORYS for step in steps):
        return False
    asked = any(each.get("rung") != "reflex" for each in root.meta.rungs)
    return asked or any(step.evidence.get("touched") for step in steps)


def _short(text: str, most: int) -> str:
    told = " ".join(text.split())
    return told if len(told) <= most else f"{told[: most - 1]}…"
