"""The decision log: what a worker chose, what oversight and human said, and what came of it.

It is a view of the messages and stores nothing: the same messages give the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernel.document.model import ACCEPTED
from runtime.nervous.gate import resolve
from runtime.nervous.messages import ASKING, REPLIES, Message, Tier
from runtime.text.lines import flat, shortened
from runtime.workspace.deciders import Decider

UNCHANGED = 10
"""Approvals by oversight after which calls of a kind need no review. Source: nervous.md, "Proposals"."""
REFUSALS = ("nudge", "reject", "veto")
REVIEW_AGAIN = "review again"
"""The key in the data of a `revoke` that ends what was learned about a task type, which is its value."""


@dataclass(frozen=True)
class Verdict:
    """What oversight or a human said: approve, nudge, reject, veto, answer, or pass."""

    type: str
    by: Decider
    text: str = ""
    at: str = ""

    def __str__(self) -> str:
        return f"{self.type} by {self.by}{': ' if self.text else ''}{flat(self.text)}"


@dataclass(frozen=True)
class Decision:
    """One plan, call or question of a worker that somebody had to decide about."""

    id: str  # of the message that asks
    at: str
    run: str
    loop: str
    kind: str  # proposal, question or escalation
    task: str
    task_type: str
    chose: str  # the plan, the calls or the question
    why: str = ""  # why it went up
    confidence: str = ""
    dangers: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()  # kinds of the dangerous calls; none if one has no kind
    read: tuple[str, ...] = ()  # staged lines that oversight and human are shown
    oversight: Verdict | None = None  # also of a client or a policy, which count as that
    human: Verdict | None = None
    outcome: str = ""  # the status with which the run ended; "" while it goes on

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What was said, oversight first."""
        return tuple(each for each in (self.oversight, self.human) if each)

    @property
    def refused(self) -> bool:
        """Whether somebody sent it back or refused it."""
        return any(each.type in REFUSALS for each in self.verdicts)

    @property
    def guidance(self) -> Verdict | None:
        """What to do differently: the words of the human, else of oversight; None if it was not refused."""
        return next((each for each in reversed(self.verdicts) if each.type in REFUSALS and each.text), None)

    def line(self, most: int = 300) -> str:
        """What was chosen, said and came of it, on one line."""
        said = "; ".join(map(str, self.verdicts)) or "not decided"
        return f"{shortened(flat(self.chose), most)} → {said}; came to: {self.outcome or 'not ended'}"


@dataclass(frozen=True)
class Settled:
    """Dangerous calls of one kind in tasks of one type: how often oversight has approved them in a row."""

    task_type: str
    call: str
    approvals: int

    @property
    def holds(self) -> bool:
        """Whether such calls need no review any more."""
        return self.approvals >= UNCHANGED


def decisions(messages: Iterable[Message]) -> list[Decision]:
    """The decisions of these messages, oldest first."""
    asked: list[Message] = []
    threads: dict[str, list[Message]] = {}
    for message in messages:
        if message.type in ASKING and message.tier == "worker" and not message.in_reply_to:
            asked.append(message)
        threads.setdefault(message.in_reply_to, []).append(message)
    return [
        _decision(each, threads.get(each.id, ()))
        for each in sorted(asked, key=lambda each: (each.at, each.id))
    ]


def _decision(asked: Message, thread: Sequence[Message]) -> Decision:
    data = asked.data
    ends = [each for each in thread if each.type == "outcome"]
    return Decision(
        asked.id,
        asked.at,
        asked.run,
        asked.loop,
        asked.type,
        str(data.get("task", "")),
        str(data.get("task_type", "")),
        asked.text,
        str(data.get("why", "")),
        str(data.get("confidence", "")),
        tuple(map(str, data.get("dangers", ()))),
        tuple(map(str, data.get("calls", ()))),
        tuple(map(str, data.get("read", ()))),
        _verdict(thread, "oversight"),
        _verdict(thread, "human"),
        str(ends[-1].data.get("status", "")) if ends else "",
    )


def _verdict(thread: Sequence[Message], tier: Tier) -> Verdict | None:
    said = [each for each in thread if each.tier == tier]
    reply = resolve(said)
    if reply is None and tier == "oversight":  # it passed on what only a human can decide
        reply = next((each for each in said if each.type == "observation"), None)
    if reply is None:
        return None
    by = Decider.read(reply.data) if "by" in reply.data else Decider("oversight", reply.sender)
    return Verdict(reply.type if reply.type in REPLIES else "pass", by, reply.text, reply.at)


def settled(messages: Iterable[Message]) -> list[Settled]:
    """How often oversight has approved each kind of call, by task type, since one was refused or failed.

    A call counts when its run was accepted. A `revoke` with `REVIEW_AGAIN` ends what was counted for a type.
    """
    messages = list(messages)
    counts: dict[tuple[str, str], int] = {}
    revoked = [(each.at, "", str(each.data[REVIEW_AGAIN])) for each in messages if REVIEW_AGAIN in each.data]
    events = [*revoked, *((each.at, each.id, each) for each in decisions(messages))]
    for _, _, event in sorted(events, key=lambda each: each[:2]):
        if isinstance(event, str):
            counts.update({key: 0 for key in counts if key[0] == event})
            continue
        for call in event.calls:
            key, said = (event.task_type, call), event.oversight
            if event.refused or (event.outcome and event.outcome not in ACCEPTED):
                counts[key] = 0
            elif event.outcome and said and said.type == "approve" and said.by.kind == "oversight":
                counts[key] = counts.get(key, 0) + 1
    return [Settled(*key, count) for key, count in sorted(counts.items()) if count]
