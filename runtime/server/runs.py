"""The runs that live in this process: started, waited for, answered; they go on when nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel.catalogue import Catalogue
from kernel.deciding import Decider
from kernel.document import Document
from kernel.errors import FractalError, RunLocked, UsageError
from kernel.events import Event
from kernel.responder import Ladder
from kernel.steps import Waiting
from kernel.workspace import is_locked
from runtime.fractal import Fractal, RunResult
from runtime.mcp.servers import Servers
from runtime.results import result_of
from runtime.server.onecall import OneCall

Told = Callable[[str], None]
UNTOLD = 50
"""Lines of what happened that are kept for whoever waits next."""


@dataclass
class Live:
    """A run while this process works on it."""

    settings: Mapping[str, Any]
    ladder: Ladder | None = None
    run: str = ""
    doing: str = ""
    failure: FractalError | None = None
    task: asyncio.Task[None] | None = None
    named: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: list[Told] = field(default_factory=list[Told])
    untold: list[str] = field(default_factory=list[str])  # what happened before anybody watched

    @property
    def at_work(self) -> bool:
        """Whether it has not stopped."""
        return self.task is not None and not self.task.done()

    def hear(self, event: Event) -> None:
        """Take the run's name from its first event, and what it does from all of them."""
        self.run = self.run or event.run
        self.named.set()
        if told := in_words(event):
            self.doing = told
            if not self.watchers:
                self.untold = [*self.untold[-UNTOLD:], told]
            for watcher in list(self.watchers):
                watcher(told)


@dataclass(frozen=True)
class Standing:
    """How a run stands: as a result, with the word `running` where somebody works on it."""

    result: RunResult
    task: str
    doing: str = ""

    @property
    def running(self) -> bool:
        """Whether a process works on it."""
        return self.result.status == "running"


class Runs:
    """All runs of one workspace, as one process serves them. Belongs to one event loop."""

    def __init__(
        self, folder: str | Path, *, settings: Mapping[str, Any] | None = None, ladder: Ladder | None = None
    ) -> None:
        self.folder = folder
        self._given = dict(settings or {})
        self._ladder = ladder
        self._live: dict[str, Live] = {}
        self.reading = self.fractal()

    def fractal(self, settings: Mapping[str, Any] | None = None, **more: Any) -> Fractal:
        """A Fractal with the settings of this server, and more."""
        ladder = more.pop("ladder", None) or self._ladder
        return Fractal(self.folder, settings={**self._given, **(settings or {})}, ladder=ladder, **more)

    async def catalogue(self) -> Catalogue:
        """The tools that there are now, those of MCP servers among them."""
        async with Servers(self.reading.workspace):
            return self.reading.catalogue()

    # ---- doing ----

    async def start(self, task: str, *, model: str | None = None, after: str | None = None) -> str:
        """Start a run; returns its id as soon as it has one."""
        live = Live({"model": model} if model else {})
        return await self._begin(live, lambda fractal: fractal.run(task, after=after))

    async def call(self, tool: str, args: Mapping[str, Any]) -> str:
        """Start a run that makes one call of a tool; returns its id."""
        catalogue = await self.catalogue()
        if tool not in catalogue.tools:
            raise UsageError(catalogue.unknown(tool))
        found = catalogue.tools[tool]
        if found.guided:
            if set(args) != {"what"} or not str(args["what"]).strip():
                raise UsageError(f"{tool} is guided by its pattern; its argument is what, a task in words")
        elif problem := found.problem(args):
            raise UsageError(problem)
        one = OneCall(found, args)
        # a loop guided by a pattern needs whoever else there is; a call of code needs nobody
        others = tuple(self.reading.ladder) if found.guided else ()
        live = Live({}, Ladder((one, *others)))
        return await self._begin(live, lambda fractal: fractal.run(one.task))

    async def resume(self, run: str) -> str:
        """Go on with a run in this process, unless somebody does already; returns its id."""
        run = self.reading.find(run)
        before = self._live.get(run)
        if before and before.at_work:
            return run
        live = Live(before.settings if before else {}, before.ladder if before else None, run)
        await self._begin(live, lambda fractal: fractal.resume(run))
        if isinstance(live.failure, RunLocked):  # another process has it
            del self._live[run]
        elif live.failure and not live.at_work:
            raise live.failure
        return run

    async def tell(self, run: str, kind: str, by: Decider, **values: Any) -> str:
        """Hand over what a client says (answer, approve, reject, cancel), and go on; returns the run's id."""
        run = self.reading.find(run)
        taken = self.reading.tell(run, kind, by=by, **values)
        return run if taken else await self.resume(run)

    async def _begin(self, live: Live, work: Callable[[Fractal], Coroutine[Any, Any, RunResult]]) -> str:
        fractal = self.fractal(live.settings, ladder=live.ladder, on_event=live.hear)
        live.task = asyncio.create_task(self._watched(live, work(fractal)))
        named = asyncio.create_task(live.named.wait())
        await asyncio.wait({live.task, named}, return_when=asyncio.FIRST_COMPLETED)
        named.cancel()
        if not live.run:  # it ended before it had a name
            raise live.failure or FractalError("the run was stopped before it had begun")
        self._live[live.run] = live
        return live.run

    async def _watched(self, live: Live, work: Coroutine[Any, Any, RunResult]) -> None:
        """Do the work; an error is kept for whoever asks, because nobody may be waiting now."""
        try:
            await work
        except FractalError as error:
            live.failure = error
        except Exception as error:
            live.failure = FractalError(f"a fault in Fractal itself: {type(error).__name__}: {error}")
        finally:
            live.named.set()

    # ---- looking ----

    async def wait(self, run: str, seconds: float, told: Told = lambda text: None) -> Standing:
        """Wait until the run stops, for so many seconds at most, and tell what happens meanwhile."""
        live = self._live.get(run)
        if live and live.task and live.at_work and seconds > 0:
            live.watchers.append(told)
            for line in live.untold:
                told(line)
            live.untold.clear()
            try:
                await asyncio.wait({live.task}, timeout=seconds)
            finally:
                live.watchers.remove(told)
        return self.standing(run)

    def standing(self, name: str) -> Standing:
        """How a run stands, as its documents tell."""
        run = self.reading.find(name)
        root = self.reading.document(run)
        path = self.reading.path(run)
        live = self._live.get(run)
        task = root.text(1, "task")
        result = result_of(root, path, self._waits(run, root))
        if root.ended:
            return Standing(result, task)
        if (live and live.at_work) or is_locked(path.parent):
            return Standing(_with(result, "running"), task, live.doing if live else "")
        if result.waiting in ("person", "approval"):
            return Standing(result, task)
        why = str(live.failure) if live and live.failure else ""
        return Standing(_with(result, "interrupted", why), task)

    def _waits(self, run: str, root: Document) -> Waiting:
        """What a person is asked for anywhere in the run."""
        if root.ended:
            return Waiting("nothing")
        for document in self.reading.documents(run):
            waits = document.meta.waiting or {}
            if not document.ended and waits.get("for") in ("person", "approval"):
                return Waiting(str(waits["for"]), str(waits.get("question", "")))
        return Waiting("children")

    # ---- the end ----

    async def idle(self) -> None:
        """Wait until no run is at work."""
        while tasks := [live.task for live in self._live.values() if live.task and live.at_work]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop what is at work; all of it is saved, and can be resumed."""
        tasks = [live.task for live in self._live.values() if live.task and live.at_work]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _with(result: RunResult, status: str, reason: str = "") -> RunResult:
    return replace(result, status=status, question="", waiting="", reason=reason or result.reason)


def in_words(event: Event) -> str:
    """What happened, in a line; "" for what nobody who waits wants to know."""
    data = event.data
    if event.kind == "phase_started":
        return f"{data['phase']}: {event.loop_id}"
    if event.kind == "step_started":
        return f"step {data['step']}: {data['tool']}"
    if event.kind == "step_finished":
        return f"step {data['step']}: {data['tool']} {data['state']}"
    if event.kind == "warning":
        return f"warning: {data['message']}"[:300]
    if event.kind == "loop_waiting":
        return f"waits: {data.get('question', '')}"[:300]
    return ""
