"""Applies the messages to a run (answer, approve, nudge, reject, say) from its inbox to the documents."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel import shown_checks
from kernel.document.escaping import fingerprint
from kernel.document.model import Document, Note, root_id
from kernel.errors import UsageError, raised_as
from kernel.loop.approval import (
    APPROVED,
    CHECKS_WAIT,
    PLAN_WAITS,
    REVIEW,
    call_digest,
    planned_dangers,
    unapproved,
)
from kernel.loop.end import finish, steps_then
from kernel.loop.reuse import accept_notes
from kernel.loop.run_context import RunContext, Session, overseen
from runtime.workspace.deciders import Decider, why_not_approver
from runtime.workspace.question import asked_steps
from runtime.workspace.standing import remember

if TYPE_CHECKING:
    from runtime.workspace.inbox import Inbox

KINDS = ("answer", "approve", "nudge", "reject")
_LESSON = re.compile(r"(?im)^[ \t>*-]*(teaching|grant)[ \t]*:[ \t]*(.+)$\n?")


def listen(run_context: RunContext, inbox: Inbox, waiting: Collection[str]) -> list[str]:
    """Apply each message to its loop if that is `waiting`; returns the ids to wake.

    A message is removed once its effect is on disk or its question is closed. A message to a loop that does
    not wait yet stays. An invalid message is set aside.
    """
    woken: list[str] = []
    for path, message in inbox.messages(KINDS, run_context.warn):
        loop_id = str(message.get("loop") or root_id(run_context.id))
        if loop_id in waiting:
            session = Session(run_context, run_context.store.load(loop_id))
            try:
                with raised_as(UsageError):
                    heard = _is_about(session, message) and _may(session, message)
                    if heard:
                        _apply(session, message)
            except UsageError as error:
                inbox.set_aside(path, error, run_context.warn)
                continue
            if heard:
                woken.append(loop_id)
            inbox.taken(path)
    return woken


def hear(inbox: Inbox, session: Session) -> bool:
    """Add to §1 what a person has said to the run and this loop has not heard; whether there was anything.

    Every loop that asks hears it, until the root has it on disk: that removes the message.
    """
    heard = False
    for path, message in inbox.messages(("say",), session.run.warn):
        by, at = Decider.read(message), str(message.get("at", ""))
        note = Note("guidance", str(message.get("text", "")), by.origin, f"{by}, {at}" if at else str(by))
        if note not in session.doc.section(1).notes:  # else a crash came between the save and the removal
            heard = True
            session.note(1, note.key, note.text, note.origin, note.source)
            session.emit("said", text=note.text, source=note.source)
        if session.root:
            session.once_saved.append(partial(inbox.taken, path))
    if heard:
        accept_notes(session)
    return heard


def _is_about(session: Session, message: Mapping[str, Any]) -> bool:
    """Whether the message answers the loop's open question. A message written by hand names no question."""
    waits = session.doc.meta.waiting or {}
    same = message.get("question", waits.get("question")) == waits.get("question")
    if message["kind"] == "approve" and waits.get("question") == PLAN_WAITS and "plan" in message:
        same = same and message["plan"] == plan_digest(session.doc)
    kind = "person" if message["kind"] == "answer" else "approval"
    now = answers(session.doc)
    return (
        same
        and message.get("answers", now) == now
        and message.get("attempt", session.doc.meta.attempt) == session.doc.meta.attempt
        and waits.get("for") == kind
    )


def answers(document: Document) -> int:
    """How many questions of a loop were answered: it tells a question that is asked again from the first."""
    return sum(note.key == "answer" for note in document.section(1).notes)


def plan_digest(document: Document) -> str:
    """The digest of a plan's steps, so that an approval is for these and no others."""
    steps = ([n, s.tool, dict(s.args or {}), s.what, list(s.needs)] for n, s in document.planned.items())
    return fingerprint(list(steps))


def _may(session: Session, message: Mapping[str, Any]) -> bool:
    """Whether the sender may decide this. If not, a warning is emitted and the loop keeps waiting."""
    if message["kind"] != "approve":
        return True
    by = Decider.read(message)
    if why := why_not_approver(by, asked_steps(session.doc), session.run.policy.trusted_clients):
        session.emit("warning", message=f"the approval is not taken: {why}")
    return not why


def _apply(session: Session, message: Mapping[str, Any]) -> None:
    kind = str(message["kind"])
    why, by = str(message.get("why", "")), Decider.read(message)
    if kind == "answer":
        session.note(1, "answer", str(message.get("text", "")), by.origin, str(by))
        use_answer(session)
        accept_notes(session)
    elif (asked := str((session.doc.meta.waiting or {}).get("question", ""))) == PLAN_WAITS:
        _decide_plan(session, kind, why, by)
    elif asked.startswith(CHECKS_WAIT):
        _decide_checks(session, kind, why, by)
    else:
        _decide_steps(session, kind, why, by, str(message.get("scope", "")))
    if not session.doc.ended:
        session.save(waiting=None, status="running")


def use_answer(session: Session) -> None:
    """Use a person's answer to what no rung accepted: as the new task, or as what oversight is asked for."""
    question, answer = session.doc.note(1, "question"), session.doc.note(1, "answer")
    kernels = question is not None and question.origin == "kernel"
    if not (answer and kernels and session.doc.meta.phase in ("understand", "plan")):
        return
    if overseen(session.doc) and not session.root:
        finish(session, "complete", origin=answer.origin, **_lesson(answer.text))
    else:
        session.note(1, "resolved task", answer.text, answer.origin)
        session.meta(taker="", phase="understand")


def _decide_plan(session: Session, kind: str, why: str, by: Decider) -> None:
    if kind == "approve":
        session.note(2, "approved", f"by {by}", by.origin)
        approve_planned(session, by)
        return
    if why:
        session.note(1, "guidance", why, by.origin, str(by))
        word = "sent back" if kind == "nudge" else "rejected"
        learned = Note("learned", f"this plan was {word} by {by}: {why}", by.origin)
        review = session.doc.note(2, REVIEW)
        session.fold(word, learned, steps_then(session.doc.planned.values()), *([review] if review else []))
    else:
        finish(session, "cancelled", error=f"the plan was rejected by {by}")


def _decide_checks(session: Session, kind: str, why: str, by: Decider) -> None:
    """Let the commands among the criteria run, or not: then CHECK judges without them."""
    if kind != "approve" and why:
        _decide_plan(session, kind, why, by)
        return
    said = f"{APPROVED if kind == 'approve' else 'rejected by '}{by}"
    session.note(2, "checks", said, by.origin, shown_checks(session.doc))


def _decide_steps(session: Session, kind: str, why: str, by: Decider, scope: str) -> None:
    if kind == "nudge" and why:
        session.note(1, "guidance", why, by.origin, str(by))
        accept_notes(session)
    for step in session.doc.steps.values():
        if step.state == "waiting" and kind == "approve":
            if by.kind not in ("client", "file", "oversight"):  # else it may be that no person has seen it
                remember(session, step, scope, by)
            session.put(replace(step, state="planned", evidence={**step.evidence, "approved": str(by)}))
        elif step.state == "waiting":
            word = "sent back" if kind == "nudge" else "rejected"
            reason = f"{word} by {by}{': ' if why else ''}{why}"
            session.end(replace(step, state="failed", result=reason, origin=by.origin))


def approve_planned(session: Session, by: Decider) -> None:
    """Approve the dangerous calls of an approved plan, so that the same calls are not asked for again.

    Serious ones, and effects for which the settings ask a person, still wait before their step.
    """
    for step, tool, dangers in planned_dangers(session):
        args = dict(step.args or {})
        if any(each.severity == "serious" for each in dangers) or unapproved(session.run, tool, args)[0]:
            continue
        shown = {"dangers": [str(danger) for danger in dangers], "approved": str(by)}
        files = session.run.hooks.names(session.run, tool, args)
        evidence = {**step.evidence, **shown, "call": call_digest(tool.name, args, {}, files)}
        evidence |= {"names": files} if files else {}
        session.put(replace(step, state="planned", evidence=evidence))


def _lesson(answer: str) -> dict[str, str]:
    """A person's answer as result, teaching and grant: lines such as `grant: calc, csv` say these two."""
    said = [(key.lower(), value.strip()) for key, value in _LESSON.findall(answer)]
    parts = {name: "\n".join(value for key, value in said if key == name) for name in ("teaching", "grant")}
    return {"result": _LESSON.sub("", answer).strip(), **parts}
