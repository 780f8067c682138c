"""Messages between worker, oversight and human: an append-only store with two streams.

Nothing is changed once it is written: a decision, an answer or the end of a thread is a message of its own. A
message of a run has an id that is made of what it is about, so that a crash between two writes leads to no
second one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from kernel import disk
from kernel.document.model import now
from runtime.memory.store import Record, Shelf
from runtime.text.lines import flat

Stream = Literal["guidance", "reports"]
"""`guidance` is for the worker, from oversight and human; `reports` is for them, from the worker."""
Tier = Literal["worker", "oversight", "human"]
Type = Literal[
    "task", "proposal", "question", "escalation", "outcome", "observation", "request_design", "test_report",
    "approve", "nudge", "reject", "veto", "answer", "teaching", "grant", "revoke", "design",
]  # fmt: skip
DECISIONS: tuple[Type, ...] = ("approve", "nudge", "reject", "veto")
REPLIES: tuple[Type, ...] = (*DECISIONS, "answer")
"""Types that close the thread of a proposal, question or escalation."""
ASKING: tuple[Type, ...] = ("proposal", "question", "escalation", "request_design")
"""Types of the worker that somebody has to reply to."""


class Message(Record):
    """One message; `text` is what it says. Records of one thread name its first message in `in_reply_to`."""

    KIND: ClassVar[str] = "message"

    stream: Stream = "reports"
    type: Type = "observation"
    sender: str = ""  # an agent, a model, a person, an MCP client
    tier: Tier = "worker"
    to: str = ""  # an agent; "": whoever reads the stream
    category: str = ""  # of an escalation or grant: statistics, code, …
    run: str = ""
    loop: str = ""
    step: int = 0
    in_reply_to: str = ""
    status: Literal["open", "closed"] = "closed"  # what the message makes of its thread
    at: str = ""  # ISO 8601, UTC
    data: dict[str, Any] = Field(default_factory=dict[str, Any])  # confidence, dangers, tools, …


class Messages:
    """The messages of a workspace: in the shelf of its memory, and as markdown for people in `folder`."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self.shelf, self.folder = shelf, folder

    def write(self, *about: str, **fields: Any) -> Message:
        """Add a message, and its markdown. With `about`, the same one again changes nothing."""
        at = fields.setdefault("at", now())
        message = Message(id=_named(about) if about else _new(), **fields)
        with self.shelf.transaction():
            if known := self.shelf.get(Message, message.id):
                return known
            self.shelf.put(message)
        self._show(at[:10], [message])
        return message

    def get(self, id: str) -> Message | None:
        """A message by its id."""
        return self.shelf.get(Message, id)

    def all(self, **where: Any) -> list[Message]:
        """The messages with these fields, oldest first."""
        return _sorted(self.shelf.scan(Message, where or None))

    def thread(self, id: str) -> list[Message]:
        """A message and what followed it, oldest first."""
        first = self.get(id)
        return [*([first] if first else []), *self.all(in_reply_to=id)]

    def open(self) -> list[list[Message]]:
        """The threads that wait for a reply, or for their reply to be taken: each with its messages."""
        asked = self.all(status="open")
        return [self.thread(each.id) for each in asked if not self._closed(each.id)]

    def _closed(self, id: str) -> bool:
        return any(True for _ in self.shelf.scan(Message, {"in_reply_to": id, "type": "outcome"}))

    def render(self) -> list[Path]:
        """Write the markdown of all messages anew; returns the files."""
        days: dict[str, list[Message]] = {}
        for message in self.all():
            days.setdefault(message.at[:10], []).append(message)
        for day, messages in days.items():
            with disk.writing_state(self.folder):
                disk.put(self._day(day), "".join([_title(day), *map(rendered, messages)]).encode())
        return [self._day(day) for day in days]

    def _show(self, day: str, messages: Sequence[Message]) -> None:
        path, text = self._day(day), "".join(map(rendered, messages))
        self.folder.mkdir(parents=True, exist_ok=True)
        with disk.writing_state(path):
            try:
                disk.create(path, (_title(day) + text).encode())
            except FileExistsError:
                disk.append(path, text.encode(), fsync=False)

    def _day(self, day: str) -> Path:
        return self.folder / f"{day}.md"


def rendered(message: Message) -> str:
    """A message as markdown."""
    place = f"run {message.run}" if message.run else ""
    who = f"{message.tier}{f' {message.sender}' if message.sender else ''}"
    what = f"{message.type}{f' ({message.category})' if message.category else ''}"
    head = f"\n## {message.at[11:19]} {who}: {what}\n\n"
    about = [f"`{message.id}`", place, f"in reply to `{message.in_reply_to}`" if message.in_reply_to else ""]
    body = "\n".join(f"> {line}".rstrip() for line in message.text.splitlines())
    data = "".join(f"- {key}: {flat(str(value))}\n" for key, value in message.data.items())
    return f"{head}{', '.join(filter(None, about))}\n\n{body}\n{f'{chr(10)}{data}' if data else ''}"


def _title(day: str) -> str:
    return f"# Messages of {day}\n"


def _sorted(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda each: (each.at, each.id))


def _named(about: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(about).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _new() -> str:
    """An id that sorts by time."""
    return f"{time.time_ns():020d}"[:17] + os.urandom(4).hex()
