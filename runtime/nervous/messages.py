"""Messages between worker, oversight and human: an append-only store with two streams.

Nothing is changed once it is written: a decision, an answer or the end of a thread is a message of its own. A
message of a run has an id that is made of what it is about, so that a crash between two writes leads to no
second one. The id of a message in a thread begins with that of the thread. Open threads have an index, so
that history costs nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from kernel import disk
from kernel.document.escaping import block, code_span
from kernel.document.texts import cut
from kernel.errors import UsageError
from runtime.memory.store import Record, Shelf
from runtime.secrets.redaction import redact
from runtime.text.lines import flat
from runtime.workspace.deciders import Decider

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
RUN = r"^[a-z0-9]{0,40}$"
"""The id of a run, or of none: it is the name of a folder."""
LONGEST = 50_000
"""Characters of a message. A longer result is cut, a longer task or reply is refused."""


class Message(Record):
    """One message; `text` is what it says. Records of one thread name its first message in `in_reply_to`."""

    KIND: ClassVar[str] = "message"

    stream: Stream = "reports"
    type: Type = "observation"
    sender: str = ""  # an agent, a model, a person, an MCP client
    tier: Tier = "worker"
    to: str = ""  # an agent; "": whoever reads the stream
    category: str = ""  # of an escalation or grant: statistics, code, …
    run: str = Field(default="", pattern=RUN)
    place: str = ""  # the workspace that wrote it, where several share the messages
    loop: str = ""
    step: int = 0
    in_reply_to: str = ""
    status: Literal["open", "closed"] = "closed"  # what the message makes of its thread
    at: str = ""  # ISO 8601, UTC
    data: dict[str, Any] = Field(default_factory=dict[str, Any])  # confidence, dangers, tools, …


class OpenThread(Record):
    """What the index holds of a thread that waits: made of its messages, deleted when it is closed."""

    KIND: ClassVar[str] = "open-thread"

    type: Type = "observation"
    to: str = ""
    run: str = Field(default="", pattern=RUN)
    place: str = ""  # the workspace of the run, where several share the messages
    taken: bool = False  # whether a beat has taken it up, with the run that works on it
    at: str = ""
    replies: list[str] = Field(default_factory=list[str])  # the ids of the messages that followed


class _Index(Record):
    """Says that the index of open threads is there; one record."""

    KIND: ClassVar[str] = "open-thread-index"


_INDEX = _Index(id="index")


class Messages:
    """The messages of a workspace: in the shelf of its memory, and as markdown for people in `folder`."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self.shelf, self.folder = shelf, folder

    def write(self, *about: str, **fields: Any) -> Message:
        """Add a message, and its markdown. With `about`, the same one again changes nothing.

        A message to a message of a thread is one to the thread.
        """
        thread = fields["in_reply_to"] = thread_of(fields.get("in_reply_to", ""))
        fields["text"] = cut(fields.get("text", ""), LONGEST, "the document of the run")
        id = ".".join(filter(None, (thread, named(*about) if about else os.urandom(12).hex())))
        if about and (known := self.get(id)):
            return known
        with self.shelf.transaction():
            if known := self.get(id):
                return known
            message = Message(id=id, **{"at": exact_now(), "place": self.shelf.keeper.here, **fields})
            self._need_index()
            entry = self.shelf.get(OpenThread, thread) if thread else None
            self.shelf.put(message)
            self._note(entry, _followed(entry, message))
        with suppress(OSError):  # `render` makes up for markdown that could not be written
            self._show(message)
        return message

    def guide(self, first: Message, *about: str, type: str, text: str, by: Decider, **fields: Any) -> Message:
        """Add a message of this decider to the thread of `first`, for the sender of that one."""
        known = {name: getattr(first, name) for name in ("run", "loop", "category")}
        known |= {"in_reply_to": first.id, "to": first.sender, "sender": by.name or by.kind}
        known |= {"stream": "guidance", "tier": tier_of(by), "data": {"by": by.values}}
        return self.write(*about, type=type, text=text, **{**known, **fields})

    def get(self, id: str) -> Message | None:
        """A message by its id."""
        return self.shelf.get(Message, id)

    def all(self, **where: Any) -> list[Message]:
        """The messages with these fields, oldest first."""
        return _sorted(self.shelf.scan(Message, where or None))

    def thread(self, id: str) -> list[Message]:
        """A message and what followed it, oldest first."""
        if entry := self.shelf.get(OpenThread, id):
            return _sorted(self.shelf.pick(Message, [id, *entry.replies]))
        first = self.shelf.pick(Message, [id])
        rest = takewhile(lambda each: thread_of(each.id) == id, self.shelf.scan(Message, after=id))
        return _sorted([*first, *rest])

    def threads(self) -> list[OpenThread]:
        """The threads that wait for a reply, or for their reply to be taken; oldest first."""
        if self.shelf.get(_Index, _INDEX.id) is None:
            with self.shelf.transaction():
                self._need_index()
        return sorted(self.shelf.scan(OpenThread), key=lambda each: (each.at, each.id))

    def is_elsewhere(self, thread: OpenThread) -> bool:
        """Whether its run is in another workspace that shares the messages."""
        return bool(thread.run) and thread.place != self.shelf.keeper.here

    def open(self) -> list[list[Message]]:
        """The same, each with its messages."""
        return [messages for each in self.threads() if (messages := self.thread(each.id))]

    def find(self, name: str) -> OpenThread:
        """The open thread that a name means: its id, or the beginning of it. Raises `UsageError`."""
        start = thread_of(name)
        found = [each for each in self.threads() if start and each.id.startswith(start)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name} could be {', '.join(each.id for each in found[:4])}; give more letters")
        raise UsageError(f"there is no open message {name}; `fractal messages --open` lists them")

    def _need_index(self) -> None:
        """Make the index of open threads from all messages, if it is missing."""
        if self.shelf.get(_Index, _INDEX.id):
            return
        entries: dict[str, OpenThread | None] = {}
        for message in sorted(self.shelf.scan(Message), key=lambda each: (bool(each.in_reply_to), each.at)):
            thread = thread_of(message.id)
            entries[thread] = _followed(entries.get(thread), message)
        self.shelf.put(_INDEX, *filter(None, entries.values()))

    def _note(self, before: OpenThread | None, entry: OpenThread | None) -> None:
        if entry:
            self.shelf.put(entry)
        elif before:
            self.shelf.delete(OpenThread, before.id)

    def render(self) -> list[Path]:
        """Write the markdown and the index of all messages anew; returns the files."""
        with self.shelf.transaction():
            self.shelf.delete(OpenThread, *(row.id for row in self.shelf.rows(OpenThread.KIND)))
            self.shelf.delete(_Index, _INDEX.id)
            self._need_index()
        days: dict[str, list[Message]] = {}
        for message in self.all():
            days.setdefault(message.at[:10], []).append(message)
        for day, messages in days.items():
            with disk.writing_state(self.folder):
                disk.put(self._day(day), _raw(redact("".join([_title(day), *map(rendered, messages)]))))
        return [self._day(day) for day in days]

    def _show(self, message: Message) -> None:
        path = self._day(day := message.at[:10])
        self.folder.mkdir(parents=True, exist_ok=True)
        title = "" if path.exists() else _title(day)
        disk.append(path, _raw(redact(title + rendered(message))), fsync=False, make=True)

    def _day(self, day: str) -> Path:
        return self.folder / (f"{day}.md" if day.replace("-", "").isdigit() else "undated.md")


def rendered(message: Message) -> str:
    """A message as markdown."""
    place = f"run {message.run}" if message.run else ""
    who = f"{message.tier}{f' {message.sender}' if message.sender else ''}"
    what = f"{message.type}{f' ({message.category})' if message.category else ''}"
    about = [f"`{message.id}`", place, f"in reply to `{message.in_reply_to}`" if message.in_reply_to else ""]
    body = "\n".join(block(message.text)) if message.text else ""
    shown = {key: value for key, value in message.data.items() if key not in ("by", "taken")}
    data = "\n".join(f"- {key}: {code_span(value)}" for key, value in shown.items())
    head = "".join(filter(str.isprintable, flat(f"## {message.at[11:19]} {who}: {what}")))
    return "".join(f"\n{part}\n" for part in (head, ", ".join(filter(None, about)), body, data) if part)


def tier_of(by: Decider) -> Tier:
    """The tier of a decider: a rule of the system, or a client, which may be a program, is no human."""
    return "oversight" if by.kind in ("oversight", "policy", "client") else "human"


def _title(day: str) -> str:
    return f"# Messages of {day}\n"


def thread_of(id: str) -> str:
    """The id of the thread that a message belongs to."""
    return id.partition(".")[0]


def _followed(entry: OpenThread | None, message: Message) -> OpenThread | None:
    """What the index holds of a thread after this message of it; None: it is not open."""
    if not message.in_reply_to:
        fields = message.model_dump(include={"id", "type", "to", "run", "place", "at"})
        return OpenThread(**fields) if message.status == "open" else None
    if entry is None or message.type == "outcome":
        return None
    more: dict[str, Any] = {"replies": [*entry.replies, message.id]}
    if message.data.get("taken"):
        more |= {"taken": True, "run": message.run, "place": message.place}
    return entry.model_copy(update=more)


def _sorted(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda each: (each.at, each.id))


def exact_now() -> str:
    """The time to the microsecond: the messages of one millisecond have an order, too."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def named(*about: str) -> str:
    """The id of the message about this."""
    return hashlib.sha256("\0".join(about).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
