"""What a run asks of oversight and human, as messages; and their replies, as messages to the run.

A run that waits has one open thread for its question, its plan or its steps. Whoever replies first is not
waited for twice: of several replies the gate chooses. Oversight is asked before the human, if the settings
say so and a model is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kernel.asking.responder import Ladder
from kernel.document.escaping import fingerprint
from kernel.document.model import Document
from kernel.loop.approval import Decider, serious
from kernel.loop.run_context import RunContext, Session, overseen
from runtime.memory.store import Shelf
from runtime.nervous import oversight
from runtime.nervous.gate import resolve
from runtime.nervous.messages import DECISIONS, Message, Messages, Tier
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
        if found := resolve(self.messages.thread(asked.id)):
            return said(found)
        if self.mode(run_context.ladder) == "off":
            return None
        judged = self._judged(run_context, document)
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

    def asked(self, document: Document) -> Message:
        """The message that opens the thread of what a document waits for; written once."""
        meta, waits = document.meta, document.meta.waiting or {}
        approval = waits.get("for") == "approval"
        text = oversight.planned(document) if approval else str(waits.get("question", ""))
        data: dict[str, Any] = {"task": document.task}
        if approval:
            steps = document.steps.values()
            about = {
                "why": document.text(2, "review"),
                "confidence": document.text(2, "confidence"),
                "dangers": [str(each) for step in steps for each in step.evidence.get("dangers", ())],
            }
            data |= {key: value for key, value in about.items() if value}
        kind = "proposal" if approval else "escalation" if overseen(document) else "question"
        return self.messages.write(
            meta.run,
            meta.id,
            str(meta.attempt),
            kind,
            fingerprint([text, str(waits.get("question", ""))]),
            type=kind,
            sender=self.agent,
            run=meta.run,
            loop=meta.id,
            text=text,
            status="open",
            data=data,
        )

    def told(self, document: Document, kind: str, by: Decider, values: Mapping[str, Any]) -> None:
        """Record what somebody replied to an open question of a run."""
        asked = self.asked(document)
        tier: Tier = "oversight" if by.kind == "oversight" else "human"
        self.messages.write(
            stream="guidance",
            type=kind,
            tier=tier,
            sender=by.name or by.kind,
            to=self.agent,
            run=asked.run,
            loop=asked.loop,
            in_reply_to=asked.id,
            text=str(values.get("text") or values.get("why") or ""),
            data={"by": by.values},
        )

    def ended(self, result: RunResult) -> None:
        """Close the threads of a run that has ended, with what came of it."""
        for thread in self.messages.open():
            if thread[0].run == result.run:
                self.messages.write(
                    thread[0].id,
                    "outcome",
                    type="outcome",
                    sender=self.agent,
                    run=result.run,
                    in_reply_to=thread[0].id,
                    text=result.output or result.reason,
                    data={"status": result.status},
                )


def said(reply: Message) -> tuple[Said, Decider]:
    """A reply as what is told to a run, and who decided it."""
    by = Decider.read(reply.data)
    if reply.type == "veto":
        return Said("cancel"), by
    key = "why" if reply.type in DECISIONS else "text"
    return Said(reply.type, {key: reply.text}), by
