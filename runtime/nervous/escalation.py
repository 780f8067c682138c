"""Escalations: what a worker hands to oversight, who solves it, and what the worker learns from that."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from kernel.document.model import ACCEPTED, Document
from kernel.loop.run_context import RunContext
from kernel.tools.tool import Tool
from runtime.nervous.discovery import Discovery
from runtime.nervous.gate import resolve
from runtime.nervous.messages import Message, Messages
from runtime.workspace.deciders import PROGRAM, Decider

ESCALATE = "escalate"
"""The tool by which a worker escalates."""
DESIGN = "request-design"
"""The specialist that designs tools."""
REQUEST = "request-"
"""What the names of specialists begin with; the category follows."""
CATEGORIES = ("statistics", "code", "visualization", "design", "general")
FOR_REQUEST = 5
"""Escalations of a category after which its specialist is known. Source: nervous.md, "Discovery"."""
FOR_BASIC = 10
"""Solved escalations of a category after which its basic tools are known. Source: the same."""
ALIKE = 3
"""Letters that tell a category: `stats`, `coding`, `visual`."""
_FIRST = re.compile(r"(?i)\W*(?:category\W+)?([a-z]+)\W*[:;,\n–—-]")
_NAMED = re.compile(r"(?im)^[^\w\n]*category\W+([a-z]+)")
_TOOL = re.compile(r"[a-z0-9][a-z0-9-]*")


def category_of(what: str) -> str:
    """The category of an escalation: its first word, or the line that names it; else `general`."""
    for found in (_FIRST.match(what), _NAMED.search(what)):
        start = found[1].lower()[:ALIKE] if found else ""
        for category in CATEGORIES:
            if category[:ALIKE] == start:
                return category
    return "general"


def guide(tools: Mapping[str, Tool], what: str) -> str:
    """The tool whose instructions the loop of an escalation follows: the specialist of its category."""
    specialist = f"{REQUEST}{category_of(what)}"
    return specialist if specialist in tools else ESCALATE


def about(run: str, loop: str) -> tuple[str, ...]:
    """What makes the id of the message of an escalation: its loop."""
    return run, loop, "escalation"


def asked(messages: Messages, agent: str, document: Document, at: str) -> Message:
    """The message that opens the thread of an escalation, from its loop's document; written once."""
    meta, task = document.meta, document.text(1, "task")
    tried = [f"{note.source}: {note.text}" for note in document.section(1).notes if "worker" in note.source]
    return messages.write(
        *about(meta.run, meta.id),
        type="request_design" if meta.type == DESIGN else "escalation",
        sender=agent,
        to="oversight",
        category=meta.type.removeprefix(REQUEST) if meta.type.startswith(REQUEST) else category_of(task),
        run=meta.run,
        loop=meta.id,
        text="\n".join([task, *tried]),
        status="open",
        at=at,
    )


def settle(discovery: Discovery, run_context: RunContext, child: Document) -> str:
    """Record how an escalation ended, and grant what the worker is ready for; returns what it is taught.

    The ids of the messages are made of the loop: after a crash nothing is written twice.
    """
    agent, messages, clock = discovery.config.agent, discovery.messages, discovery.clock
    escalation = asked(messages, agent, child, clock())
    answer = resolve(messages.thread(escalation.id))
    by = Decider.read(answer.data) if answer else _author(child)
    solved = child.meta.status in ACCEPTED
    text = child.text(5, "result") if solved else child.text(5, "error") or child.text(5, "escalation")
    place = {name: getattr(escalation, name) for name in ("run", "loop", "category")}
    place |= {"in_reply_to": escalation.id}
    said: list[tuple[str, str]] = [("answer", text)] if solved and not answer else []
    said += [("teaching", teaching)] if (teaching := child.text(5, "teaching")) else []
    for type, words in said:
        messages.guide(escalation, escalation.id, type, type=type, text=words, by=by, at=clock())
    data = {"status": child.meta.word, "solved": solved}
    messages.write(
        escalation.id, "outcome", type="outcome", sender=agent, text=text, data=data, at=clock(), **place
    )
    if discovery.config.discovery == "progressive":
        for name in _TOOL.findall(child.text(5, "grant").lower()):
            if name in run_context.catalogue.tools:
                why = f"You know {name} now: it was granted with the solution of an escalation."
                once = (escalation.id, "grant", name)
                discovery.grant(name, agent, "teaching", by, why, once, **place)
            else:
                run_context.warn(f"{by} grants {name}, and there is no such tool", child.meta.id)
        _earn(discovery, run_context.catalogue.tools, agent, place)
    taught = [each.text for each in messages.thread(escalation.id) if each.type in ("teaching", "grant")]
    return "\n".join(dict.fromkeys(taught))


def _author(child: Document) -> Decider:
    """Who solved an escalation, by the origin of the result."""
    note = child.note(5, "result")
    kind, _, name = (note.origin if note else "").partition(":")
    return PROGRAM if kind == "person" else Decider("oversight", name if kind == "model" else "")


def _earn(discovery: Discovery, tools: Collection[str], agent: str, place: Mapping[str, str]) -> None:
    """Grant what an agent is ready for by the number of its escalations of a category."""
    messages, category = discovery.messages, place["category"]
    kinds = ("escalation", "request_design")
    asked = [each for type in kinds for each in messages.all(type=type, sender=agent, category=category)]
    ended = messages.all(type="outcome", sender=agent, category=category)
    solved = sum(bool(each.data.get("solved")) for each in ended)
    for heading, count, least, wanted in (
        ("request", len(asked), FOR_REQUEST, [f"{REQUEST}{category}"]),
        ("basic", solved, FOR_BASIC, discovery.rules.basic.get(category, ())),
    ):
        names = [name for name in wanted if name in tools and discovery.undecided(name, agent)]
        if count < least or not names:
            continue
        words = discovery.rules.words(heading, category=category, count=count, tools=" and ".join(names))
        by, once = Decider("policy", f"{count} escalations"), (place["in_reply_to"], heading)
        fields = {"stream": "guidance", "tier": "oversight", "sender": by.name, "to": agent, **place}
        messages.write(*once, type="teaching", text=words, at=discovery.clock(), **fields)
        for name in names:
            discovery.grant(name, agent, "escalation", by, words, (*once, name), **place)
