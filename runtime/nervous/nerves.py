"""What a run asks of oversight and human, as messages; and their replies, as messages to the run.

A run that waits has one open thread for its question, its plan or its steps. Whoever replies first is not
waited for twice: of several replies the gate chooses. Oversight is asked before the human, if the settings
say so and a model is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kernel.document.escaping import fingerprint
from kernel.document.model import Document, now
from kernel.errors import UsageError
from kernel.loop.approval import REVIEW, planned_dangers
from kernel.loop.run_context import RunContext, Session, overseen
from kernel.store.files import FileStore
from runtime.memory.run_memory import RunMemory
from runtime.nervous import escalation, oversight
from runtime.nervous.decisions import UNCHANGED
from runtime.nervous.gate import resolve
from runtime.nervous.log import DecisionLog
from runtime.nervous.messages import DECISIONS, Message, Messages, Type, named, tier_of
from runtime.nervous.oversight import OVERSIGHT, waiting_steps
from runtime.nervous.staging import Staging
from runtime.workspace.answering import answers
from runtime.workspace.deciders import Decider, why_not_approver
from runtime.workspace.inbox import Said, vetoed
from runtime.workspace.question import asked_steps, question_of
from runtime.workspace.runs import RunResult, open_question
from runtime.workspace.settings import Config

DANGEROUS = "it is dangerous"
"""The reason for which a plan with known dangers goes up."""
MOST_SENT_BACK = 3
"""Plans of one loop that oversight sends back or rejects; after that a human decides."""


class Nerves:
    """The messages of one workspace, and who replies to them."""

    def __init__(self, memory: RunMemory, folder: Path, systems: Sequence[Path], config: Config) -> None:
        """The messages are in the shelf of `memory`, and as markdown in `folder`."""
        self.memory, self.folder, self.systems, self.config = memory, folder, tuple(systems), config
        self.log = DecisionLog(memory, lambda: self.messages, folder)
        self.staging = Staging(memory, lambda: self.messages, config)

    @property
    def agent(self) -> str:
        """The worker whose runs these are."""
        return self.config.agent

    @cached_property
    def messages(self) -> Messages:
        """The store of messages, opened when it is needed."""
        return Messages(self.memory.brain.shelf, self.folder)

    def why_review(self, session: Session, confidence: str) -> str:
        """Why the plan of a loop goes up before DO, "" if it does not."""
        mode, ladder = self.config.review_on(session.run.ladder), session.run.ladder
        planner = next((rung for rung in ladder if rung.name == session.doc.meta.taker), None)
        if mode == "off" or overseen(session.doc) or planner is None or planner.tier != "worker":
            return ""
        reasons = ["every plan is reviewed"] if mode == "always" else []
        if confidence == "low" and not _sent_back(session.doc):  # still unsure: a higher rung makes the plan
            reasons.append("its confidence is low")
        reasons += [DANGEROUS] if session.doc.text(2, "dangers") else []
        return "; ".join(reasons) or self.log.failed_lately(session.doc.text(1, "task"))

    async def reply(
        self, run_context: RunContext, documents: Iterable[Document]
    ) -> tuple[Said, Decider] | None:
        """The reply to what a run waits for, of whoever has replied, else of oversight; None: wait."""
        document = open_question(documents)
        if document is None:
            return None
        asked = self.asked(document, calls_of(run_context, document))
        if found := self.resolved(document):
            return said(found)
        passed = any(each.type == "observation" for each in self.messages.thread(asked.id))
        if passed or self.config.review_on(run_context.ladder) == "off":
            return None
        judged = await self._judged(run_context, document, asked)
        if judged is None:
            return None
        for number in judged.holds:
            self._approve_read(asked, number, judged.by)
        if judged.type == "pass":
            text = judged.text or "left to a human"
            _note_passed(run_context, document, f"by {judged.by}: {text}", judged.by)
            about = {"in_reply_to": asked.id, "run": asked.run, "loop": asked.loop, "sender": judged.by.name}
            self.messages.write(
                asked.id, "pass", type="observation", tier="oversight", text=text, **about, to="human"
            )
            return None
        named_for = (asked.id, "oversight")
        return said(self.messages.guide(asked, *named_for, type=judged.type, text=judged.text, by=judged.by))

    def _approve_read(self, asked: Message, number: int, by: Decider) -> None:
        """Let in a line of what was read, of those that oversight was shown; a gate may refuse it."""
        lines = asked.data.get("read", [])
        if 0 < number <= len(lines):
            with suppress(UsageError):
                self.staging.approve(str(lines[number - 1]).partition(" ")[0], by)

    async def _judged(
        self, run_context: RunContext, document: Document, asked: Message
    ) -> oversight.Reply | None:
        """What oversight says, or what was learned of it; None if it may not decide, or there is none."""
        waits, read = document.meta.waiting or {}, asked.data.get("read", ())
        if waits.get("for") == "person":
            question = document.note(1, "question")
            if question is None or question.origin == "kernel":  # no rung could take it
                return None
            known = self.log.answers(question.text)
            return await oversight.answer(run_context, self.systems, document, question.text, known, read)
        if why_not_approver(OVERSIGHT, asked_steps(document), ()):
            return None
        if self._settled(document, asked):
            return oversight.Reply(
                "approve", "", Decider("policy", f"approved {UNCHANGED} times by oversight")
            )
        if _sent_back(document) >= MOST_SENT_BACK:
            return oversight.Reply("pass", f"it was sent back {MOST_SENT_BACK} times", OVERSIGHT)
        why = [document.text(2, REVIEW), document.text(2, "dangers")]
        whole = question_of(FileStore(run_context.artifacts.parent), document)
        reasons = str(whole.text) if waiting_steps(document) else "\n".join(filter(None, why))
        like = self.log.like(str(asked.data["task_type"]))
        return await oversight.review(run_context, self.systems, document, reasons, like, read)

    def _settled(self, document: Document, asked: Message) -> bool:
        """Whether only dangers are asked about, and oversight has approved all such calls often enough."""
        calls = asked.data.get("calls", ())
        if not calls or not (document.text(2, REVIEW) == DANGEROUS or waiting_steps(document)):
            return False
        holds = {(each.task_type, each.call) for each in self.log.settled() if each.holds}
        return holds.issuperset((asked.data["task_type"], call) for call in calls)

    def resolved(self, document: Document) -> Message | None:
        """The reply that holds for what a document waits for; None: wait."""
        replies = self.messages.thread(self.thread_for(document))
        return resolve(each for each in replies if self._counts(document, each))

    def _counts(self, document: Document, reply: Message) -> bool:
        """Whether a reply suits what a document waits for, and its sender may decide that."""
        suits = replies_to(kind_of(document))
        if reply.type != "approve":
            return reply.type in suits
        by, steps = Decider.read(reply.data), asked_steps(document)
        return reply.type in suits and not why_not_approver(by, steps, self.config.trusted_clients)

    def thread_for(self, document: Document) -> str:
        """The id of the thread of what a document waits for, whether it is open yet or not."""
        return named(*self._about(document))

    def _about(self, document: Document) -> tuple[str, ...]:
        """What makes the id: a question that is asked again after an answer has a thread of its own."""
        if kind_of(document) == "escalation":
            return escalation.about(document.meta.run, document.meta.id)
        meta, question = document.meta, str((document.meta.waiting or {}).get("question", ""))
        said = [_asks(document), question, *([str(n)] if (n := answers(document)) else [])]
        return meta.run, meta.id, str(meta.attempt), kind_of(document), fingerprint(said)

    def asked(self, document: Document, calls: Sequence[str] = ()) -> Message:
        """The message that opens the thread of what a document waits for; written once.

        `calls` are the kinds of its dangerous calls.
        """
        meta, kind = document.meta, kind_of(document)
        if kind == "escalation":
            return escalation.asked(self.messages, self.agent, document, now())
        type = self.log.task_type(document.text(1, "task"))
        data: dict[str, Any] = {"task": document.task, "task_type": type}
        if kind == "proposal":
            steps = waiting_steps(document).values()
            about = {
                "why": "" if steps else document.text(2, REVIEW),
                "confidence": document.text(2, "confidence"),
                "dangers": [str(each) for step in steps for each in step.evidence.get("dangers", ())]
                or document.text(2, "dangers").splitlines(),
                "calls": list(calls),
            }
            data |= {key: value for key, value in about.items() if value}
        about_what = f"{document.task}\n{_asks(document)}" if kind == "proposal" else _asks(document)
        if read := self.staging.near(about_what):
            data["read"] = [each.line for each in read]
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
        """Record a reply to a document's question, plan or steps, or a veto of its run."""
        if document.meta.waiting:
            asked: Message | None = self.asked(document)
        else:
            asked = next(reversed(self.messages.all(run=document.meta.run, status="open")), None)
        return self.messages.write(
            stream="guidance",
            type=kind,
            tier=tier_of(by),
            sender=by.name or by.kind,
            to=self.agent,
            run=document.meta.run,
            loop=document.meta.id,
            in_reply_to=asked.id if asked else "",
            text=str(values.get("text") or values.get("why") or ""),
            data={"by": by.values},
        )

    def give_up(self, document: Document) -> Message | None:
        """Write the reply of the policy for a thread that nobody has replied to in time; None: wait on."""
        asked, policy = self.asked(document), self.config.unanswered
        if policy == "wait" or (policy == "reject" and asked.type != "proposal"):
            return None
        return self.messages.guide(
            asked,
            *(asked.id, "policy"),
            type="reject" if policy == "reject" else "veto",
            text=f"nobody replied within {self.config.patience:g} seconds",
            by=Decider("policy", "unanswered"),
            sender="policy",
        )

    def ended(self, result: RunResult) -> None:
        """Learn from what was said in a run that has ended, and close its threads with what came of it.

        An open thread tells the next beat that this is not done yet.
        """
        self.staging.ended(result)
        if self.config.learn != "off":
            self.log.teach(result.run)
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


def calls_of(run_context: RunContext, document: Document) -> list[str]:
    """The kinds of the dangerous calls that a document waits with, each with the names of its dangers.

    None if one is serious or of no kind.
    """
    session = Session(run_context, document)
    waits = waiting_steps(document)
    found: list[str] = []
    for step, tool, dangers in planned_dangers(session):
        if waits and step.n not in waits:
            continue
        kind = run_context.hooks.kind(tool, dict(step.args or {}))
        if not kind or "results" in step.evidence or any(each.severity == "serious" for each in dangers):
            return []
        found.append(f"{kind} ({', '.join(sorted(each.rule for each in dangers))})")
    return sorted({*found})


def _note_passed(run_context: RunContext, document: Document, text: str, by: Decider) -> None:
    """Note in a waiting document that oversight left the decision to a human."""
    session = Session(run_context, run_context.store.load(document.meta.id))
    asks = (document.meta.waiting or {}).get("for") == "person"
    session.note(1 if asks else 2, "passed on", text, by.origin)
    session.save()


def _sent_back(document: Document) -> int:
    """How many plans of a loop oversight has sent back or rejected."""
    decided = [fold for fold in document.section(2).folds if fold.decision in ("sent back", "rejected")]
    by_model = (
        note.origin.startswith("model:") for fold in decided for note in fold.notes if note.key == "learned"
    )
    return sum(by_model)


def said(reply: Message) -> tuple[Said, Decider]:
    """A reply as what is told to a run, and who decided it."""
    by = Decider.read(reply.data)
    if reply.type == "veto":
        return vetoed(reply.text), by
    key = "why" if reply.type in DECISIONS else "text"
    return Said(reply.type, {key: reply.text}), by
