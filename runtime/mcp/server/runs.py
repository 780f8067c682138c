"""The runs of this process: started, waited for, answered. They continue when no client waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel.asking.responder import FREE, Ask, Ladder, Reply, Tier, Usage
from kernel.document.escaping import to_json
from kernel.document.model import Document
from kernel.document.references import escaped
from kernel.errors import Declined, FractalError, RunLocked, UsageError
from kernel.events import Event
from kernel.loop.approval import Decider
from kernel.loop.budget import estimate_tokens
from kernel.loop.do import Waiting
from kernel.tools.tool import Tool
from runtime.api.fractal import Fractal, RunResult
from runtime.catalogue.catalogue import Catalogue
from runtime.mcp.client.servers import Servers
from runtime.workspace.runs import result_of
from runtime.workspace.workspace import is_locked

Told = Callable[[str], None]
UNTOLD = 50
"""Progress lines that are kept for the next client that waits."""


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
    untold: list[str] = field(default_factory=list[str])  # lines from before the first watcher

    @property
    def at_work(self) -> bool:
        """Whether it is still running."""
        return self.task is not None and not self.task.done()

    def hear(self, event: Event) -> None:
        """Take the run's id from its first event, and progress from all of them."""
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
    """The status of a run: its result, with the status `running` while a process works on it."""

    result: RunResult
    task: str
    doing: str = ""


class Runs:
    """All runs of one workspace, served by one process. Belongs to one event loop."""

    def __init__(self, folder: str | Path, *, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self._given = dict(settings or {})
        self._live: dict[str, Live] = {}
        self.reading = self.fractal()

    def fractal(self, settings: Mapping[str, Any] | None = None, **more: Any) -> Fractal:
        """A Fractal with the settings of this server and the given ones."""
        return Fractal(self.folder, settings={**self._given, **(settings or {})}, **more)

    async def catalogue(self) -> Catalogue:
        """The current tools, with those of MCP servers."""
        async with Servers(self.reading.workspace):
            return self.reading.catalogue()

    # ---- actions ----

    async def start(self, task: str, *, model: str | None = None, after: str | None = None) -> str:
        """Start a run and return its id as soon as it has one."""
        live = Live({"model": model} if model else {})
        return await self._begin(live, lambda fractal: fractal.run(task, after=after))

    async def call(self, tool: str, args: Mapping[str, Any]) -> str:
        """Start a run that makes one call of a tool, and return its id."""
        catalogue = await self.catalogue()
        if tool not in catalogue.tools:
            raise UsageError(catalogue.unknown(tool))
        found = catalogue.tools[tool]
        if found.guided:
            if set(args) != {"what"} or not str(args["what"]).strip():
                raise UsageError(f"{tool} is a guided tool; its only argument is `what`, a task in words")
        elif problem := found.problem(args):
            raise UsageError(problem)
        one = OneCall(found, args)
        # a guided tool needs the other responders, an operation needs none
        others = tuple(self.reading.ladder) if found.guided else ()
        live = Live({}, Ladder((one, *others)))
        return await self._begin(live, lambda fractal: fractal.run(one.task))

    async def resume(self, run: str) -> str:
        """Continue a run in this process unless it is running already; return its id."""
        run = self.reading.find(run)
        before = self._live.get(run)
        if before and before.at_work:
            return run
        live = Live(before.settings if before else {}, before.ladder if before else None, run)
        await self._begin(live, lambda fractal: fractal.resume(run))
        if isinstance(live.failure, RunLocked):  # another process is running it
            del self._live[run]
        elif live.failure and not live.at_work:
            raise live.failure
        return run

    async def tell(self, run: str, kind: str, by: Decider, **values: Any) -> str:
        """Deliver a client's decision (answer, approve, reject, cancel) and continue; return the run's id."""
        run = self.reading.find(run)
        taken = self.reading.tell(run, kind, by=by, **values)
        return run if taken else await self.resume(run)

    async def _begin(self, live: Live, work: Callable[[Fractal], Coroutine[Any, Any, RunResult]]) -> str:
        fractal = self.fractal(live.settings, ladder=live.ladder, on_event=live.hear)
        live.task = asyncio.create_task(self._watched(live, work(fractal)))
        named = asyncio.create_task(live.named.wait())
        await asyncio.wait({live.task, named}, return_when=asyncio.FIRST_COMPLETED)
        named.cancel()
        if not live.run:  # it ended before it had an id
            raise live.failure or FractalError("the run was stopped before it started")
        self._live[live.run] = live
        return live.run

    async def _watched(self, live: Live, work: Coroutine[Any, Any, RunResult]) -> None:
        """Do the work; store an error for the next client, because none may be waiting."""
        try:
            await work
        except FractalError as error:
            live.failure = error
        except Exception as error:
            live.failure = FractalError(f"internal error in Fractal: {type(error).__name__}: {error}")
        finally:
            live.named.set()

    # ---- status ----

    async def wait(self, run: str, seconds: float, told: Told = lambda text: None) -> Standing:
        """Wait until the run stops, at most that many seconds, and report progress to `told`."""
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
        """The status of a run, from its documents."""
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
        """What any document of the run asks of a person."""
        if root.ended:
            return Waiting("nothing")
        for document in self.reading.documents(run):
            waits = document.meta.waiting or {}
            if not document.ended and waits.get("for") in ("person", "approval"):
                return Waiting(str(waits["for"]), str(waits.get("question", "")))
        return Waiting("children")

    # ---- the end ----

    async def idle(self) -> None:
        """Wait until all runs have stopped."""
        while tasks := [live.task for live in self._live.values() if live.task and live.at_work]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop all runs; they are saved and can be resumed."""
        tasks = [live.task for live in self._live.values() if live.task and live.at_work]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _with(result: RunResult, status: str, reason: str = "") -> RunResult:
    return replace(result, status=status, question="", waiting="", reason=reason or result.reason)


def in_words(event: Event) -> str:
    """An event as a progress line; "" for events that clients need not see."""
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


class OneCall:
    """The responder that plans one call at the root of a run, and judges its result."""

    name = "call"
    tier: Tier = "reflex"
    reads_prompt = False

    def __init__(self, tool: Tool, args: Mapping[str, Any]) -> None:
        self.tool = tool
        self.args = args

    @property
    def task(self) -> str:
        """The call as the task of the run."""
        return f"call {self.tool.name} {to_json(dict(self.args))}"

    def offers(self, task: str, document: Document) -> float | None:
        """Certain for the first attempt at the root; declines everything else."""
        return 1.0 if not document.meta.parent and document.meta.attempt == 1 else None

    def estimate(self, ask: Ask) -> Usage:
        """Free: no model is called."""
        return FREE

    def count(self, text: str) -> int:
        """Tokens by the conservative estimate."""
        return estimate_tokens(text)

    async def answer(self, ask: Ask) -> Reply:
        """The plan of the one call, or the verdict on it."""
        if self.offers(ask.document.task, ask.document) is None:
            raise Declined("the one call is already made")
        if ask.phase == "check":
            reply = self._verdict(ask.document)
        elif ask.phase in ("understand", "plan", "fused"):
            reply = self._plan(ask.document)
        else:
            raise Declined(f"one call has no reply for {ask.phase.upper()}")
        return Reply(json.dumps(reply, ensure_ascii=False), f"call:{self.tool.name}")

    def _plan(self, document: Document) -> dict[str, Any]:
        step: dict[str, Any] = {"tool": self.tool.name}
        if self.tool.guided:
            step["what"] = escaped(str(self.args.get("what", "")))
        else:
            step["args"] = escaped(dict(self.args))
        return {
            "task": document.task,
            "context": [],
            "open": [],
            "approach": f"one call of {self.tool.name}",
            "confidence": "high",
            "steps": [step],
            "success": [{"step": 1, "has": "^"}],
            "rationale": "requested as a single call",
        }

    def _verdict(self, document: Document) -> dict[str, Any]:
        number, step = max(document.steps.items())
        if step.state == "done":
            output = f"{{{{ steps[{number}].result }}}}"
            return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
        why = (step.result or step.state)[:1000]
        return {"validation": "fail", "issues": [why], "decision": "ESCALATE", "learned": why}
