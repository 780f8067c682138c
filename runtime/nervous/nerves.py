"""What a run asks of oversight and human, as messages; and their replies, as messages to the run.

A run that waits has one open thread for its question, its plan or its steps. Whoever replies first is not
waited for twice: of several replies the gate chooses. Oversight is asked before the human, if the settings
say so and a model is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kernel.asking.responder import Ladder
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, now
from kernel.loop.approval import Decider, serious, why_not_approver
from kernel.loop.run_context import RunContext, Session, overseen
from runtime.memory.store import Shelf
from runtime.nervous import escalation, oversight
from runtime.nervous.discovery import tier_of
from runtime.nervous.gate import resolve
from runtime.nervous.messages import DECISIONS, Message, Messages, Type, named
from runtime.workspace.inbox import Said
from runtime.workspace.runs import RunResult, open_question
from runtime.workspace.settings import Config

Mode = Literal["auto", "off", "risky", "always"]
"""Which plans oversight reviews. `auto` is `risky` where the ladder has a rung of that tier, else `off`."""


class Nerves:
    """The messages of one workspace, and who replies to them."""

    def __init__(
        self, shelf: Callable[[], Shelf], folder: Path, systems: Sequence[Path], config: Config
    ) -> None:
        """`shelf` opens the store; the markdown lies in `folder`."""
        self._shelf, self.folder, self.systems, self.config = shelf, folder, tuple(systems), config

    @property
    def agent(self) -> str:
        """The worker whose runs these are."""
        return self.config.agent

    @cached_property
    def messages(self) -> Messages:
        """The store of messages, opened when it is needed."""
        return Messages(self._shelf(), self.folder)

    def mode(self, ladder: Ladder) -> Mode:
        """Which plans are reviewed on this ladder."""
        if self.config.review != "auto":
            return self.config.review
        return "risky" if any(rung.tier == "oversight" for rung in ladder) else "off"

    def why_review(self, session: Session) -> str:
        """Why the plan of a loop goes up before DO; "" if it does not."""
        mode, ladder = self.mode(session.run.ladder), session.run.ladder
        planner = next((rung for rung in ladder if rung.name == session.doc.meta.taker), None)
        if mode == "off" or overseen(session.doc) or planner is None or planner.tier != "worker":
            return ""
        if dangers := session.doc.text(2, "dangers"):
            return f"it is dangerous\n{dangers}"
        return "every plan is reviewed" if mode == "always" else ""

    async def reply(
        self, run_context: RunContext, documents: Iterable[Document]
    ) -> tuple[Said, Decider] | None:
        """The reply to what a run waits for, of whoever has replied, else of oversight; None: wait."""
        document = open_question(documents)
        if document is None:
            return None
        asked = self.asked(document)
        if found := self.resolved(document):
            return said(found)
        if self.mode(run_context.ladder) == "off":
            return None
        judged = await asyncio.to_thread(self._judged, run_context, document)
        if judged is None:
            return None
        fields = {"in_reply_to": asked.id, "run": asked.run, "loop": asked.loop, "sender": judged.by.name}
        if judged.type == "pass":
            text = judged.text or "left to a human"
            self.messages.write(
                asked.id, "pass", type="observation", tier="oversight", text=text, **fields, to="human"
            )
            return None
        reply = self.messages.write(
            asked.id,
            "oversight",
            stream="guidance",
            type=judged.type,
            tier="oversight",
            to=self.agent,
            text=judged.text,
            data={"by": judged.by.values},
            **fields,
        )
        return said(reply)

    def _judged(self, run_context: RunContext, document: Document) -> oversight.Reply | None:
        waits = document.meta.waiting or {}
        if waits.get("for") == "person":
            question = document.note(1, "question")
            if question is None or question.origin == "kernel":  # no rung could take it
                return None
            return oversight.answer(run_context, self.systems, document, question.text)
        if serious(document.steps.values()):
            return None  # only a human may approve it
        reasons = document.text(2, "review") or str(waits.get("question", ""))
        return oversight.review(run_context, self.systems, document, reasons)

    def resolved(self, document: Document) -> Message | None:
        """The reply that holds for what a document waits for; None: wait."""
        replies = self.messages.thread(self.thread_for(document))
        return resolve(each for each in replies if self._counts(document, each))

    def _counts(self, document: Document, reply: Message) -> bool:
        """Whether a reply suits what a document waits for, and its sender may decide that."""
        suits = replies_to(kind_of(document))
        if reply.type != "approve":
            return reply.type in suits
        by, steps = Decider.read(reply.data), document.steps.values()
        return reply.type in suits and not why_not_approver(by, steps, self.config.trusted_clients)

    def thread_for(self, document: Document) -> str:
        """The id of the thread of what a document waits for, whether it is open yet or not."""
        return named(*self._about(document))

    def _about(self, document: Document) -> tuple[str, ...]:
        """What makes the id: a question that is asked again after an answer has a thread of its own."""
        if kind_of(document) == "escalation":
            return escalation.about(document.meta.run, document.meta.id)
        meta, question = document.meta, str((document.meta.waiting or {}).get("question", ""))
        answers = sum(note.key == "answer" for note in document.section(1).notes)
        said = [_asks(document), question, *([str(answers)] if answers else [])]
        return meta.run, meta.id, str(meta.attempt), kind_of(document), fingerprint(said)

    def asked(self, document: Document) -> Message:
        """The message that opens the thread of what a document waits for; written once."""
        meta, kind = document.meta, kind_of(document)
        if kind == "escalation":
            return escalation.asked(self.messages, self.agent, document, now())
        data: dict[str, Any] = {"task": document.task}
        if kind == "proposal":
            steps = document.steps.values()
            about = {
                "why": document.text(2, "review"),
                "confidence": document.text(2, "confidence"),
                "dangers": [str(each) for step in steps for each in step.evidence.get("dangers", ())],
            }
            data |= {key: value for key, value in about.items() if value}
        return self.messages.write(
            *self._about(document),
            type=kind,
            sender=self.agent,
            run=meta.run,
            loop=meta.id,
            text=_asks(document),
            status="open",
            data=data,
        )

    def told(self, document: Document, kind: str, by: Decider, values: Mapping[str, Any]) -> Message:
        """Record what somebody replied to an open question of a run."""
        asked = self.asked(document)
        return self.messages.write(
            stream="guidance",
            type=kind,
            tier=tier_of(by),
            sender=by.name or by.kind,
            to=self.agent,
            run=asked.run,
            loop=asked.loop,
            in_reply_to=asked.id,
            text=str(values.get("text") or values.get("why") or ""),
            data={"by": by.values},
        )

    def give_up(self, document: Document) -> Message | None:
        """Write the reply of the policy for a thread that nobody has replied to in time; None: wait on."""
        asked, policy = self.asked(document), self.config.unanswered
        if policy == "wait" or (policy == "reject" and asked.type != "proposal"):
            return None
        return self.messages.write(
            asked.id,
            "policy",
            stream="guidance",
            type="reject" if policy == "reject" else "veto",
            tier="oversight",
            sender="policy",
            to=self.agent,
            run=asked.run,
            loop=asked.loop,
            in_reply_to=asked.id,
            text=f"nobody replied within {self.config.patience:g} seconds",
            data={"by": Decider("policy", "unanswered").values},
        )

    def ended(self, result: RunResult) -> None:
        """Close the threads of a run that has ended, with what came of it."""
        for thread in self.messages.threads():
            if thread.run == result.run:
                text = result.output or result.reason
                self.close(thread.id, result.run, text, {"status": result.status})

    def close(self, thread: str, run: str, text: str, data: Mapping[str, Any]) -> None:
        """Close a thread with an outcome; once."""
        self.messages.write(
            thread,
            "outcome",
            type="outcome",
            sender=self.agent,
            run=run,
            in_reply_to=thread,
            text=text,
            data=dict(data),
        )


def kind_of(document: Document) -> Literal["proposal", "question", "escalation"]:
    """The type of message that asks for what a document waits for."""
    if (document.meta.waiting or {}).get("for") == "approval":
        return "proposal"
    question = document.note(1, "question")
    kernels = question is not None and question.origin == "kernel"  # no model of oversight could take it
    return "escalation" if kernels and overseen(document) else "question"


def replies_to(type: str) -> tuple[Type, ...]:
    """The types of reply that decide a message of this type."""
    return DECISIONS if type == "proposal" else ("answer", "veto")


def _asks(document: Document) -> str:
    waits = document.meta.waiting or {}
    return oversight.planned(document) if waits.get("for") == "approval" else str(waits.get("question", ""))


def said(reply: Message) -> tuple[Said, Decider]:
    """A reply as what is told to a run, and who decided it."""
    by = Decider.read(reply.data)
    if reply.type == "veto":
        return Said("cancel"), by
    key = "why" if reply.type in DECISIONS else "text"
    return Said(reply.type, {key: reply.text}), by
