"""Outcomes that clients report: on disk before they are accepted, then taken into memory in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

from kernel.errors import FractalError
from runtime.api.fractal import Fractal
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.outcomes import Outcome, take_in
from runtime.secrets.redaction import redact
from runtime.server.journal import Journal

BATCH = 64
"""Outcomes that are embedded and stored together."""
GATHER = 0.5
"""Seconds in which outcomes gather, to be stored together."""
REST = 20
"""Comparing attempts pauses so many times as long as it has worked: requests come first."""
AGAIN = 15.0
"""Seconds until the journal is looked at again, also after it could not be taken in."""


class Outcomes:
    """Accepts outcomes and takes them into memory in the background. Belongs to one event loop."""

    def __init__(self, fractal: Fractal) -> None:
        self.fractal = fractal
        self.trouble = ""
        self._arriving: list[tuple[str, asyncio.Future[None]]] = []
        self._arrived, self._on_disk = asyncio.Event(), asyncio.Event()
        self._uncompared: dict[str, StoredAttempt] = {}  # the last new attempt of each type
        self._tasks: list[asyncio.Task[None]] = []

    @cached_property
    def journal(self) -> Journal:
        """The journal of this memory."""
        memory = self.fractal.memory
        return Journal(memory.folder / "outcomes", fsync=memory.config.fsync)

    def start(self) -> None:
        """Begin to work, first at what an earlier process has left."""
        self._on_disk.set()
        self._tasks = [asyncio.create_task(each()) for each in (self._write, self._take, self._compare)]

    async def close(self) -> None:
        """Stop; what is accepted and not taken in waits for the next server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def accept(self, outcome: Outcome) -> None:
        """Return when the outcome is on disk. Raises `FractalError` if it is not accepted."""
        written = asyncio.get_running_loop().create_future()
        self._arriving.append((outcome.model_dump_json(), written))
        self._arrived.set()
        await written

    async def _write(self) -> None:
        """Write what arrived meanwhile with one fsync."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            arriving, self._arriving = self._arriving, []
            try:
                await asyncio.to_thread(self.journal.append, [line for line, _ in arriving])
            except Exception as error:  # each client is told, and the next ones are served
                _each(arriving, lambda future, error=error: future.set_exception(error))
            else:
                _each(arriving, lambda future: future.set_result(None))
                self._on_disk.set()

    async def _take(self) -> None:
        while True:
            with suppress(TimeoutError):  # another server may have left some meanwhile
                await asyncio.wait_for(self._on_disk.wait(), AGAIN)
            await asyncio.sleep(GATHER)
            self._on_disk.clear()
            try:
                await asyncio.to_thread(self._take_in)
                self.trouble = ""
            except Exception as error:  # whatever it is, the outcomes stay in the journal
                self.trouble = _in_words(error)
                await asyncio.sleep(AGAIN)

    def _take_in(self) -> None:
        memory, more = self.fractal.memory, True
        while more:
            with self.journal.taken() as outcomes:
                more = outcomes is not None
                for start in range(0, len(outcomes or ()), BATCH):
                    learning = memory.learning if memory.config.learn != "off" else None
                    new = take_in(memory.brain, learning, (outcomes or [])[start : start + BATCH])
                    self._uncompared.update({each.type: each for each in new})

    async def _compare(self) -> None:
        """Compare the attempts of each type that has new ones, in a small share of the time."""
        while True:
            await asyncio.sleep(GATHER)
            for type in list(self._uncompared):
                began = time.monotonic()
                try:
                    await asyncio.to_thread(self.fractal.memory.learning.learn, self._uncompared.pop(type))
                except Exception as error:  # the next outcome of the type compares them all
                    self.trouble = _in_words(error)
                await asyncio.sleep(REST * (time.monotonic() - began))


def _in_words(error: Exception) -> str:
    return redact(str(error) if isinstance(error, FractalError) else f"internal error: {error!r}")


def _each(
    arriving: Sequence[tuple[str, asyncio.Future[None]]], settle: Callable[[asyncio.Future[None]], None]
) -> None:
    for _, future in arriving:
        if not future.done():  # the client may be gone
            settle(future)
