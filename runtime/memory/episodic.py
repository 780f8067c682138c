"""What happened: a finished loop's document, indexed as an experience. The document stays the only account.

An experience keeps which document it is of, and the few fields that finding and counting need; what the loop
read, wrote and answered is read from the document when somebody wants it (`moves`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from kernel.document import ENDED, Document, Step
from kernel.screening import redactor
from runtime.memory.learning.patterns import GENERAL
from runtime.store import Record

DEFAULT = "default"
"""The agent and the space of who names none."""

TASK_CHARS = 1_000
"""Of a task: what finding it by words or by meaning needs."""
REASON_CHARS = 300
"""Of why a loop failed."""
MOST_FILES = 40
MOST_MOVES = 200
"""Of one loop, that its experience names; the document has them all."""
_PATHS = ("path", "file", "from", "to", "source", "target", "folder", "paths", "files")
"""Arguments of operations that name files."""

Signal = Literal[
    "",
    "user_approved",
    "user_rejected",
    "tests_passed",
    "tests_failed",
    "no_errors",
    "timeout",
    "escalation",
]
"""How it is known whether it went well, as learning.md names them; "" where nothing tells."""


@dataclass(frozen=True)
class Move:
    """One step of a trajectory, read from the document: what was called, with what, and what came of it."""

    n: int
    attempt: int
    tool: str  # "" for a subtask
    args: Mapping[str, Any]
    what: str
    state: str
    result: str


class Experience(Record):
    """A loop that ended. `id` is the loop's; `text` the beginning of its task, as it was asked."""

    KIND: ClassVar[str] = "experience"

    run: str = ""
    document: str = ""  # relative to state/
    level: str = "system"
    type: str = GENERAL  # the task type by its words; see `runtime/memory/learning/kinds.py`
    agent: str = DEFAULT
    space: str = DEFAULT
    status: str = ""
    success: bool | None = None  # None: cancelled, so that nobody can tell
    signal: Signal = ""
    reason: str = ""  # why it did not go well, in short
    moves: tuple[str, ...] = ()  # the trajectory: `TOOL STATE` a step of §3, attempts in their order
    tools: tuple[str, ...] = ()  # each once, in the order of first use
    files: tuple[str, ...] = ()  # relative to the run's folder
    rungs: tuple[str, ...] = ()  # who answered, each once
    attempts: int = 1
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    at: str = ""  # when it ended
    rev: int = 0  # of the document, when it was indexed


def experiences_of(
    documents: Iterable[Document],
    feedback: Mapping[str, bool] | None = None,
    type_of: Callable[[str], str] = lambda task: GENERAL,
) -> list[Experience]:
    """The experiences of ended loops; those of operations are steps of the loop above, and are none.

    `feedback` holds what a person has said of a run, by its id; `type_of` tells a task's type.
    """
    said, redact = feedback or {}, redactor(os.environ)
    return [
        _experience(document, said.get(document.meta.run), redact, type_of)
        for document in documents
        if document.meta.status in ENDED and not document.meta.operation
    ]


def _experience(
    document: Document, approved: bool | None, redact: Any, type_of: Callable[[str], str]
) -> Experience:
    meta = document.meta
    steps = [document.steps[n] for n in sorted(document.steps)]
    spent = meta.spent
    success = {"complete": True, "cancelled": None}.get(meta.status, False)
    if approved is not None and not meta.parent:
        success = approved
    tools = tuple(dict.fromkeys(step.tool or "task" for step in steps))
    return Experience(
        id=meta.id,
        text=redact(document.text(1, "task"))[:TASK_CHARS],
        run=meta.run,
        document=f"runs/{meta.run}/{meta.id}.md",
        level=meta.level,
        type=type_of(document.text(1, "task")),
        agent=str(meta.extra.get("agent") or DEFAULT),
        space=str(meta.extra.get("space") or DEFAULT),
        status=meta.status,
        success=success,
        signal=signal_of(document, approved),
        reason=redact(reason_of(document))[:REASON_CHARS],
        moves=tuple(f"{step.tool or 'task'} {step.state}" for step in steps[:MOST_MOVES]),
        tools=tools,
        files=tuple(dict.fromkeys(redact(name) for step in steps for name in files_of(step)))[:MOST_FILES],
        rungs=tuple(dict.fromkeys(str(each.get("rung", "")) for each in meta.rungs if each.get("rung"))),
        attempts=meta.attempt,
        calls=_whole(spent.get("calls")),
        tokens=_whole(spent.get("prompt_tokens")) + _whole(spent.get("completion_tokens")),
        usd=float(_number(spent.get("usd"))),
        seconds=_seconds(document),
        at=meta.updated,
        rev=meta.rev,
    )


def signal_of(document: Document, approved: bool | None = None) -> Signal:
    """How it is known whether a loop went well: a person's word, else its criteria, else how it ended."""
    meta = document.meta
    if approved is not None and not meta.parent:
        return "user_approved" if approved else "user_rejected"
    if meta.status == "complete":
        return "no_errors" if meta.unverified else "tests_passed"
    if meta.status == "cancelled":
        return "user_rejected" if "rejected" in document.text(5, "error") else ""
    if meta.status == "exhausted":
        return "timeout"
    failing = any(line.startswith("- FAIL") for line in document.text(4, "evidence").splitlines())
    return "tests_failed" if failing else "escalation"


def reason_of(document: Document) -> str:
    """Why a loop did not go well, on one line; "" when it did."""
    if document.meta.status == "complete":
        return ""
    told = document.text(5, "error") or document.text(5, "escalation") or document.text(5, "question")
    return " ".join((told or document.meta.status).split())


def files_of(step: Step) -> Iterator[str]:
    """The files that a step read or wrote, as far as its arguments and its evidence name them."""
    for each in step.evidence.get("touched") or ():
        if isinstance(each, Mapping) and each.get("path"):
            yield str(each["path"])
    for name, value in (step.args or {}).items():
        if name in _PATHS:
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, str) and each and len(each) < 300 and "{{" not in each:
                    yield each


def moves(document: Document) -> list[Move]:
    """The trajectory of a loop in full, from its document."""
    starts = _attempts(document)
    return [
        Move(
            n,
            max((attempt for attempt, first in starts if first <= n), default=1),
            step.tool,
            dict(step.args or {}),
            step.what,
            step.state,
            step.result or "",
        )
        for n, step in sorted(document.steps.items())
    ]


def _attempts(document: Document) -> list[tuple[int, int]]:
    """The attempts whose first step is known: the first one, and the present one."""
    return [(1, 0), (document.meta.attempt, document.meta.base + 1)]


def _seconds(document: Document) -> float:
    """Of activity where the run counts it; else from the document's beginning to its end."""
    told = document.meta.spent.get("seconds")
    if isinstance(told, int | float) and not isinstance(told, bool):
        return round(float(told), 3)
    try:
        began, ended = (
            datetime.fromisoformat(text) for text in (document.meta.created, document.meta.updated)
        )
        return round(max((ended - began).total_seconds(), 0.0), 3)
    except (TypeError, ValueError):
        return 0.0


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _whole(value: Any) -> int:
    return int(_number(value))
