"""What a person says to a run (answer, approve, reject), taken from its inbox into the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.deciding import Decider, barred
from kernel.derived import took_note
from kernel.document import Note
from kernel.ends import finish, heed_answer
from kernel.errors import UsageError, raised_as
from kernel.loop import PLAN_WAITS
from kernel.workspace import messages, root_id, set_aside, taken
from kernel.world import Held, World

KINDS = ("answer", "approve", "reject")


def listen(world: World, folder: Path, waiting: list[str]) -> list[str]:
    """Apply every message to the loop that it is for, if that waits; returns the ids to wake.

    A message is removed once its effect is on disk, or when its question is not open any more; one whose loop
    does not wait yet stays. What is no message is set aside.
    """
    woken: list[str] = []
    for path, message in messages(folder, KINDS, world.warn):
        loop_id = str(message.get("loop") or root_id(world.run))
        if loop_id in waiting:
            held = Held(world, world.store.load(loop_id))
            try:
                with raised_as(UsageError):
                    heard = _is_about(held, message) and _may(held, message)
                    if heard:
                        _apply(held, message)
            except UsageError as error:
                set_aside(path, error, world.warn)
                continue
            if heard:
                woken.append(loop_id)
            taken(path)
    return woken


def _is_about(held: Held, message: Mapping[str, Any]) -> bool:
    """Whether the message answers what the loop asks now; one dropped by hand names no question."""
    waits = held.doc.meta.waiting or {}
    same = message.get("question", waits.get("question")) == waits.get("question")
    kind = "person" if message["kind"] == "answer" else "approval"
    return (
        same
        and message.get("attempt", held.doc.meta.attempt) == held.doc.meta.attempt
        and waits.get("for") == kind
    )


def _may(held: Held, message: Mapping[str, Any]) -> bool:
    """Whether who sent the message may decide that; a refusal is told, and the loop waits on."""
    if message["kind"] != "approve":
        return True
    by = Decider.read(message)
    if why := barred(by, held.doc.steps.values(), held.world.policy.trusted_clients):
        held.emit("warning", message=f"the approval is not taken: {why}")
    return not why


def _apply(held: Held, message: Mapping[str, Any]) -> None:
    approved = message["kind"] == "approve"
    why, by = str(message.get("why", "")), Decider.read(message)
    if message["kind"] == "answer":
        _answer(held, str(message.get("text", "")), by)
    elif (held.doc.meta.waiting or {}).get("question") == PLAN_WAITS:
        _decide_plan(held, approved, why, by)
    else:
        _decide_steps(held, approved, why, by)


def _answer(held: Held, text: str, by: Decider) -> None:
    held.note(1, "answer", text, by.origin, str(by))
    heed_answer(held)
    took_note(held)
    held.meta(waiting=None, status="running")
    held.save()


def _decide_plan(held: Held, approved: bool, why: str, by: Decider) -> None:
    if approved:
        held.note(2, "approved", f"by {by}", by.origin)
    elif why:
        held.note(1, "guidance", why, by.origin, str(by))
        held.fold("rejected", Note("learned", f"this plan was rejected by {by}: {why}", by.origin))
    else:
        held.note(1, "guidance", "rejected", by.origin, str(by))
        finish(held, "cancelled", error=f"the plan was rejected by {by}")
        return
    held.meta(waiting=None, status="running")
    held.save()


def _decide_steps(held: Held, approved: bool, why: str, by: Decider) -> None:
    for step in held.doc.steps.values():
        if step.state == "waiting":
            if approved:
                held.put(replace(step, state="planned", evidence={**step.evidence, "approved": str(by)}))
            else:
                reason = f"rejected by {by}{': ' if why else ''}{why}"
                held.end(replace(step, state="failed", result=reason, origin=by.origin))
    held.meta(waiting=None, status="running")
    held.save()
