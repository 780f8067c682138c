"""Experiences: one record per finished loop, with the fields that search and statistics need.

The full account stays in the loop's document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Literal

from kernel.document.model import ENDED, Document, Step
from runtime.memory.learning.patterns import GENERAL
from runtime.memory.store import Record
from runtime.workspace.workspace import DEFAULT

TASK_CHARS = 1_000
"""Characters of a task that are indexed."""
REASON_CHARS = 300
"""Characters of a failure's reason."""
MOST_FILES = 40
MOST_MOVES = 200
"""Steps that an experience lists."""
_PATHS = ("path", "file", "from", "to", "source", "target", "folder", "paths", "files")
"""Arguments of operations that name files."""

Signal = Literal[
    "", "user_approved", "user_rejected", "tests_passed", "tests_failed", "no_errors", "timeout", "escalation"
]
"""The evidence for the outcome; "" if it is unknown."""


class Experience(Record):
    """An ended loop. `id` is the loop's id; `text` is the beginning of its task."""

    KIND: ClassVar[str] = "experience"

    run: str = ""
    document: str = ""  # relative to state/
    level: str = "system"
    type: str = GENERAL  # task type; see `runtime.memory.learning.kinds`
    agent: str = DEFAULT
    space: str = DEFAULT
    status: str = ""
    success: bool | None = None  # None: cancelled, so unknown
    signal: Signal = ""
    reason: str = ""  # why it failed
    moves: tuple[str, ...] = ()  # `TOOL STATE` of each step of §3, attempts in order
    tools: tuple[str, ...] = ()  # each once, in the order of first use
    files: tuple[str, ...] = ()  # relative to the run's folder
    rungs: tuple[str, ...] = ()  # that answered, each once
    attempts: int = 1
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    lifeforce: float | None = None  # None: it was not counted
    seconds: float = 0.0
    at: str = ""  # when it ended
    rev: int = 0  # revision of the document when it was indexed


def experiences_of(
    documents: Iterable[Document],
    feedback: Mapping[str, bool] | None = None,
    type_of: Callable[[str], str] = lambda task: GENERAL,
) -> list[Experience]:
    """The experiences of ended loops. Operations are left out: they are steps of the parent loop.

    `feedback` maps run ids to a person's verdict; `type_of` returns a task's type.
    """
    verdicts = feedback or {}
    return [
        _experience(document, verdicts.get(document.meta.run), type_of)
        for document in documents
        if document.meta.status in ENDED and not document.meta.operation
    ]


def _experience(document: Document, approved: bool | None, type_of: Callable[[str], str]) -> Experience:
    meta = document.meta
    steps = [document.steps[n] for n in sorted(document.steps)]
    spent = meta.spent
    success = {"complete": True, "cancelled": None}.get(meta.status, False)
    if approved is not None and not meta.parent:
        success = approved
    tools = tuple(dict.fromkeys(step.tool or "task" for step in steps))
    return Experience(
        id=meta.id,
        text=document.text(1, "task")[:TASK_CHARS],
        run=meta.run,
        document=f"runs/{meta.run}/{meta.id}.md",
        level=meta.level,
        type=type_of(document.text(1, "task")),
        agent=str(meta.extra.get("agent") or DEFAULT),
        space=str(meta.extra.get("space") or DEFAULT),
        status=meta.status,
        success=success,
        signal=signal_of(document, approved),
        reason=reason_of(document)[:REASON_CHARS],
        moves=tuple(f"{step.tool or 'task'} {step.state}" for step in steps[:MOST_MOVES]),
        tools=tools,
        files=tuple(dict.fromkeys(name for step in steps for name in files_of(step)))[:MOST_FILES],
        rungs=tuple(dict.fromkeys(str(each.get("rung", "")) for each in meta.rungs if each.get("rung"))),
        attempts=meta.attempt,
        calls=int(spent.get("calls", 0)),
        tokens=tokens_of(document),
        usd=float(spent.get("usd", 0.0)),
        lifeforce=float(spent.get("lifeforce", 0.0)) if "lifeforce" in meta.budget else None,
        seconds=_seconds(document),
        at=meta.updated,
        rev=meta.rev,
    )


def signal_of(document: Document, approved: bool | None = None) -> Signal:
    """The evidence for a loop's outcome: a person's verdict, else its criteria, else its status."""
    meta = document.meta
    if approved is not None and not meta.parent:
        return "user_approved" if approved else "user_rejected"
    if meta.status == "complete":
        return "no_errors" if meta.unverified else "tests_passed"
    if meta.status == "cancelled":
        error = document.text(5, "error")
        return "user_rejected" if "rejected" in error or ": veto" in error else ""
    if meta.status == "exhausted":
        return "timeout"
    failing = any(line.startswith("- FAIL") for line in document.text(4, "evidence").splitlines())
    return "tests_failed" if failing else "escalation"


def reason_of(document: Document) -> str:
    """Why a loop failed, on one line; "" if it succeeded."""
    if document.meta.status == "complete":
        return ""
    reason = document.text(5, "error") or document.text(5, "escalation") or document.text(5, "question")
    return " ".join((reason or document.meta.status).split())


def files_of(step: Step) -> Iterator[str]:
    """The files that a step's arguments and evidence name."""
    for change in step.evidence.get("touched") or ():
        if isinstance(change, Mapping) and change.get("path"):
            yield str(change["path"])
    for name, value in (step.args or {}).items():
        if name in _PATHS:
            for path in value if isinstance(value, list | tuple) else (value,):
                if isinstance(path, str) and path and len(path) < 300 and "{{" not in path:
                    yield path


def tokens_of(document: Document) -> int:
    """The tokens of prompts and replies that a loop has spent."""
    return int(sum(document.meta.spent.get(f"{part}_tokens", 0) for part in ("prompt", "completion")))


def _seconds(document: Document) -> float:
    """Counted seconds of activity; of a child, which counts none, from its creation to its last update."""
    meta = document.meta
    if "seconds" in meta.spent:
        return round(float(meta.spent["seconds"]), 3)
    try:
        began, ended = (datetime.fromisoformat(text) for text in (meta.created, meta.updated))
        return round(max((ended - began).total_seconds(), 0.0), 3)
    except (TypeError, ValueError):
        return 0.0
