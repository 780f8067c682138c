"""The runs of this process: started, waited for, answered. They continue when no client waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from kernel import Waiting
from kernel.asking.responder import Ask, Ladder, Reply
from kernel.document.escaping import to_json
from kernel.document.model import ENDED, Document, root_id
from kernel.document.references import escaped
from kernel.errors import Declined, Exit, FractalError, RunLocked, UsageError
from kernel.events import Event, Listener, silent
from kernel.tools.tool import Tool
from runtime.api.choosing import refuse_unconfigured
from runtime.api.fractal import Fractal, RunResult
from runtime.catalogue.catalogue import Catalogue
from runtime.reflexes.coded import Coded, Filled, reply_to
from runtime.secrets.redaction import redact_values
from runtime.workspace.deciders import Decider
from runtime.workspace.runs import open_question, result_of
from runtime.workspace.settings import read, user_file
from runtime.workspace.workspace import is_locked, settings_files

WAIT = 50.0
"""Seconds that a call waits for a run by default: many clients limit a call to a minute."""


APPROVE = ("shell", "write")
"""Effects of a client's run that wait for approval by default."""
REMEMBERED = 200
"""Ended runs whose progress is kept for clients that ask late."""


class State(BaseModel):
    """The status of a run, and the next call."""

    run: str = Field(description="the run's id, for all other tools")
    status: str = Field(
        description="running, waiting, complete, unverified, unanswered, failed, escalated, "
        "exhausted, cancelled or interrupted"
    )
    result: str = Field(default="", description="the result so far")
    question: str = Field(default="", description="the question to a person, while it waits")
    waits_for: str = Field(default="", description="answer or approval, while it waits")
    reason: str = Field(default="", description="why it did not complete")
    exit: int | None = Field(default=None, description="the exit code of `fractal run`; null while it runs")
    doing: str = Field(default="", description="what happened last, while it runs")
    next: str = Field(default="", description="the next call to make")
    task: str = ""
    document: str = Field(default="", description="the document at the run's root, for read_document")
    spent: dict[str, Any] = Field(default_factory=dict)


@dataclass
class Live:
    """A run while this process works on it."""

    settings: Mapping[str, Any]
    ladder: Ladder | None = None
    run: str = ""
    ended: bool = False
    failure: FractalError | None = None
    task: asyncio.Task[None] | None = None
    progress: list[str] = field(default_factory=list[str])
    reported: int = 0  # lines of `progress` that some client has got
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # a new one after each event

    @property
    def at_work(self) -> bool:
        """Whether it is still running."""
        return self.task is not None and not self.task.done()

    def hear(self, event: Event) -> None:
        """Take the run's id from its first event, and progress from all of them."""
        self.run = self.run or event.run
        if text := in_words(event):
            self.progress.append(text)
        self.changed.set()
        self.changed = asyncio.Event()

    async def next_event(self, seconds: float | None = None) -> None:
        """Wait for the next event or the end of the work, at most that many seconds."""
        assert self.task is not None
        changed = asyncio.create_task(self.changed.wait())
        await asyncio.wait({self.task, changed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()


class Runs:
    """All runs of one workspace, served by one process. Belongs to one event loop."""

    def __init__(
        self,
        folder: str | Path,
        *,
        settings: Mapping[str, Any] | None = None,
        on_event: Listener = silent,
    ) -> None:
        self.folder = folder
        self._settings = dict(settings or {})
        self._listener = on_event
        self._live: dict[str, Live] = {}
        self.reading = self.fractal()

    def fractal(self, settings: Mapping[str, Any] | None = None, **more: Any) -> Fractal:
        """A Fractal with the settings of this server and the given ones."""
        given = {**self._settings, **(settings or {})}
        return Fractal(self.folder, settings={"approve": self._approve(given), **given}, **more)

    def _approve(self, settings: Mapping[str, Any]) -> list[str] | None:
        """The effects that a client's run asks for: `APPROVE` and what the folder's file adds.

        None where the user's own settings decide.
        """
        fractal = Fractal(self.folder, settings=settings)
        root, source = fractal.workspace.root, fractal.sources["approve"]
        of_folder = any(f"{source}:".startswith(f"{path}:") for path in settings_files(root))
        if "approve" in read(user_file(), root) or not (of_folder or source == "default"):
            return None
        return list(dict.fromkeys([*APPROVE, *fractal.config.approve]))

    async def catalogue(self) -> Catalogue:
        """The current tools that the agent knows, with those of MCP servers."""
        async with self.reading.servers():
            catalogue = self.reading.catalogue()
            return catalogue.without(catalogue.tools.keys() - self.reading.discovery.known(catalogue.tools))

    def refuse_model(self, model: str | None) -> None:
        """Raise `UsageError` for a model that a client may not choose."""
        if model:
            refuse_unconfigured(self.fractal(), model)

    async def start(
        self,
        task: str,
        *,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Start a run and return its id as soon as it has one; `options` are those of `Fractal.run`.

        `model` is one that the settings name.
        """
        self.refuse_model(model)
        live = Live({**(settings or {}), **({"model": model} if model else {})})
        return await self._begin(live, lambda fractal: fractal.run(task, **options))

    async def call(self, tool: str, args: Mapping[str, Any], *, trace: str = "") -> str:
        """Start a run that makes one call of a tool, and return its id."""
        catalogue = await self.catalogue()
        if tool not in catalogue.tools:
            raise UsageError(catalogue.unknown(tool))
        operation = catalogue.tools[tool]
        if operation.guided:
            if set(args) != {"what"} or not str(args["what"]).strip():
                raise UsageError(f"{tool} is a guided tool; its only argument is `what`, a task in words")
        elif problem := operation.problem(args):
            raise UsageError(problem)
        one = OneCall(operation, args)
        # a guided tool needs the other responders, an operation needs none
        others = tuple(self.reading.ladder) if operation.guided else ()
        live = Live({}, Ladder((one, *others)))
        return await self._begin(live, lambda fractal: fractal.run(one.task, trace=trace))

    async def resume(self, run: str, *, model: str | None = None) -> str:
        """Continue a run in this process unless it is running already; return its id."""
        self.refuse_model(model)
        run = self.reading.find(run)
        before = self._live.get(run)
        if before and before.at_work:
            return run
        agent = self.reading.root_document(run).meta.extra.get("agent")  # what it asks for holds here too
        settings = dict(before.settings if before else {"agent": agent} if agent else {})
        settings |= {"model": model} if model else {}
        live = self._live[run] = Live(settings, before.ladder if before else None)
        await self._begin(live, lambda fractal: fractal.resume(run), run)
        if isinstance(live.failure, RunLocked):  # another process is running it
            del self._live[run]
        elif live.failure and not live.at_work:
            raise live.failure
        return run

    async def send(self, run: str, kind: str, by: Decider, **values: Any) -> str:
        """Deliver a client's decision (such as answer or approve) and continue; return the run's id."""
        run = self.reading.find(run)
        delivered = self.reading.tell(run, kind, by=by, **values)
        return run if delivered else await self.resume(run)

    async def _begin(
        self, live: Live, work: Callable[[Fractal], Coroutine[Any, Any, RunResult]], run: str = ""
    ) -> str:
        """Start the work; return its run, which `run` names, as soon as it has begun."""

        def hear(event: Event) -> None:
            live.hear(event)
            self._listener(event)

        fractal = self.fractal(live.settings, ladder=live.ladder, on_event=hear)
        live.task = asyncio.create_task(self._watched(live, work(fractal)))
        while live.at_work and not live.run:
            await live.next_event()
        live.run = live.run or run
        if not live.run:
            raise live.failure or FractalError("the run was stopped before it started")
        self._live[live.run] = live
        ended = [name for name, each in self._live.items() if each.ended and not each.at_work]
        for old in ended[:-REMEMBERED]:
            del self._live[old]
        return live.run

    async def _watched(self, live: Live, work: Coroutine[Any, Any, RunResult]) -> None:
        """Do the work; store an error for the next client, because none may be waiting."""
        try:
            live.ended = (await work).status in ENDED
        except FractalError as error:
            live.failure = error
        except Exception as error:
            live.failure = FractalError(f"internal error in Fractal: {type(error).__name__}: {error}")
        # whoever follows its events would wait for ever; what another process works on has not stopped
        if live.failure and live.run and not isinstance(live.failure, RunLocked):
            data = {"status": "interrupted", "exit": int(live.failure.exit), "reason": str(live.failure)}
            self._listener(Event("run_finished", live.run, root_id(live.run), data=data))

    @property
    def at_work(self) -> set[str]:
        """The ids of the runs that this process works on."""
        return {run for run, live in self._live.items() if live.at_work}

    async def follow(self, run: str, seconds: float) -> AsyncIterator[str]:
        """Progress lines that no client has got yet, until the run stops, for at most that many seconds."""
        live = self._live.get(run)
        if live is None or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        at = live.reported
        while True:
            while at < len(live.progress):
                at += 1
                live.reported = max(live.reported, at)
                yield live.progress[at - 1]
            if not live.at_work or loop.time() >= end:
                return
            await live.next_event(end - loop.time())

    def state(self, name: str) -> State:
        """The status of a run, from its documents."""
        run = self.reading.find(name)
        root = self.reading.document(run)
        path = self.reading.path(run)
        live = self._live.get(run)
        result = result_of(root, path, self._waits(run, root))
        state = State(run=run, status=result.status, result=result.output, reason=result.reason)
        state.exit = int(result.exit)
        state.task, state.document, state.spent = root.text(1, "task"), result.id, dict(result.spent)
        if root.ended:
            state.question = result.question
        elif (live and live.at_work) or is_locked(path.parent):
            state.status, state.exit = "running", None
            state.doing = live.progress[-1] if live and live.progress else ""
            state.next = f'status(run="{run}", wait={WAIT:g})'
        elif result.waiting == "person":
            state.question, state.waits_for = result.question, "answer"
            state.next = f'answer(run="{run}", text="…")'
        elif result.waiting == "approval":
            state.question, state.waits_for = redact_values(result.question), "approval"
            state.next = f'approve(run="{run}"), nudge(run="{run}", why="…") or reject(run="{run}", why="…")'
        elif result.waiting == "lifeforce":
            state.reason, state.next = result.question, f'resume(run="{run}")'
        else:
            state.status, state.next = "interrupted", f'resume(run="{run}")'
            state.reason = str(live.failure) if live and live.failure else result.reason
            state.exit = int(live.failure.exit if live and live.failure else Exit.INTERRUPTED)
        return state

    def _waits(self, run: str, root: Document) -> Waiting:
        """What any document of the run asks of a person."""
        if root.ended:
            return Waiting("nothing")
        documents = self.reading.documents(run)
        document = open_question(documents) or open_question(documents, "lifeforce")
        waits = document.meta.waiting if document else None
        return Waiting(str(waits["for"]), str(waits.get("question", ""))) if waits else Waiting("children")

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


class OneCall(Coded):
    """The responder that plans one call at the root of a run, and judges its result."""

    name = "call"

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

    async def answer(self, ask: Ask) -> Reply:
        """The plan of the one call, or the verdict on it."""
        document = ask.document
        if self.offers(document.task, document) is None:
            raise Declined("the one call is already made")
        reply = reply_to(ask, "a single call", document.task, self._plan, lambda: self._verdict(document))
        return Reply(json.dumps(reply, ensure_ascii=False), f"call:{self.tool.name}")

    def _plan(self) -> Filled:
        step: dict[str, Any] = {"tool": self.tool.name}
        if self.tool.guided:
            step["what"] = escaped(str(self.args.get("what", "")))
        else:
            step["args"] = escaped(dict(self.args))
        return {
            "approach": f"one call of {self.tool.name}",
            "confidence": "high",
            "steps": [step],
            "success": [],
            "rationale": "requested as a single call",
        }

    def _verdict(self, document: Document) -> Filled:
        number, step = max(document.steps.items())
        if step.state == "done":
            output = f"{{{{ steps[{number}].result }}}}"
            return {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": output}
        why = (step.result or step.state)[:1000]
        return {"validation": "fail", "issues": [why], "decision": "ESCALATE", "learned": why}
