"""Oversight: the models of that tier review what a worker plans, and answer what it asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, cast

from kernel.asking.conversation import by_turns
from kernel.document.escaping import to_json
from kernel.document.model import Document, Step, root_id
from kernel.loop.budget import Amount, Bounds
from kernel.loop.criteria import checks_of
from kernel.loop.run_context import RunContext, Session
from runtime.memory.prompting import LONGEST, Asking
from runtime.secrets.redaction import redact, redact_values
from runtime.workspace.deciders import Decider
from runtime.workspace.question import proposed

OVERSIGHT = Decider("oversight")
SHOWN = 12
"""Notes of context that a question shows."""


@dataclass(frozen=True)
class Reply:
    """What oversight says: a decision (approve, nudge, reject), an answer, or `pass` to a human."""

    type: str
    text: str
    by: Decider
    holds: tuple[int, ...] = ()  # the lines of what was read that it says are true, counted from 1


async def review(
    run_context: RunContext,
    systems: Sequence[Path],
    document: Document,
    reasons: str,
    earlier: str,
    read: Sequence[str],
) -> Reply | None:
    """Review the plan, or the waiting steps, of a loop; None if there is no oversight or no usable reply.

    A plan that a prompt would show only in part is left to a human.
    """
    plan = planned(document)
    if len(plan) > LONGEST and run_context.ladder.oversight:
        return Reply("pass", f"{len(plan):,} characters: too long to be shown to oversight", OVERSIGHT)
    if any(redact(text) != redact_values(text) for text in (plan, str(reasons))):
        why = "a part of it would be hidden from oversight, because it looks like a secret"
        return Reply("pass", why, OVERSIGHT)
    slots = {"plan": plan, "reasons": reasons}
    found = await _ask(run_context, systems, document, "review", slots, earlier, read)
    if found is None:
        return None
    reply, by = found
    decision, why = str(reply.get("decision", "pass")), " ".join(str(reply.get("why", "")).split())
    if decision not in ("approve", "nudge", "reject") or (decision != "approve" and not why):
        decision = "pass"
    return Reply(decision, why, by, _holds(reply))


async def answer(
    run_context: RunContext,
    systems: Sequence[Path],
    document: Document,
    question: str,
    earlier: str,
    read: Sequence[str],
) -> Reply | None:
    """Answer a worker's question; None if there is no oversight or no usable reply."""
    notes = [note for note in document.section(1).notes if note.key in ("context", "fact", "answer")]
    context = "\n".join(f"- {note.text} ({note.source or note.origin})" for note in notes[:SHOWN])
    slots = {"question": question, "context": context or "nothing more"}
    found = await _ask(run_context, systems, document, "answer", slots, earlier, read)
    if found is None:
        return None
    reply, by = found
    text = str(reply.get("answer", "")).strip()
    return Reply("answer" if reply.get("known") is True and text else "pass", text, by, _holds(reply))


def _holds(reply: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = reply.get("holds")
    return tuple(each for each in numbers if type(each) is int) if isinstance(numbers, list) else ()


def waiting_steps(document: Document) -> dict[int, Step]:
    """The steps that wait for approval."""
    return {n: step for n, step in document.steps.items() if step.state == "waiting"}


def planned(document: Document) -> str:
    """The plan of a document as oversight and human see it: its literal steps."""
    steps = {**proposed(document), **waiting_steps(document)}
    lines = [
        f"{n}. {step.tool or 'subtask'} {to_json(dict(step.args)) if step.args is not None else step.what}"
        for n, step in sorted(steps.items())
    ]
    lines += [] if by_turns(document) else [document.text(2, "work")]  # by turns it is the task
    lines += [f"check: {command}" for command in checks_of(document)]
    return "\n".join(filter(None, [document.text(2, "approach"), *lines]))


async def _ask(
    run_context: RunContext,
    systems: Sequence[Path],
    document: Document,
    prompt: str,
    slots: Mapping[str, str],
    earlier: str,
    read: Sequence[str],
) -> tuple[Mapping[str, Any], Decider] | None:
    """The typed reply to a prompt of `system/nervous/`, at the cost of the run; META lists the call."""
    lines = "\n".join(f"{n}. {line}" for n, line in enumerate(read, 1))
    slots = {"task": document.task, **slots, "earlier": earlier or "nothing yet", "read": lines or "nothing"}
    asking = Asking(
        run_context.ladder.oversight,
        systems,
        run_context.log,
        _left(run_context),
        f"oversight-{run_context.id}-0",
        folder="nervous",
        keep_prompt=partial(run_context.hooks.keep_prompt, run_context),
    )
    if not asking:
        return None
    session = Session(run_context, document)
    session.emit("ask_started", phase=prompt, step=0, rung=asking.rungs[0].name)
    before = asking.spent()
    text = await asyncio.to_thread(asking, prompt, slots)
    since, rung = asking.spent() - before, asking.rungs[0]
    usd = None if since.unpriced else round(since.usd, 9)
    session = Session(run_context, run_context.store.load(document.meta.id))
    used = {"calls": since.calls, "prompt": since.prompt_tokens, "out": since.completion_tokens}
    priced = {"usd": usd} if since.usd or since.unpriced else {}
    session.answered(prompt, rung.name, model=rung.name, **used, **priced)
    session.save()
    told = {"prompt_tokens": used["prompt"], "completion_tokens": used["out"], "usd": usd}
    names, reused = {"rung": rung.name, "model": rung.name}, not since.calls
    session.emit("ask_finished", phase=prompt, step=0, reused=reused, **names, **told)
    for trouble in asking.troubles:
        run_context.warn(f"oversight: {trouble}")
    if not text:
        return None
    both = "" if rung.tier == "oversight" else ", also the worker"
    return cast(Mapping[str, Any], json.loads(text)), Decider("oversight", f"{rung.name}{both}")


def _left(run_context: RunContext) -> Bounds:
    """The limits of what a run may still spend, as bounds of a question."""
    left = run_context.limit - Amount.of(run_context.log.spent_by(root_id(run_context.id)))
    spent = Amount.of(run_context.log.spent(f"oversight-{run_context.id}-0"))
    total = left + spent  # a question's own account is compared with its bounds
    usd = None if total.usd == inf else max(total.usd, 0.0)
    lifeforce = None if total.lifeforce == inf else max(total.lifeforce, 0.0)
    limits = {"calls": total.calls, "tokens": total.tokens, "usd": usd, "lifeforce": lifeforce}
    return replace(run_context.bounds, **limits)
