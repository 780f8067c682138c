"""What somebody says to a run: left in its inbox, about the question that is open now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.deciding import PROGRAM, Decider, barred
from kernel.document import Document
from kernel.errors import UsageError
from kernel.workspace import drop, is_locked
from runtime.reading import Reader
from runtime.results import RunResult


@dataclass(frozen=True)
class Said:
    """What a person said: the kind of message, and what it holds."""

    kind: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Person:
    """Who is asked while a run waits. Each callback gets the question; nothing said means later.

    Without `approve`, an approval is put off.
    """

    answer: Callable[[str], Awaitable[str]]
    approve: Callable[[str], Awaitable[Said | None]] | None = None
    by: Decider = PROGRAM


async def asked(person: Person | None, result: RunResult, root: Document, *, plan_only: bool) -> Said | None:
    """What a person says to what a run waits for; None when nobody is asked, or they put it off."""
    question = root.note(1, "question")
    if person is None:
        return None
    if result.waiting == "person" and question and question.text == result.question:
        text = await person.answer(result.question)
        return Said("answer", {"text": text}) if text.strip() else None
    if result.waiting == "approval" and person.approve and not plan_only:
        return await person.approve(result.question)
    return None


def leave(
    reader: Reader, run: str, kind: str, by: Decider, trusted: Iterable[str], values: Mapping[str, Any]
) -> bool:
    """Leave a message for a run; True when a process works on it. `trusted`: MCP clients that may do more."""
    folder = reader.workspace.runs / run
    root = reader.root_document(run)
    if root.ended:
        raise UsageError(f"run {run} has ended ({root.meta.status}); there is nothing to {kind}")
    about: Mapping[str, Any] = {}
    if kind != "cancel":
        document = _asking(reader, run, kind)
        if kind == "approve" and (why := barred(by, document.steps.values(), trusted)):
            raise UsageError(f"{why}\napprove it at a terminal: fractal approve {run}")
        about = _about(document)
    drop(folder, kind, **values, **about, by=by.values)
    return is_locked(folder)


def _asking(reader: Reader, run: str, kind: str) -> Document:
    """The document whose open question a message is about."""
    waits_for, wanted = ("person", "answer") if kind == "answer" else ("approval", "approval")
    for document in reader.documents(run):
        waits = document.meta.waiting or {}
        if not document.ended and waits.get("for") == waits_for:
            return document
    raise UsageError(f"run {run} waits for no {wanted} now; `fractal tree {run}` shows what it does")


def _about(document: Document) -> dict[str, Any]:
    """What a message says of its question, so that it is never taken for an answer to a later one."""
    meta = document.meta
    return {"loop": meta.id, "attempt": meta.attempt, "question": (meta.waiting or {}).get("question", "")}
