"""The control loop: UNDERSTAND, PLAN, DO, CHECK.

`advance` takes the id of a loop at any level, also after an interruption. It continues from the state in the
loop's document and returns the outcome, or what the loop waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.asking.conversation import by_turns
from kernel.asking.prompt import Prompt, assemble
from kernel.asking.replies import Plan, Understanding
from kernel.asking.responder import Questioner, estimate_tokens
from kernel.asking.turn import TURN
from kernel.document.model import Document, Note
from kernel.errors import Exit, LimitReached, UsageError
from kernel.loop import criteria
from kernel.loop.approval import ask_before_start
from kernel.loop.ask import (
    Answer,
    NobodyLeft,
    PersonNeeded,
    TakesPhases,
    TakesTurns,
    ask,
    converses,
    current_rung,
    lowest_rung,
    next_question,
    turn_prompt,
)
from kernel.loop.budget import LifeforceNeeded
from kernel.loop.check import check
from kernel.loop.do import StepRunner, Waiting
from kernel.loop.end import clarify, escalate, finish
from kernel.loop.hooks import hear
from kernel.loop.planned import PLAN_WAITS, check_plan, is_held, uncertain, write_plan
from kernel.loop.run_context import RunContext, Session, overseen
from kernel.loop.step_cache import record_inputs
from kernel.loop.turn import begin_turns, leave_turns, prepare, turns

FROM_KNOWLEDGE = "answered from the model's knowledge, without a tool"
"""The approach of a loop that needed no step."""
NO_QUESTION = "(code fills in this phase; no question is put to the model)"


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
        while not session.doc.ended:
            session.emit("phase_started", phase=session.doc.meta.phase, attempt=session.doc.meta.attempt)
            try:
                waiting = await _PHASES[session.doc.meta.phase](session)
            except TakesTurns:
                waiting = None  # the rung that took over decides turn by turn
            except TakesPhases:
                waiting = leave_turns(session)
            except PersonNeeded as error:
                waiting = clarify(session, str(error), "kernel")
            except LifeforceNeeded as error:
                waiting = Waiting("lifeforce", str(error))
            if waiting:
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
    ladder = session.run.ladder
    taker = lowest_rung(session)
    if taker is None or ladder.rungs[taker].tier == "human":
        return False
    section = session.doc.section(1)  # the question was only who could do this
    notes = tuple(note for note in section.notes if note is not question)
    session.doc = session.doc.with_section(1, replace(section, notes=notes))
    session.meta(taker=ladder.rungs[taker].name)
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


# ---- UNDERSTAND ------------------------------------------------------------------------------------------


async def understand(session: Session) -> Waiting | None:
    """Fill §1: the task with every reference made explicit, and the relevant context."""
    taker = current_rung(session)
    if taker is None and overseen(session.doc):
        return clarify(session, session.doc.task, "kernel")
    if taker is None:
        finish(
            session,
            "failed",
            error="no configured responder accepts this task; set a model, see `fractal doctor`",
        )
        return None
    responder = session.run.ladder.rungs[taker]
    session.meta(status="running", taker=responder.name, waiting=None)
    if converses(responder):
        return begin_turns(session, responder)
    if responder.reads_prompt:
        session.offer_context()
    session.save()
    answer = await ask(session, "understand")
    _write_understanding(session, answer.reply, answer.origin)
    session.meta(phase="plan")
    record_inputs(session, "understand", answer.read)
    session.save()
    session.phase_finished("understand", "PROCEED")
    return None


def _write_understanding(session: Session, reply: Understanding, origin: str) -> None:
    session.note(1, "resolved task", reply.task, origin)
    for fact in reply.context:
        session.note(1, "fact", fact.fact, origin, fact.source)
    if reply.open:
        session.note(1, "open", "\n".join(reply.open), origin)


# ---- PLAN ------------------------------------------------------------------------------------------------


async def plan(session: Session) -> Waiting | None:
    """Fill §2: approach, steps and success criteria. The gate is PROCEED, CLARIFY, or "cannot"."""
    session.run.catalogue.refresh()
    session.meta(status="running", waiting=None)
    taker = current_rung(session)
    responder = None if taker is None else session.run.ladder.rungs[taker]
    if responder:
        session.meta(taker=responder.name)
    if responder and converses(responder):
        hear(session)
        return begin_turns(session, responder)
    if responder and responder.reads_prompt:
        session.offer_context()
        hear(session)
    session.save()
    before: list[bool | None] = []

    async def gate(reply: Plan) -> None:
        before[:] = await check_plan(session, reply)

    answer = await ask(session, "plan", gate=gate)
    reply: Plan = answer.reply
    if reply.question:
        return clarify(session, reply.question, answer.origin)
    if reply.answer:
        return _answer_directly(session, reply, answer)
    unsure = reply.confidence == "low" and not reply.cannot and not session.doc.note(1, "answer")
    if unsure and not session.run.hooks.review(session, "low"):
        # every higher rung was asked too, so a person decides
        return clarify(session, uncertain(session, reply), answer.origin)
    if reply.cannot:
        return escalate(session, "cannot", Note("learned", f"cannot: {reply.cannot}", answer.origin))
    write_plan(session, reply, answer.origin, before)
    session.meta(phase="do")
    record_inputs(session, "plan", answer.read)
    session.save()
    session.phase_finished("plan", "PROCEED", steps=sorted(session.doc.planned))
    return None


def _answer_directly(session: Session, reply: Plan, answer: Answer) -> None:
    """End with an answer that needed no tool. Nothing but the model's knowledge supports it."""
    session.note(2, "approach", FROM_KNOWLEDGE, answer.origin)
    record_inputs(session, "plan", answer.read)
    session.meta(unverified=True)
    session.phase_finished("plan", "PROCEED", steps=[])
    finish(session, "complete", origin=answer.origin, result=reply.answer)


# ---- DO --------------------------------------------------------------------------------------------------


async def do(session: Session) -> Waiting | None:
    """Fill §3: run the steps that are ready until none is left."""
    if is_held(session.doc):
        return Waiting("approval", PLAN_WAITS)
    session.run.catalogue.refresh()
    if session.doc.note(2, "work"):
        return await turns(session)
    if asks := criteria.ask_for_checks(session):
        return Waiting("approval", asks)
    await criteria.late_baseline(session)
    if asks := ask_before_start(session):
        return Waiting("approval", asks)
    waiting = await StepRunner(session).run()
    if waiting:
        return waiting
    session.save(phase="check", status="running", waiting=None)
    session.phase_finished("do", "")
    return None


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
    readers = [responder for responder in session.run.ladder if responder.reads_prompt]
    count = readers[0].count if readers else estimate_tokens
    phase = session.doc.meta.phase
    taker = current_rung(session)
    responder = None if taker is None else session.run.ladder.rungs[taker]
    by_turn = phase in ("understand", "plan") or (phase == "do" and session.doc.note(2, "work"))
    if responder and converses(responder) and by_turn:
        kept: dict[str, str] = {}  # nothing is written for a look
        if phase != "do" or not by_turns(session.doc):
            prepare(session, responder, lambda name, text: kept.setdefault(name, text) and name)
        return TURN, turn_prompt(session, responder, kept)
    session.offer_context()
    if phase == "do":
        asked = [n for n, planned in session.doc.planned.items() if planned.args is None and planned.tool]
        open_ = [n for n in asked if not session.doc.steps.get(n, session.doc.planned[n]).ended]
        if not (step or open_):
            raise UsageError(f"{session.id} is in DO, and no step of its plan has to be asked for")
        step = step or open_[0]
    if isinstance(responder, Questioner):
        question = next_question(session, responder, phase, step)
        return phase, Prompt(question.system, question.user) if question else Prompt(user=NO_QUESTION)
    return phase, assemble(session.doc, phase, session.catalogue, count, step=step)


_PHASES: Mapping[str, Callable[[Session], Any]] = {
    "understand": understand,
    "plan": plan,
    "do": do,
    "check": check,
}
