"""What a person says to a run (answer, approve, reject), taken from its inbox into the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.document import Note
from kernel.ends import finish
from kernel.loop import PLAN_WAITS
from kernel.workspace import messages, root_id
from kernel.world import Held, World

KINDS = ("answer", "approve", "reject")


def listen(world: World, folder: Path, waiting: list[str]) -> list[str]:
    """Apply every message to the loops it is for, among those that wait; returns the ids to wake.

    A message is removed once its effect is on disk; one that nobody waits for stays for later.
    """
    woken: list[str] = []
    for path, message in messages(folder, KINDS):
        root = root_id(world.run)
        targets = [root] if message["kind"] == "answer" else waiting
        heard = [loop_id for loop_id in targets if loop_id in waiting and _apply(world, loop_id, message)]
        if heard:
            path.unlink()
            woken += heard
    return woken


def _apply(world: World, loop_id: str, message: Mapping[str, Any]) -> bool:
    held = Held(world, world.store.load(loop_id))
    waits = held.doc.meta.waiting or {}
    if message["kind"] == "answer":
        return waits.get("for") == "person" and _answer(held, str(message.get("text", "")))
    if waits.get("for") != "approval":
        return False
    approved = message["kind"] == "approve"
    why = str(message.get("why", ""))
    if waits.get("question") == PLAN_WAITS:
        _decide_plan(held, approved, why)
    else:
        _decide_steps(held, approved, why)
    return True


def _answer(held: Held, text: str) -> bool:
    held.note(1, "answer", text, "person")
    question = held.doc.note(1, "question")
    if question and question.origin == "kernel" and held.doc.meta.phase in ("understand", "plan"):
        # no rung could take the task as it was said: the answer says it in other words
        held.note(1, "resolved task", text, "person")
        held.meta(taker="", phase="understand")
    held.meta(waiting=None, status="running")
    held.save()
    return True


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
