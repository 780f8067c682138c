"""The messages to a run (answer, approve, reject, say, cancel), as files in its folder."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kernel import Inbox as KernelInbox
from kernel import disk
from kernel.document.model import Document
from kernel.document.redaction import redacted
from kernel.errors import UsageError, explained
from kernel.events import now
from kernel.loop.run_context import RunContext, Session
from runtime.secrets.exact import of_run
from runtime.workspace import answering
from runtime.workspace.answering import answers, plan_digest
from runtime.workspace.approved import Offers, keep, offers
from runtime.workspace.deciders import ALWAYS, PROGRAM, Decider, why_not_approver
from runtime.workspace.question import asked_steps
from runtime.workspace.runs import Reader, RunResult, open_question
from runtime.workspace.workspace import is_locked
from runtime.workspace.worktrees import folder_of_user

TOO_LATE = "the run ended before this could be taken up"
"""How the warning about what was said to a run that then ended begins."""
MESSAGE_BYTES = 1_000_000
"""Of the largest message to a run."""


class Inbox(KernelInbox):
    """The messages to one run, as its loops take them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def messages(
        self, kinds: Sequence[str], warn: Callable[[str], None] | None = None
    ) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """The messages of these kinds, oldest first; the caller marks handled ones with `taken`.

        An invalid file is set aside with a call of `warn`; without `warn` it is skipped.
        """
        for path in sorted((self.folder / "inbox").glob("*.json")):
            kind = path.stem.partition("-")[2]
            if kind in kinds:
                try:
                    message: Any = json.loads(disk.read(path, MESSAGE_BYTES).decode("utf-8"))
                    if not isinstance(message, dict) or message["kind"] != kind:
                        raise ValueError(f'it is no object with "kind": "{kind}"')
                except FileNotFoundError:  # another process has taken it
                    continue
                except Exception as error:
                    if warn:
                        self.set_aside(path, error, warn)
                else:
                    yield path, redacted(message, of_run(self.folder).reveal)

    def set_aside(self, path: Path, error: Exception, warn: Callable[[str], None]) -> None:
        """Give a file that is no message another name, so that it is not read again."""
        aside = path.with_suffix(".bad")
        with disk.writing_state(path):
            disk.move(path, aside)
        warn(f"{path}: not a message: {explained(error)}; it is now {aside.name}")

    def taken(self, path: Path) -> None:
        """Remove a message that was acted on."""
        with disk.writing_state(path):
            path.unlink(missing_ok=True)

    def listen(self, run_context: RunContext, waiting: Collection[str]) -> list[str]:
        """Apply what answers these waiting loops to their documents; returns the ids of those to wake."""
        return answering.listen(run_context, self, waiting)

    def hear(self, session: Session) -> bool:
        """Add to §1 what this loop has not heard; whether there was anything."""
        return answering.hear(self, session)

    def cancelled(self, warn: Callable[[str], None]) -> tuple[str, Callable[[], None]] | None:
        """Who has cancelled the run and why, and what removes the message; None if nobody has."""
        for path, message in self.messages(("cancel",), warn):
            why = str(message.get("why", ""))
            text = f"cancelled by {Decider.read(message)}{': ' if why else ''}{why}"
            return text, partial(self.taken, path)
        return None


def drop(folder: Path, kind: str, **values: Any) -> Path:
    """Leave a message for a run, whoever holds it. Returns its file."""
    inbox = folder / "inbox"
    with disk.writing_state(inbox):
        inbox.mkdir(exist_ok=True)
    number = max((int(each.name[:4]) for each in inbox.glob("[0-9][0-9][0-9][0-9]-*")), default=-1) + 1
    raw = json.dumps({"kind": kind, **redacted(values, of_run(folder).conceal)}).encode()
    if len(raw) > MESSAGE_BYTES:
        raise UsageError(
            f"the text has {len(raw):,} bytes, and a message to a run at most {MESSAGE_BYTES:,}; "
            "write it to a file, and say where that is"
        )
    swept = 0
    while True:
        path = inbox / f"{number:04d}-{kind}.json"
        with disk.writing_state(path):
            try:
                disk.create(path, raw)
                return path
            except FileExistsError:
                number += 1
            except FileNotFoundError:  # a run that begins just now has swept the half-written message away
                swept += 1
                if swept > 3:
                    raise


def unheard(folder: Path) -> list[tuple[Path, str]]:
    """What was said to a run and no loop has taken up: each message's file and its text, oldest first."""
    return [(path, str(message.get("text", ""))) for path, message in Inbox(folder).messages(("say",))]


@dataclass(frozen=True)
class Said:
    """A person's reply: the kind of message and its values."""

    kind: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])


def vetoed(why: str) -> Said:
    """A veto as what the run is told."""
    return Said("cancel", {"why": f"veto{': ' if why else ''}{why}"})


@dataclass(frozen=True)
class Person:
    """Who is asked while a run waits. Each callback gets the question; an empty reply defers it.

    Without `approve`, approvals are deferred.
    """

    answer: Callable[[str], Awaitable[str]]
    approve: Callable[[str], Awaitable[Said | None]] | None = None
    by: Decider = PROGRAM


async def ask(
    person: Person | None, result: RunResult, document: Document | None, *, plan_only: bool
) -> Said | None:
    """Ask the person what a `document` of the run waits for; None without a person, or if they defer it."""
    question = document.note(1, "question") if document else None
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
    """Leave a message for a run; True when a process works on it. `trusted`: clients that may do more."""
    folder = reader.workspace.runs / run
    root = reader.root_document(run)
    if root.ended:
        hint = (
            f"follow it up: fractal run --after {run} …" if kind == "say" else f"there is nothing to {kind}"
        )
        raise UsageError(f"run {run} has ended ({root.meta.status}); {hint}")
    about: Mapping[str, Any] = {}
    if kind == "say":
        if not str(values.get("text", "")).strip():
            raise UsageError("there is nothing to say: the text is empty")
        about = {"at": now()}
    elif kind != "cancel":
        document = _open_question(reader, run, kind)
        if kind == "nudge" and not str(values.get("why", "")).strip():
            raise UsageError("say what to do differently: the text is empty")
        if kind == "approve" and (why := why_not_approver(by, asked_steps(document), trusted)):
            raise UsageError(f"{why}\napprove it at a terminal: fractal approve {run}")
        if kind == "approve" and (why := reader.asked(document).problem):
            raise UsageError(why)
        if scope := values.get("scope"):
            if by.kind == "client":
                raise UsageError("a client approves one call at a time")
            place, steps = folder_of_user(root.meta), document.steps.values()
            if why := offers(reader.workspace, place, steps).refusal(scope):
                raise UsageError(f"{why}; approve this one: fractal approve {run}")
            if scope == ALWAYS:
                keep(reader.workspace, place, steps)
        about = _about(document)
    drop(folder, kind, **values, **about, by=by.values)
    return is_locked(folder)


def offered(reader: Reader, run: str) -> Offers:
    """What can be approved beyond the steps that a run waits with."""
    place = folder_of_user(reader.root_document(run).meta)
    return offers(reader.workspace, place, _open_question(reader, run, "approve").steps.values())


def _open_question(reader: Reader, run: str, kind: str) -> Document:
    """The document whose open question a message is about."""
    waits_for, expected = ("person", "answer") if kind == "answer" else ("approval", "approval")
    if document := open_question(reader.documents(run), waits_for):
        return document
    raise UsageError(f"run {run} waits for no {expected} now; `fractal tree {run}` shows what it does")


def _about(document: Document) -> dict[str, Any]:
    """What a message says of its question, so that it is never taken for an answer to a later one."""
    meta = document.meta
    question = (meta.waiting or {}).get("question", "")
    about = {"question": question, "answers": answers(document), "plan": plan_digest(document)}
    return {"loop": meta.id, "attempt": meta.attempt, **about}
