"""The control loop: UNDERSTAND, PLAN, DO, CHECK.

`advance` takes the id of a loop at any level, also after an interruption. It continues from the state in the
loop's document and returns the outcome, or what the loop waits for.

A responder that decides by turns does UNDERSTAND, PLAN and DO in each turn, and its answer is concluded
without a phase `check` of its own, unless a model has to judge. META's phase `plan` is the beginning of a
later attempt. An end is final for `advance` alone: a person's edit, or a limit that is raised, opens a loop
again (`edits.py` and `resume.py` in `runtime/workspace`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.asking.conversation import by_turns, last_turn
from kernel.asking.prompt import Prompt
from kernel.asking.responder import DO, Questioner
from kernel.asking.turn import TURN
from kernel.document.model import Document, Note
from kernel.errors import Exit, LimitReached, UsageError
from kernel.loop import criteria
from kernel.loop.approval import PLAN_WAITS, ask_before_start
from kernel.loop.ask import (
    NobodyLeft,
    PersonNeeded,
    converses,
    current_rung,
    lowest_rung,
    next_question,
    prompt_of,
)
from kernel.loop.budget import Waiting
from kernel.loop.check import check
from kernel.loop.do import StepRunner
from kernel.loop.end import clarify, finish
from kernel.loop.run_context import RunContext, Session, overseen
from kernel.loop.turn import is_held, preview, turns

NO_QUESTION = "(code decides here; no question is put to a model)"


@dataclass(frozen=True)
class Outcome:
    """How a loop ended: a result, an error, or an escalation (reason, partial result, question)."""

    status: str
    exit: Exit
    result: str = ""
    error: str = ""
    question: str = ""
    partial: str = ""


async def advance(run_context: RunContext, loop_id: str) -> Outcome | Waiting:
    """Continue a loop until it ends or waits. Errors of the work end the loop and are not raised."""
    session = Session(run_context, run_context.store.load(loop_id))
    if session.doc.ended:
        return outcome(session.doc)
    if session.doc.meta.status == "ready":
        session.emit("loop_started", task=session.doc.text(1, "task")[:200], depth=session.doc.meta.depth)
    try:
        if waiting := _still_waits(session):
            return waiting
        if session.doc.meta.status == "interrupted":
            session.save(status="running", waiting=None)
        while not session.doc.ended:
            session.emit("phase_started", phase=session.doc.meta.phase, attempt=session.doc.meta.attempt)
            try:
                await _PHASES[session.doc.meta.phase](session)
            except PersonNeeded as error:
                clarify(session, str(error), "kernel")
    except Waiting as waiting:
        return _wait(session, waiting)
    except LimitReached as error:
        finish(session, "exhausted", error=str(error))
    except NobodyLeft as error:
        finish(session, "escalated", error=str(error))
    return outcome(session.doc)


def _still_waits(session: Session) -> Waiting | None:
    """What the loop still waits for: None once it can continue, by an answer or a newly configured rung."""
    waits = session.doc.meta.waiting
    if (
        not waits
        or waits["for"] in ("children", "lifeforce")  # what is affordable now is seen at the next call
        or (session.doc.meta.phase == "do" and waits.get("question") != PLAN_WAITS)
    ):
        return None
    question = session.doc.note(1, "question")
    if question and question.origin == "kernel" and _new_responder(session, question):
        return None  # no rung could answer
    return Waiting(str(waits["for"]), str(waits.get("question", "")))


def _new_responder(session: Session, question: Note) -> bool:
    """Whether a rung takes over from the person who was asked, because it was configured meanwhile."""
    taker = lowest_rung(session)
    if taker is None or taker.tier == "human":
        return False
    session.leave_out(1, lambda note: note is question)  # it was only who could do this
    session.meta(taker=taker.name)
    return True


def outcome(document: Document) -> Outcome:
    """The outcome recorded in §5 of an ended document."""
    return Outcome(
        document.meta.word,
        document.meta.exit,
        result=document.text(5, "result"),
        error=document.text(5, "error") or document.text(5, "escalation"),
        question=document.text(5, "question"),
        partial=document.text(5, "partial result"),
    )


async def decide(session: Session) -> None:
    """UNDERSTAND and PLAN: both are parts of the first turn of an attempt."""
    taker = current_rung(session)
    if taker is None:
        if overseen(session.doc):
            clarify(session, session.doc.task, "kernel")
        else:
            why = "no configured responder accepts this task; set a model, see `fractal doctor`"
            finish(session, "failed", error=why)
        return
    session.run.catalogue.refresh()
    session.meta(status="running", taker=taker.name, waiting=None)
    await turns(session)


async def do(session: Session) -> None:
    """Fill §3: run the steps that are ready until none is left."""
    if is_held(session.doc):
        raise Waiting("approval", PLAN_WAITS)
    session.run.catalogue.refresh()
    if session.doc.note(2, "work"):
        await turns(session)
        return
    if asks := criteria.ask_for_checks(session):
        raise Waiting("approval", asks)
    if asks := ask_before_start(session):
        raise Waiting("approval", asks)
    await criteria.late_baseline(session)
    await StepRunner(session).run()
    session.save(phase="check", status="running", waiting=None)
    session.phase_finished("do", "")


def _wait(session: Session, waiting: Waiting) -> Waiting:
    """Record in META what the loop waits for. A wait for children is written once, not per child."""
    known = session.doc.meta.waiting
    waits = {"for": waiting.on} | ({"question": waiting.question} if waiting.question else {})
    if known != waits or session.doc.meta.status != "waiting":
        session.save(status="waiting", waiting=waits)
    if waiting.on != "children":
        session.emit("loop_waiting", **waits)
    return waiting


def next_prompt(session: Session, step: int = 0) -> tuple[str, Prompt]:
    """The phase of a document's next ask, and its prompt. `step` selects a step of DO."""
    if session.doc.ended:
        raise UsageError(
            f"{session.id} has ended ({session.doc.meta.status}); no further prompt will be sent"
        )
    responder, phase = current_rung(session), session.doc.meta.phase
    if phase in ("understand", "plan") or (phase == "do" and session.doc.note(2, "work")):
        phase, step = TURN, last_turn(session.doc) + 1
        if responder and converses(responder):
            kept: dict[str, str] = {}  # nothing is written for a look
            if session.doc.meta.phase != "do" or not by_turns(session.doc):
                preview(session, responder, lambda name, text: kept.setdefault(name, text) and name)
            return TURN, prompt_of(session, responder, TURN, kept=kept)
    session.offer_context()
    if phase == DO:
        asked = [n for n, planned in session.doc.planned.items() if planned.args is None and planned.tool]
        open_ = [n for n in asked if not session.doc.steps.get(n, session.doc.planned[n]).ended]
        if not (step or open_):
            raise UsageError(f"{session.id} is in DO, and no step of its plan has to be asked for")
        step = step or open_[0]
    if isinstance(responder, Questioner):
        question = next_question(session, responder, phase, step)
        return phase, Prompt(question.system, question.user) if question else Prompt(user=NO_QUESTION)
    readers = [responder for responder in session.run.ladder if converses(responder)]
    if phase == TURN or not readers:
        return phase, Prompt(user=NO_QUESTION)
    return phase, prompt_of(session, readers[0], phase, step)


_PHASES: Mapping[str, Callable[[Session], Any]] = {
    "understand": decide,
    "plan": decide,
    "do": do,
    "check": check,
}
