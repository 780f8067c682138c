"""Outcomes that clients report: on disk before they are accepted, then taken into memory in batches.

The journal is in `outcomes/` of the memory: `accepted.jsonl` grows, `taking.jsonl` is being taken in, and
`unreadable.jsonl` keeps lines that are no outcome. Several servers may share it. What is taken in again after
a crash changes nothing, because an outcome has an id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from kernel import disk
from kernel.errors import FractalError, StorageError, UsageError
from runtime.api.fractal import Fractal
from runtime.memory.learning.attempts import StoredAttempt
from runtime.memory.learning.outcomes import Outcome, take_in

BATCH = 64
"""Outcomes that are embedded and stored together."""
LARGEST = 64_000_000
"""Bytes of outcomes that wait, at most."""
PATIENCE = 10.0
"""Seconds to wait for another server that writes the journal."""
GATHER = 0.5
"""Seconds in which outcomes gather, to be stored together."""
REST = 20
"""Comparing attempts pauses so many times as long as it has worked: requests come first."""
AGAIN = 15.0
"""Seconds until the journal is looked at again, also after it could not be taken in."""


class Journal:
    """The outcomes of one memory that are accepted and not taken in. Its methods block."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder, self.fsync = folder, fsync
        self.accepted, self.taking = folder / "accepted.jsonl", folder / "taking.jsonl"

    def append(self, lines: Sequence[str]) -> None:
        """Put lines on disk. Raises `StorageError`."""
        with self._lock(), disk.writing_state(self.accepted):
            size = self.accepted.stat().st_size if self.accepted.exists() else 0
            if size > LARGEST:
                raise StorageError(
                    f"{self.accepted}: {size:,} bytes of outcomes wait to be taken in; try later"
                )
            raw = "".join(f"{line}\n" for line in lines).encode("utf-8")
            if size and not self._ends_well():
                raw = b"\n" + raw  # a killed process left half a line
            disk.append(self.accepted, raw, fsync=self.fsync, make=True)
            if not size:
                disk.sync(self.folder)

    def _ends_well(self) -> bool:
        with disk.opened(self.accepted) as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    @contextmanager
    def taken(self) -> Generator[list[Outcome] | None]:
        """Outcomes that were accepted; they are removed after the block, unless that raises an error.

        None if there are none, or if another process is taking them.
        """
        if not (self.accepted.exists() or self.taking.exists()):
            yield None
            return
        with disk.lock_file(self.folder / ".taking") as handle:
            if not disk.try_lock(handle):
                yield None
                return
            with self._lock(), disk.writing_state(self.taking):
                if not self.taking.exists() and self.accepted.exists():
                    disk.move(self.accepted, self.taking)
                raw = disk.read(self.taking) if self.taking.exists() else b""
            if not raw:
                yield None
                return
            outcomes, unreadable = _parsed(raw.decode("utf-8", "replace").split("\n"))
            yield outcomes
            with disk.writing_state(self.taking):
                if unreadable:
                    raw = "".join(f"{line}\n" for line in unreadable).encode("utf-8")
                    disk.append(self.folder / "unreadable.jsonl", raw, make=True)
                disk.remove(self.taking)

    def count(self) -> int:
        """The number of outcomes that wait."""
        waiting = 0
        for path in (self.accepted, self.taking):
            with suppress(OSError):
                waiting += disk.read(path).count(b"\n")
        return waiting

    def _lock(self) -> AbstractContextManager[None]:
        busy = StorageError(
            f"{self.folder}: another process has been writing for {PATIENCE:.0f} seconds; try again"
        )
        return disk.lock(self.folder / ".lock", PATIENCE, lambda: busy)


def _parsed(lines: Sequence[str]) -> tuple[list[Outcome], list[str]]:
    outcomes: list[Outcome] = []
    unreadable: list[str] = []
    for line in filter(None, lines):
        try:
            outcomes.append(Outcome.model_validate_json(line))
        except ValidationError:
            unreadable.append(line)
    return outcomes, unreadable


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
        if not self.fractal.config.remember:
            raise UsageError("this workspace remembers nothing (remember: false), so it takes no outcomes")
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
    return str(error) if isinstance(error, FractalError) else f"internal error: {error!r}"


def _each(
    arriving: Sequence[tuple[str, asyncio.Future[None]]], settle: Callable[[asyncio.Future[None]], None]
) -> None:
    for _, future in arriving:
        if not future.done():  # the client may be gone
            settle(future)
