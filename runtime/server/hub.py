"""The events of all runs as a numbered stream.

One ring of the newest events serves all clients: a client is a place in it. A slow client loses events and is
told to read the state anew; it holds no memory and delays nobody.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kernel.events import Event

KEPT = 5_000
"""Events in the ring."""
MOST_CLIENTS = 500
"""Streams at the same time."""
HEARTBEAT = 15.0
"""Seconds without an event after which a stream shows that it is alive."""
PIECES = 2_000
"""Pieces of replies that are kept for those who follow them."""
RELOAD = "reload"
"""The event that tells a client to read the state anew: it has missed events."""


@dataclass(frozen=True)
class Sent:
    """A piece of a stream. `text` is the event as JSON; "" for a heartbeat, which has only the id."""

    id: str
    text: str = ""
    kind: str = ""

    def as_sse(self) -> str:
        """The piece as a server-sent event. A client keeps its id, also that of a heartbeat."""
        if not self.id:  # a piece of a reply, which nobody gets again
            return f"data: {self.text}\n\n"
        name = f"event: {RELOAD}\n" if self.kind == RELOAD else ""
        return f"id: {self.id}\n{name}data: {self.text}\n\n" if self.text else f": alive\nid: {self.id}\n\n"

    def as_message(self) -> str:
        """The piece as a WebSocket message: the event with its id."""
        return f'{{"id": "{self.id}", {(self.text or "{}")[1:]}' if self.text else f'{{"id": "{self.id}"}}'


class Hub:
    """The newest events of this process. Belongs to one event loop.

    An id is `EPOCH-NUMBER`; the epoch is of this process, so that an id of an earlier one is recognised.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._epoch = secrets.token_hex(4)
        self._ring: deque[tuple[str, str, str]] = deque(maxlen=kept)  # run, kind, JSON
        self._count = 0
        self._pieces: deque[tuple[int, str, str]] = deque(maxlen=PIECES)  # events before it, run, JSON
        self._piece_count = 0
        self._more = asyncio.Event()  # a new one after each event
        self.listened = asyncio.Event()
        self.clients = 0
        self.closed = False

    @property
    def newest(self) -> str:
        """The id of the newest event: a page that shows the state of now follows `after` it."""
        return self._id(self._count)

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def hear(self, event: Event) -> None:
        """Take an event of a run. Pieces of replies and of thinking would push out the others."""
        if event.kind not in ("reply_delta", "thinking_delta"):
            self.publish(event.as_dict())
        elif event.kind == "reply_delta":
            text = json.dumps(event.as_dict(), ensure_ascii=False, default=str).encode("utf-8", "replace")
            self._pieces.append((self._count, event.run, text.decode()))
            self._piece_count += 1
            self._wake()

    def publish(self, event: Mapping[str, Any]) -> None:
        """Add an event, which has at least `kind`, and `run` if it is about one."""
        raw = json.dumps(event, ensure_ascii=False, default=str).encode("utf-8", "replace")
        self._ring.append((str(event.get("run", "")), str(event["kind"]), raw.decode()))
        self._count += 1
        self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._wake()

    async def follow(self, after: str = "", run: str = "", *, text: bool = False) -> AsyncGenerator[Sent]:
        """The events after an id (""; from now on), of one run or of all, with heartbeats.

        With `text` also the pieces of replies that are being written from now on. They have no id.

        Begins with the place where it stands: a client that is cut off before any event misses nothing.
        """
        heard = self._piece_count
        at = self._number(after) if after else self._count
        if at is None:
            at = self._count
            yield self._reload(at)
        else:
            yield Sent(self._id(at))
        while not self.closed:
            heard = max(heard, self._piece_count - len(self._pieces))
            if text and heard < self._piece_count and self._pieces[heard - self._piece_count][0] <= at:
                _, of, piece = self._pieces[heard - self._piece_count]
                heard += 1
                if run in ("", of):
                    yield Sent("", piece, "reply_delta")
            elif at < self._count - len(self._ring):
                at = self._count
                yield self._reload(at)
            elif at < self._count:
                of, kind, data = self._ring[at - self._count]
                at += 1
                if run in ("", of):
                    yield Sent(self._id(at), data, kind)
            else:
                try:
                    await asyncio.wait_for(self._more.wait(), HEARTBEAT)
                except TimeoutError:
                    yield Sent(self._id(at))

    def _reload(self, at: int) -> Sent:
        return Sent(self._id(at), json.dumps({"kind": RELOAD}), RELOAD)

    def _number(self, id: str) -> int | None:
        """The number of an event of this process that is still in the ring, or just before it; else None."""
        epoch, _, number = id.partition("-")
        if epoch != self._epoch or not number.isdecimal() or len(number) > 15:
            return None
        return int(number) if self._count - len(self._ring) <= int(number) <= self._count else None

    @property
    def full(self) -> bool:
        """Whether no more client can follow."""
        return self.clients >= MOST_CLIENTS or self.closed

    @contextmanager
    def client(self) -> Generator[None]:
        """Count a client while it follows."""
        self.clients += 1
        self.listened.set()
        try:
            yield
        finally:
            self.clients -= 1
            if not self.clients:
                self.listened.clear()
