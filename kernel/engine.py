"""Drives the loops of one run in one process: who is woken, for how long, and how it all stops.

It decides nothing about a loop: `loop.advance` does. A wake may be lost or come twice; when nothing moves,
every loop that waits for children is looked at once more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from kernel.budget import Amount
from kernel.children import below, ended_child
from kernel.document import Step
from kernel.ends import finish
from kernel.errors import DocumentError, FractalError, explained, place, raised_as
from kernel.loop import Outcome, advance, outcome
from kernel.person import listen
from kernel.returning import open_loops
from kernel.steps import Waiting
from kernel.workspace import messages, root_id, taken
from kernel.world import Held, World

POLL = 0.25
"""Seconds between two looks into the inbox and at the clock, while loops are at work."""

FAULTS = 3
"""Faults of our own code that a loop is gone on with after, where each is another one."""


class Clock:
    """Seconds of activity; waiting for a person does not count."""

    def __init__(self, earlier: float = 0.0) -> None:
        self._before = earlier
        self._since = time.monotonic()
        self._patient = 0

    def seconds(self) -> float:
        """Active seconds of this run so far, those of earlier sessions included."""
        return self._before + (0.0 if self._patient else time.monotonic() - self._since)

    @contextmanager
    def patient(self) -> Generator[None]:
        """While a person is being asked the clock stands."""
        if not self._patient:
            self._before = self.seconds()
        self._patient += 1
        try:
            yield
        finally:
            self._patient -= 1
            self._since = time.monotonic()


class Engine:
    """One session with one run."""

    def __init__(self, world: World, folder: Path, clock: Clock) -> None:
        self.world = world
        self.folder = folder
        self.clock = clock
        self.root = root_id(world.run)
        self._pending: list[str] = []
        self._tasks: dict[str, asyncio.Task[Outcome | Waiting]] = {}
        self._again: set[str] = set()
        self._waiting: dict[str, Waiting] = {}
        self._left: set[str] = set()
        self._moved = 0  # loops that ended in this session
        self._seen: tuple[tuple[str, ...], int] | None = None

    def wake(self, loop_id: str) -> None:
        """A hint that this loop may be able to go on."""
        if loop_id in self._tasks:
            self._again.add(loop_id)
        elif loop_id not in self._pending:
            self._pending.append(loop_id)

    async def drive(self) -> Outcome | Waiting:
        """Go on with every unfinished loop until the root has ended, or everything that is left waits.

        Who cancels this finds the run saved as interrupted. A fault of our own code interrupts the run, too;
        one that comes again at the same place of a loop ends that loop as failed.
        """
        self._take_up()
        try:
            if self._cancelled():
                await self._stop("cancelled")
            self._hear()
            while self._pending or self._tasks or self._look_again():
                self._start()
                await asyncio.wait(self._tasks.values(), timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                await self._collect()
                self._hear()
                if self._out_of_time():
                    await self._stop("exhausted")
                elif self._cancelled():
                    await self._stop("cancelled")
        except (asyncio.CancelledError, Exception):
            await self._stop("interrupted")
            raise
        return self._result()

    def _start(self) -> None:
        for loop_id in self._pending:
            self._waiting.pop(loop_id, None)
            self._tasks[loop_id] = asyncio.create_task(advance(self.world, loop_id), name=loop_id)
        self._pending.clear()

    async def _collect(self) -> None:
        for loop_id, task in list(self._tasks.items()):
            if not task.done():
                continue
            del self._tasks[loop_id]
            try:
                got = task.result()
            except FractalError:
                raise
            except Exception as error:
                with raised_as(DocumentError, f"{loop_id}.md cannot be gone on with"):
                    await self._stumbled(loop_id, error)
                continue
            if isinstance(got, Waiting):
                self._waiting[loop_id] = got
            else:
                self._moved += 1
            if loop_id in self._again:
                self._again.discard(loop_id)
                self.wake(loop_id)

    async def _stumbled(self, loop_id: str, error: Exception) -> None:
        """Our own code failed in a loop: say so in its document; the second time there, the loop ends."""
        held = Held(self.world, self.world.store.load(loop_id))  # as it was saved last
        where = f"{held.doc.meta.phase.upper()}, attempt {held.doc.meta.attempt}"
        what = f"{where}: a fault in Fractal itself: {explained(error)} ({place(error)})"
        faults = held.doc.meta.extra.get("faults", [])
        if what not in faults and len(faults) < FAULTS:
            held.meta(extra={**held.doc.meta.extra, "faults": [*faults, what]}, status="interrupted")
            held.save()
            self.world.warn(what, loop_id)
            raise FractalError(f"{loop_id}.md: {what}") from error
        for inner in reversed(below(held, loop_id)):
            if task := self._tasks.pop(inner, None):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            with suppress(DocumentError):
                held = Held(self.world, self.world.store.load(inner))
                if not held.doc.ended:
                    _end(held, "failed", what)

    def _look_again(self) -> bool:
        """Nothing moves: a wake may have been lost, so look at each loop, until that changes nothing."""
        if self.world.stopping or self.world.store.ended(self.root):
            return False
        left = self.world.store.unfinished()
        if (seen := (tuple(left), self._moved)) == self._seen:
            return False
        self._seen = seen
        for loop_id in reversed(left):
            waiting = self._waiting.get(loop_id)
            if loop_id not in self._left and (waiting is None or waiting.on == "children"):
                self.wake(loop_id)
        return bool(self._pending)

    def _take_up(self) -> None:
        """Wake the loops of an earlier session, leaves first."""
        open_, self._left = open_loops(self.world)
        if root := open_.get(self.root):
            self.world.limit = Amount.limit(root.meta.budget)
        for loop_id in reversed(open_):
            self.wake(loop_id)
            waits = open_[loop_id].meta.waiting
            if waits and waits["for"] != "children":
                self._waiting[loop_id] = Waiting(str(waits["for"]), str(waits.get("question", "")))

    def _hear(self) -> None:
        waiting = [
            loop_id
            for loop_id, waits in self._waiting.items()
            if waits.on != "children" and loop_id not in self._tasks
        ]
        if waiting:
            for loop_id in listen(self.world, self.folder, waiting):
                self.wake(loop_id)

    def _cancelled(self) -> bool:
        for path, _ in messages(self.folder, ("cancel",), self.world.warn):
            taken(path)
            return True
        return False

    def _out_of_time(self) -> bool:
        limit = self.world.bounds.seconds
        return bool(limit) and self.clock.seconds() >= limit and not self.world.stopping

    async def _stop(self, why: str) -> None:
        """End every loop that is at work, children first, and say in each document why."""
        self.world.stopping = why
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._pending.clear()
        for loop_id in reversed(self.world.store.unfinished()):
            with suppress(FractalError):
                _say_stopped(Held(self.world, self.world.store.load(loop_id)), why)
        self._pending.clear()

    def _result(self) -> Outcome | Waiting:
        if document := self.world.store.ended(self.root):
            return outcome(document)
        asked = [self._waiting[each] for each in self.world.store.list() if each in self._waiting]
        open_ = [waiting for waiting in asked if waiting.on != "children"]
        return open_[0] if open_ else Waiting("children")


def _say_stopped(held: Held, why: str) -> None:
    if why == "interrupted":
        if (
            held.doc.meta.status in ("running", "ready")
            or (held.doc.meta.waiting or {}).get("for") == "children"
        ):
            held.meta(status="interrupted")
            held.save()
        return
    errors = {"exhausted": "the time of the run is used up", "cancelled": "cancelled by a person"}
    _end(held, why, errors[why])


def _end(held: Held, status: str, error: str) -> None:
    for step in list(held.doc.steps.values()):
        if step.state in ("running", "waiting"):
            held.put(_stopped_step(held, step, status))
    finish(held, status, error=error)


def _stopped_step(held: Held, step: Step, why: str) -> Step:
    """A step that was at work: its child has been ended before it, an operation may have happened."""
    if step.share is not None:
        with suppress(DocumentError):
            if child := held.world.store.ended(step.link.removesuffix(".md")):
                return ended_child(held, step, child)
    return replace(step, state="unknown", result=f"stopped: the run was {why}", origin="kernel")
