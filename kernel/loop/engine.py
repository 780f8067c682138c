"""Drives the loops of one run in one process: wakes them, keeps the time limit, and stops them.

`loop.advance` makes all decisions of a loop. A wake may be lost or repeated: when no loop is active, every
loop that waits for children is woken once more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from kernel.document.model import Document, Step, root_id
from kernel.errors import DocumentError, FractalError, explained, place, raised_as
from kernel.loop.advance import Outcome, advance, outcome
from kernel.loop.budget import Amount, Waiting
from kernel.loop.child import ended_child, subtree
from kernel.loop.end import finish
from kernel.loop.run_context import RunContext, Session

POLL = 0.25
"""Seconds between checks of the inbox and the clock while loops are running."""

FAULTS = 3
"""Different internal errors after which a loop can still be resumed."""


class Engine:
    """One session of one run."""

    def __init__(self, run_context: RunContext) -> None:
        self.run_context = run_context
        run_context.wake = self.wake
        self.root = root_id(run_context.id)
        self._pending: list[str] = []
        self._tasks: dict[str, asyncio.Task[Outcome | Waiting]] = {}
        self._again: set[str] = set()
        self._waiting: dict[str, Waiting] = {}
        self._left: set[str] = set()
        self._ended_loops = 0  # loops that ended in this session
        self._seen: tuple[tuple[str, ...], int] | None = None

    def wake(self, loop_id: str) -> None:
        """Hint that this loop may be able to continue."""
        if loop_id in self._tasks:
            self._again.add(loop_id)
        elif loop_id not in self._pending:
            self._pending.append(loop_id)

    async def drive(self) -> Outcome | Waiting:
        """Advance every unfinished loop until the root has ended or all remaining loops wait.

        Cancellation saves the run as interrupted. So does an internal error; if the same one occurs again in
        a loop, that loop ends as failed.
        """
        self._wake_unfinished()
        try:
            await self._cancel()
            self._apply_messages()
            while self._pending or self._tasks or self._wake_waiting():
                self._start()
                await asyncio.wait(self._tasks.values(), timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                await self._collect()
                self._apply_messages()
                if self._out_of_time():
                    await self._stop("exhausted")
                else:
                    await self._cancel()
        except (asyncio.CancelledError, Exception):
            await self._stop("interrupted")
            raise
        return self._result()

    def _start(self) -> None:
        for loop_id in self._pending:
            self._waiting.pop(loop_id, None)
            self._tasks[loop_id] = asyncio.create_task(advance(self.run_context, loop_id), name=loop_id)
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
                with raised_as(DocumentError, f"{loop_id}.md cannot be continued"):
                    await self._record_fault(loop_id, error)
                continue
            if isinstance(got, Waiting):
                self._waiting[loop_id] = got
            else:
                self._ended_loops += 1
            if loop_id in self._again:
                self._again.discard(loop_id)
                self.wake(loop_id)

    async def _record_fault(self, loop_id: str, error: Exception) -> None:
        """Record an internal error in a loop's document; a repeated one ends the loop as failed."""
        session = Session(self.run_context, self.run_context.store.load(loop_id))  # as last saved
        where = f"{session.doc.meta.phase.upper()}, attempt {session.doc.meta.attempt}"
        what = f"{where}: a fault in Fractal itself: {explained(error)} ({place(error)})"
        faults = session.doc.meta.extra.get("faults", [])
        if what not in faults and len(faults) < FAULTS:
            session.save(extra={**session.doc.meta.extra, "faults": [*faults, what]}, status="interrupted")
            self.run_context.warn(what, loop_id)
            raise FractalError(f"{loop_id}.md: {what}") from error
        for inner in reversed(subtree(session, loop_id)):
            if task := self._tasks.pop(inner, None):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            with suppress(DocumentError):
                session = Session(self.run_context, self.run_context.store.load(inner))
                if not session.doc.ended:
                    _end(session, "failed", what)

    def _wake_waiting(self) -> bool:
        """Wake the loops that wait for children, in case a wake was lost; false if that changes nothing."""
        if self.run_context.stopping or self.run_context.store.ended(self.root):
            return False
        left = self.run_context.store.unfinished()
        if (seen := (tuple(left), self._ended_loops)) == self._seen:
            return False
        self._seen = seen
        for loop_id in reversed(left):
            waiting = self._waiting.get(loop_id)
            if loop_id not in self._left and (waiting is None or waiting.on == "children"):
                self.wake(loop_id)
        return bool(self._pending)

    def _wake_unfinished(self) -> None:
        """Wake the loops of an earlier session, children before parents."""
        open_, self._left = open_loops(self.run_context)
        kinds = [kind for each in open_.values() for kind in each.meta.extra.get("approved", ())]
        self.run_context.approved_kinds = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
        if root := open_.get(self.root):
            self.run_context.limit = Amount.limit(root.meta.budget)
        for loop_id in reversed(open_):
            self.wake(loop_id)
            waits = open_[loop_id].meta.waiting
            if waits and waits["for"] != "children":
                self._waiting[loop_id] = Waiting(str(waits["for"]), str(waits.get("question", "")))

    def _apply_messages(self) -> None:
        waiting = [
            loop_id
            for loop_id, waits in self._waiting.items()
            if waits.on != "children" and loop_id not in self._tasks
        ]
        if waiting:
            for loop_id in self.run_context.inbox.listen(self.run_context, waiting):
                self.wake(loop_id)

    async def _cancel(self) -> None:
        """Stop if somebody has cancelled the run. The message is removed when the documents say so."""
        if cancelled := self.run_context.inbox.cancelled(self.run_context.warn):
            why, taken = cancelled
            await self._stop("cancelled", why)
            taken()

    def _out_of_time(self) -> bool:
        limit = self.run_context.bounds.seconds
        return bool(limit) and self.run_context.clock.seconds() >= limit and not self.run_context.stopping

    async def _stop(self, why: str, by: str = "") -> None:
        """Stop every running loop, children first, and record the reason, and `by` whom, in each document."""
        self.run_context.stopping = why
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._pending.clear()
        for loop_id in reversed(self.run_context.store.unfinished()):
            with suppress(FractalError):
                _record_stop(Session(self.run_context, self.run_context.store.load(loop_id)), why, by)
        self._pending.clear()

    def _result(self) -> Outcome | Waiting:
        if document := self.run_context.store.ended(self.root):
            return outcome(document)
        asked = [self._waiting[each] for each in self.run_context.store.list() if each in self._waiting]
        open_ = [waiting for waiting in asked if waiting.on != "children"]
        return open_[0] if open_ else Waiting("children")


def open_loops(run_context: RunContext) -> tuple[dict[str, Document], set[str]]:
    """The loops to continue, parents before children, and the ids of unfinished ones that are left alone.

    Those are loops with a broken document, whose parents decide about the step, and loops that no open step
    of an open parent waits for. Raises `DocumentError` if the root is broken.
    """
    open_: dict[str, Document] = {}
    left: set[str] = set()
    for loop_id in run_context.store.unfinished():
        try:
            document = run_context.store.load(loop_id)
        except DocumentError as error:
            if loop_id == root_id(run_context.id):
                raise
            why = str(error)
        else:
            if not document.meta.parent or _awaited(document, open_.get(document.meta.parent)):
                open_[loop_id] = document
                continue
            why = f"{loop_id} does not go on: no open step waits for it any more"
        left.add(loop_id)
        run_context.warn(why, loop_id)
    return open_, left


def _awaited(document: Document, parent: Document | None) -> bool:
    link = f"{document.meta.id}.md"
    return parent is not None and any(step.link == link and not step.ended for step in parent.steps.values())


def _record_stop(session: Session, why: str, by: str) -> None:
    if why == "interrupted":
        meta = session.doc.meta
        if meta.status in ("running", "ready") or (meta.waiting or {}).get("for") == "children":
            session.save(status="interrupted")
        return
    _end(session, why, by or "the time of the run is used up")


def _end(session: Session, status: str, error: str) -> None:
    for step in list(session.doc.steps.values()):
        if step.state in ("running", "waiting"):
            session.put(_stopped_step(session, step, status))
    finish(session, status, error=error)


def _stopped_step(session: Session, step: Step, why: str) -> Step:
    """The entry of a step that was stopped. Its child has ended already; an operation may have happened."""
    if step.share is not None:
        with suppress(DocumentError):
            if child := session.run.store.ended(step.child):
                return ended_child(session, step, child)
    return replace(step, state="unknown", result=f"stopped: the run was {why}", origin="kernel")
