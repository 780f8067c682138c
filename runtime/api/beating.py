"""The heartbeat: reads the messages that are new, and starts or continues the runs that they are for.

A beat decides nothing itself: it takes up what human or oversight have decided. A message says what it takes
up, so that nothing is started twice and work that was interrupted goes on, whatever a beat died of.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kernel.document.model import ENDED, Document
from kernel.errors import FractalError, RunLocked, StorageError, explained
from kernel.store.files import FileStore
from runtime import locks
from runtime.api.messaging import refuse_forgetful
from runtime.nervous.messages import Message, OpenThread, thread_of
from runtime.nervous.queue import ordered
from runtime.workspace.deciders import serious
from runtime.workspace.runs import RunResult, open_question, unfinished
from runtime.workspace.workspace import DEFAULT, is_locked, moment

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal

AT_ONCE = 4
"""Agents that work at the same time, each on one run; the others wait for their turn."""
LONGEST_ERROR = 500
"""Characters of an error in a message."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Glance:
    """What one beat knows: the time, whether it is the first of its process, and how runs stand."""

    now: float
    first: bool
    read: Callable[[str], tuple[Document, Document | None]]


@dataclass
class Beat:
    """The heartbeat of one workspace. Belongs to one event loop."""

    fractal: Fractal
    say: Say = lambda text: None
    results: list[RunResult] = field(default_factory=list[RunResult])
    """How each run that was worked on ended, or that it waits again."""
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _again: set[str] = field(default_factory=set[str])  # threads that the next beat looks at
    _due: dict[str, float] = field(default_factory=dict[str, float])  # by thread, when to look at it again
    _failed: set[str] = field(default_factory=set[str])  # runs (else tasks) that wait for another message
    _own: set[str] = field(default_factory=set[str])  # messages of this beat, which are no news to it
    _mark: Any = None  # of the shelf, up to which everything was read

    async def run(self, every: float, *, once: bool = False) -> None:
        """Beat every `every` seconds until this is cancelled, or `once`: until nothing is left to do now.

        While another process leads, this one waits to take over; `once`, it does nothing. Beats that were
        missed are not caught up. Work in progress is interrupted at the end, and goes on at a later beat.
        """
        refuse_forgetful(self.fractal)
        self.fractal.workspace.make()
        with self._lease() as leads:
            try:
                while not leads():
                    if once:
                        return
                    await asyncio.sleep(every)
                while True:
                    try:
                        self.beat()
                    except FractalError as error:
                        self.say(str(error))
                    if once and not self._working:
                        return
                    await (self._some_end() if once else asyncio.sleep(every))
            finally:
                for task in self._working.values():
                    task.cancel()
                await asyncio.gather(*self._working.values(), return_exceptions=True)

    async def _some_end(self) -> None:
        await asyncio.wait(self._working.values(), return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def _lease(self) -> Generator[Callable[[], bool]]:
        """Whether this process leads: it holds a lock with its name, which ends with the process."""
        with locks.lock_file(self.fractal.workspace.state / "beat.lock") as handle:

            def leads() -> bool:
                if not locks.try_lock(handle):
                    leader = os.pread(handle, 300, 0).decode("utf-8", "replace").strip()
                    self.say(f"{leader or 'another process'} beats in this workspace")
                    return False
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                return True

            yield leads

    def beat(self) -> None:
        """Look at each open thread with a new message, or whose time has come; writes nothing without any."""
        messages = self.fractal.nerves.messages
        mark, news = messages.shelf.news(self._mark)
        glance = Glance(datetime.now(UTC).timestamp(), news is None, cache(self._read))
        if news is None:
            threads = self._in_order(messages.threads())
        else:
            new = {thread_of(id) for kind, id in news if kind == Message.KIND and id not in self._own}
            ids = new | self._again | {id for id, at in self._due.items() if at <= glance.now}
            threads = self._in_order(messages.shelf.pick(OpenThread, ids)) if ids else []
            self._failed -= {_work_of(each) for each in threads if each.id in new}
            self._again.clear()
            self._due = {id: at for id, at in self._due.items() if id not in ids}
        for thread in threads:
            try:
                self._look(thread, glance)
            except StorageError:  # such as a full disk: the next beat tries again
                self._again.update(each.id for each in threads)
                raise
            except FractalError as error:
                self._report(thread, error)
        self._mark = mark

    def _in_order(self, threads: Sequence[OpenThread]) -> Sequence[OpenThread]:
        """By time, a task by its turn; tasks that have not begun come last."""
        turns = {each.id: sent.timestamp() if (sent := moment(each.at)) else 0.0 for each in threads}
        tasks = [each for each in threads if each.type == "task"]
        if len(tasks) > 1 and any(self._has_place(each.to) for each in tasks):  # else all wait on
            nerves = self.fractal.nerves
            found = nerves.messages.shelf.pick(Message, [each.id for each in tasks])
            turns |= {each.message.id: each.turn for each in ordered(found, nerves.memory, nerves.config)}
        return sorted(
            threads,
            key=lambda each: (each.type == "task" and not each.taken, turns[each.id], each.at, each.id),
        )

    def _look(self, thread: OpenThread, glance: Glance) -> None:
        """Take up what a thread says should happen now."""
        workspace, run = self.fractal.workspace, thread.run
        if _work_of(thread) in self._failed or self.fractal.nerves.messages.is_elsewhere(thread):
            return
        if thread.type == "task" and not thread.taken:
            self._take(thread, "", thread.to)
        elif not run:
            return
        elif run in self._working or is_locked(workspace.runs / run):
            self._again.add(thread.id)
        elif not workspace.has(run):
            if thread.type == "task":  # it was taken, and the run has not begun
                self._take(thread, run, thread.to)
            else:
                self.fractal.nerves.close(thread.id, run, f"the run {run} is gone", {"status": "gone"})
        else:
            self._look_at_run(thread, glance)

    def _look_at_run(self, thread: OpenThread, glance: Glance) -> None:
        nerves, (root, waiting) = self.fractal.nerves, glance.read(thread.run)
        take = partial(self._take, thread, thread.run, str(root.meta.extra.get("agent", DEFAULT)))
        if root.ended:  # its process died before it could close this
            take()
        elif waiting is None:
            if thread.taken:  # it was interrupted
                take()
        elif (asked := nerves.thread_for(waiting)) == thread.id:
            if nerves.resolved(waiting) or (self._is_late(thread, glance.now) and nerves.give_up(waiting)):
                take()
        elif thread.taken and self._is_unasked(waiting, asked, glance.first):
            take()

    def _read(self, run: str) -> tuple[Document, Document | None]:
        """The root of a run, and the document that waits for somebody."""
        store = FileStore(self.fractal.workspace.runs / run)
        return self.fractal.root_document(run), open_question(unfinished(store))

    def _is_unasked(self, waiting: Document, asked: str, first: bool) -> bool:
        """Whether a run was interrupted before it asked, or before oversight, asked first, had replied."""
        nerves = self.fractal.nerves
        messages = nerves.messages.thread(asked)
        if not messages or not first:
            return not messages
        may_reply = self.fractal.config.review_on(self.fractal.ladder) != "off" and not serious(
            waiting.steps.values()
        )
        return may_reply and all(each.tier == "worker" for each in messages)

    def _is_late(self, thread: OpenThread, now: float) -> bool:
        """Whether nobody has replied for too long; else it is noted when that will be."""
        config, began = self.fractal.config, moment(thread.at)
        if config.unanswered == "wait" or began is None:
            return False
        end = began.timestamp() + config.patience
        if end > now:
            self._due[thread.id] = end
        return end <= now

    def _has_place(self, agent: str) -> bool:
        """Whether an agent can begin or continue a run now."""
        at_work = [task.get_name() for task in self._working.values()]
        return agent not in at_work and len(at_work) < AT_ONCE

    def _take(self, thread: OpenThread, run: str, agent: str) -> None:
        """Begin or continue the run of a thread. The message that says so names it before it begins.

        An agent works on one run at a time: its runs share a folder, and a task may build on the one before.
        """
        if not self._has_place(agent):
            self._again.add(thread.id)
            return
        messages = self.fractal.nerves.messages
        run = run or self.fractal.workspace.new_run()
        if not thread.taken:
            taken = messages.write(
                thread.id,
                "taken",
                sender=agent,
                run=run,
                in_reply_to=thread.id,
                text=f"run {run} takes this up",
                data={"taken": True},
            )
            self._own.add(taken.id)
            if taken.place != messages.shelf.keeper.here:  # another workspace was quicker
                return
            run = taken.run
            thread = thread.model_copy(update={"run": run, "taken": True})
        self._working[run] = asyncio.create_task(self._work(thread, run), name=agent)
        self._working[run].add_done_callback(lambda _: self._working.pop(run))

    async def _work(self, thread: OpenThread, run: str) -> None:
        try:
            task, begun = self._task_of(thread, run), self.fractal.workspace.has(run)
            fractal, text = self.fractal.anew(**_settings(task)), task.text if task else ""
            self.say(f"run {run} {'goes on' if begun else f'begins: {text}'}")
            if not begun:
                result = await fractal.run(text, id=run)
            elif self.fractal.root_document(run).ended:
                result = await fractal.conclude(run)
            else:
                result = await fractal.resume(run)
        except RunLocked:
            self._again.add(thread.id)
        except FractalError as error:
            self._report(thread, error)
        except Exception as error:
            self._report(thread, FractalError(f"internal error in Fractal: {explained(error)}"))
        else:
            self.results.append(result)
            self.say(f"run {run}: {result.status}{f' for {result.waiting}' if result.waiting else ''}")
            if result.status in ENDED:
                self.fractal.nerves.ended(result)
            elif result.waiting == "lifeforce" and (pool := fractal.lifeforce) and pool.pool.per_hour:
                span = 3600 / pool.pool.per_hour  # restores one; runs that wait for it are tried together
                self._due[thread.id] = (datetime.now(UTC).timestamp() // span + 1) * span

    def _task_of(self, thread: OpenThread, run: str) -> Message | None:
        """The task that a run was started for, if a beat did that."""
        messages = self.fractal.nerves.messages
        if thread.type != "task":
            tasks = (each for each in messages.threads() if each.type == "task" and each.run == run)
            thread = next(tasks, thread)
        return messages.get(thread.id) if thread.type == "task" else None

    def _report(self, thread: OpenThread, error: FractalError) -> None:
        """Say why a thread cannot be taken up; it is tried again after a message, or at the next start."""
        text = " ".join([str(error), *getattr(error, "__notes__", ())])[:LONGEST_ERROR]
        self.say(text)
        self._failed.add(_work_of(thread))
        with suppress(StorageError):
            report = self.fractal.nerves.messages.write(
                thread.id,
                "error",
                text,
                sender=thread.to or self.fractal.nerves.agent,
                run=thread.run,
                in_reply_to=thread.id,
                text=f"this cannot be taken up: {text}",
            )
            self._own.add(report.id)


def _work_of(thread: OpenThread) -> str:
    """What an error of a thread concerns: its run, or the task that has none yet."""
    return thread.run or thread.id


def _settings(task: Message | None) -> dict[str, Any]:
    """The settings of a run for a task: its agent, and what a client's run lets wait for approval."""
    if task is None:
        return {}
    return {"agent": task.to} | ({"approve": task.data["approve"]} if "approve" in task.data else {})
