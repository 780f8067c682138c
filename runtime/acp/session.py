"""One conversation with an editor: each prompt is a run that follows the one before, or continues it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import acp
from acp import schema
from acp.interfaces import Client

from kernel.asking.turn import TURN
from kernel.document.model import Document, root_id
from kernel.document.redaction import Verbatim
from kernel.errors import DocumentError, UsageError
from kernel.events import Event
from kernel.loop.approval import PLAN_WAITS
from runtime.acp.content import task_of
from runtime.acp.rendering import View, closing, opening, valid, waits_of, without_secrets
from runtime.acp.streaming import Streamed
from runtime.api.fractal import Fractal, RunResult
from runtime.memory.prompting import fenced
from runtime.models.ladder import KEYS, rungs
from runtime.secrets.redaction import redact
from runtime.workspace.deciders import Decider, serious
from runtime.workspace.inbox import Person, Said
from runtime.workspace.question import asked_steps
from runtime.workspace.runs import open_question
from runtime.workspace.workspace import is_locked

MODES = {
    id: schema.SessionMode(id=id, name=id.title(), description=description)
    for id, description in {
        "ask": "Ask before each write, command and network access",
        "plan": "Show the plan and carry nothing out",
        "do": "Ask only about dangerous actions",
    }.items()
}
ASKED = ("write", "shell", "network")
"""The effects that the mode `ask` asks about."""
RESUME = frozenset({"resume", "continue", "go on", "proceed", "carry it out"})
"""Prompts that continue an unfinished run, or carry out its plan."""
OPTIONS = [
    schema.PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
    schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]
_CHANGES = frozenset(
    {"phase_finished", "ask_started", "said", "step_started", "step_finished", "loop_waiting"}
)
"""The events after which a document may have something new."""
_NOTICES = frozenset({"warning", "stale"})
MODEL = "model"
"""The id of the option that chooses the model."""
_CODE = ("reflex", "person")
_WRITING = frozenset({"ask_started", "reply_delta", "ask_finished"})
"""The events of a reply that is being written."""


class Session:
    """One conversation: prompts one after the other, each a run or the continuation of one."""

    def __init__(self, id: str, cwd: str, settings: Mapping[str, Any], client: Client, by: Decider) -> None:
        """Raises `UsageError` for what is no folder, `ConfigurationError` for its settings, `Untrusted`."""
        if not Path(cwd).is_absolute():
            raise UsageError(f"{cwd}: the folder of a session must be an absolute path")
        person = Person(_later, self._approve, by)
        self.fractal = Fractal(cwd, settings=settings, on_event=self._hear, person=person)
        self.fractal.refuse_untrusted()
        self.id, self.client, self.by = id, client, by
        self._chosen: list[str] = []
        self.mode = "do"
        self.run = ""  # the newest one
        self.work: asyncio.Task[RunResult] | None = None
        self.began = self.cancelled = False  # by the present prompt
        self.folder = Path(cwd)  # as the editor names it: the workspace resolves links
        self.view = View(
            self.folder, self.fractal.catalogue().tools, self.fractal.snapshots(self.fractal.workspace.folder)
        )
        self._written, self._apart = Streamed(), False
        self._sending = asyncio.Lock()

    @property
    def modes(self) -> schema.SessionModeState:
        """The modes, and the one that holds for the next prompt."""
        return schema.SessionModeState(available_modes=list(MODES.values()), current_mode_id=self.mode)

    @property
    def options(self) -> list[Any]:
        """What can be chosen in the editor: the model of the next prompts."""
        present = next((each.model for each in rungs(self.fractal.config) if each.model not in _CODE), "")
        keyed = [model for key, model in KEYS.items() if os.environ.get(key)]
        names = dict.fromkeys(filter(None, [present, *self._chosen, *keyed]))
        values = [schema.SessionConfigSelectOption(value=each, name=each) for each in names]
        if not present:
            values.insert(0, schema.SessionConfigSelectOption(value="", name="none"))
        option = schema.SessionConfigOptionSelect(
            id=MODEL, name="Model", category="model", type="select", current_value=present, options=values
        )
        return [option]

    def choose(self, option: str, value: Any) -> None:
        """Choose the model of the next prompts. Raises `UsageError`, `ConfigurationError`."""
        if option != MODEL:
            raise UsageError(f"there is no option {option}; the option is {MODEL}")
        if not str(value).strip():
            raise UsageError("name a model, such as openai/gpt-5")
        fractal = self.fractal.anew(model=str(value), ladder=None)
        fractal.ladder  # noqa: B018 (a model that is not known is refused now)
        self._chosen += [each.value for each in self.options[0].options if each.value]
        self.fractal = fractal

    def refuse_busy(self) -> None:
        """Raise `UsageError` while a prompt is carried out."""
        if self.work:
            raise UsageError("this session is still busy with a prompt; cancel it, or wait for its end")

    async def prompt(self, blocks: Sequence[Any]) -> schema.StopReason:
        """Carry out a prompt and send the updates; returns the stop reason."""
        self.refuse_busy()
        events = self._events = asyncio.Queue[Event | None]()
        self.began = self.cancelled = False
        self._written, self._apart = Streamed(), False
        self.view.streamed.clear()
        self.work = asyncio.create_task(self._work(*task_of(blocks, self.folder)))
        self.work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                await self._show(event)
            if self.began:
                await self._show_run(self.run)
            if self.cancelled:
                return "cancelled"
            return "max_turn_requests" if self.work.result().status == "exhausted" else "end_turn"
        finally:  # also where the editor is gone
            self.work.cancel()
            await asyncio.gather(self.work, return_exceptions=True)
            self.work = None

    def cancel(self) -> None:
        """Interrupt the prompt; what is done is kept, and the run can be resumed."""
        if self.work:
            self.cancelled = True
            self.work.cancel()

    def _work(self, task: str, context: Sequence[tuple[str, str]]) -> Coroutine[Any, Any, RunResult]:
        """What the prompt means: a new run, or an answer to the newest one, or its continuation."""
        fractal = self.fractal.anew()  # the settings may have changed
        if self.mode == "ask":
            fractal = fractal.anew(approve=sorted({*fractal.config.approve, *ASKED}))
        run, planning = self.run, self.mode == "plan"
        documents = fractal.documents(run) if run else []
        waits = waits_of(documents)
        question = str(waits.get("question", ""))
        again = task.lower().strip(" ./!") in RESUME
        if not documents or documents[0].ended or not (again or waits.get("for") == "person"):
            more = {"after": run or None, "plan_only": planning, "thread": self.id}
            return fractal.run(task, context=context, **more)
        root = documents[0]
        planned = question == PLAN_WAITS or "plan_only" not in root.meta.extra or root.note(2, "approved")
        if planning and planned:
            raise UsageError("the mode Plan carries nothing out; choose the mode Do or Ask and send it again")
        if "--assume" in question:
            return fractal.resume(run, assume=task.lower().split())
        asked = root.note(1, "question")
        if question == PLAN_WAITS:
            fractal.tell(run, "approve", by=self.by)
        elif waits.get("for") == "person" and not (again and asked and asked.origin == "kernel"):
            text = "\n\n".join([task, *(f"{source}:\n{text}" for source, text in context)])
            fractal.tell(run, "answer", by=self.by, text=text)
        return fractal.resume(run)

    async def _approve(self, question: str) -> Said | None:
        """Ask the editor for permission; None if it is not decided."""
        document = open_question(self.fractal.documents(self.run), "approval")
        if document is None or question == PLAN_WAITS:
            return None
        await self._send_news(document)
        steps = asked_steps(self.fractal.exactly(document))
        fields = self.view.call(steps[0])
        fields["raw_input"] = dict(steps[0].args or {})
        fields["content"] = [acp.tool_content(acp.text_block(fenced(question, len(question))))]
        fields["content"] += [diff for step in steps for diff in self.view.diffs(step)]
        if serious(steps):
            fields["title"] = f"serious danger: {fields['title']}"
        call = schema.ToolCallUpdate(tool_call_id=f"{document.meta.id}/{steps[0].n}", **fields)
        outcome = (await self.client.request_permission(self.id, valid(call), OPTIONS)).outcome
        if not isinstance(outcome, schema.AllowedOutcome):
            return None
        return Said("approve") if outcome.option_id == "allow" else Said("reject", {"why": ""})

    # ---- what the editor sees ----

    def _hear(self, event: Event) -> None:
        if event.kind == "run_started" and not self.began:
            self.run, self.began = event.run, True
        if event.kind in _CHANGES | _NOTICES | _WRITING:
            self._events.put_nowait(event)

    async def _show(self, event: Event) -> None:
        if event.kind in _NOTICES:
            await self._send(acp.update_agent_thought_text(f"{event.data['message']}\n\n"))
        elif event.run == self.run:
            if event.kind in _WRITING:
                await self._stream(event)
            if event.kind not in _CHANGES:
                return
            with suppress(DocumentError):
                await self._send_news(self.fractal.document(event.loop_id))

    async def _stream(self, event: Event) -> None:
        """Show the answer of the run's own loop while a model writes it."""
        if event.loop_id != root_id(self.run) or event.data.get("phase") != TURN:
            return
        if event.kind == "ask_started":
            self._written, self._apart = Streamed(), bool(self.view.streamed)
            return
        said = self._written(str(event.data["text"])) if event.kind == "reply_delta" else self._written.end()
        if said:
            await self._send(acp.update_agent_message_text(f"\n\n{said}" if self._apart else said))
            self._apart = False
        if event.kind == "ask_finished" and (text := self._written.text.strip()):
            self.view.streamed.append(text)

    async def load(self, runs: Sequence[str]) -> None:
        """Show the runs of an earlier session."""
        for run in runs:
            try:
                for update in opening(self.fractal.root_document(run)):
                    await self._send(update)
                await self._show_run(run)
            except DocumentError as error:
                await self._say(f"Run {run} cannot be shown: {error}")
        self.run = runs[-1]

    async def _show_run(self, run: str) -> None:
        """Send what is new in all documents of a run, and how it ended or what it waits for."""
        documents = self.fractal.documents(run)
        for document in documents:
            if not document.meta.operation:
                await self._send_news(document)
        waiting = open_question(documents, "approval")
        asked = self.fractal.asked(waiting).text if waiting else ""
        elsewhere = not documents[0].ended and is_locked(self.fractal.workspace.runs / run)
        text = (
            "Another process is working on this run." if elsewhere else closing(documents, self.view, asked)
        )
        shown = next(reversed(self.view.streamed), "")
        if shown and redact(text).startswith(shown):  # the editor has it
            rest = redact(text).removeprefix(shown).strip()
            text = f"\n\n{rest}" if rest else ""
        if text:
            await self._say(text)

    async def _send_news(self, document: Document) -> None:
        async with self._sending:
            for update in self.view.news(document):
                await self._send(update)

    async def _say(self, text: str) -> None:
        """Say a text without secrets; what a person approves as it is."""
        await self._send(acp.update_agent_message_text(text), exact=isinstance(text, Verbatim))

    async def _send(self, update: Any, *, exact: bool = False) -> None:
        with suppress(ConnectionError):  # the editor is gone; the documents have it
            await self.client.session_update(self.id, valid(update) if exact else without_secrets(update))


async def _later(question: str) -> str:
    """A question is answered by the next prompt."""
    return ""
