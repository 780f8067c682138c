"""What a person says to a run (answer, approve, reject), taken from its inbox into the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.derived import took_note
from kernel.document import Note
from kernel.ends import finish, heed_answer
from kernel.loop import PLAN_WAITS
from kernel.workspace import messages, root_id, taken
from kernel.world import Held, World

KINDS = ("answer", "approve", "reject")


def listen(world: World, folder: Path, waiting: list[str]) -> list[str]:
    """Apply every message to the loop that it is for, if that waits; returns the ids to wake.

    A message is removed once its effect is on disk, or when its question is not open any more; one whose loop
    does not wait yet stays.
    """
    woken: list[str] = []
    for path, message in messages(folder, KINDS):
        loop_id = str(message.get("loop") or root_id(world.run))
        if loop_id in waiting:
            held = Held(world, world.store.load(loop_id))
            if _is_about(held, message):
                _apply(held, message)
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


def _apply(held: Held, message: Mapping[str, Any]) -> None:
    approved = message["kind"] == "approve"
    why = str(message.get("why", ""))
    if message["kind"] == "answer":
        _answer(held, str(message.get("text", "")))
    elif (held.doc.meta.waiting or {}).get("question") == PLAN_WAITS:
        _decide_plan(held, approved, why)
    else:
        _decide_steps(held, approved, why)


def _answer(held: Held, text: str) -> None:
    held.note(1, "answer", text, "person")
    heed_answer(held)
    took_note(held)
    held.meta(waiting=None, status="running")
    held.save()


def _decide_plan(held: Held, approved: bool, why: str) -> None:
    if approved:
        held.note(2, "approved", "by a person", "person")
    elif why:
        held.note(1, "guidance", why, "person")
        held.fold("rejected", Note("learned", f"a person rejected this plan: {why}", "person"))
    else:
        held.note(1, "guidance", "rejected", "person")
        finish(held, "cancelled", error="a person rejected the plan")
        return
    held.meta(waiting=None, status="running")
    held.save()


def _decide_steps(held: Held, approved: bool, why: str) -> None:
    for step in held.doc.steps.values():
        if step.state == "waiting":
            if approved:
                held.put(replace(step, state="planned", evidence={**step.evidence, "approved": "person"}))
            else:
                reason = f"rejected by a person{': ' if why else ''}{why}"
                held.put(replace(step, state="failed", result=reason, origin="person"))
    held.meta(waiting=None, status="running")
    held.save()
