"""The control loop: UNDERSTAND, PLAN, DO, CHECK.

`advance` takes the id of a loop at any level, also after an interruption. It continues from the state in the
loop's document and returns the outcome, or what the loop waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.asking.prompt import Prompt, assemble, drafted
from kernel.asking.replies import FusedPlan, Plan, PlanStep, Understanding, gate_plan, in_document, in_words
from kernel.asking.responder import Questioner
from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Step
from kernel.document.references import references
from kernel.errors import Exit, LimitReached, UsageError
from kernel.loop import criteria
from kernel.loop.approval import ask_before_start, known_dangers
from kernel.loop.ask import (
    Answer,
    NobodyLeft,
    PersonNeeded,
    ask,
    coded,
    current_rung,
    lowest_rung,
    next_question,
    reader,
)
from kernel.loop.budget import LifeforceNeeded, estimate_tokens
from kernel.loop.check import atomic, check
from kernel.loop.child import tasks
from kernel.loop.do import StepRunner, Waiting
from kernel.loop.end import clarify, escalate, finish
from kernel.loop.proof import demanded
from kernel.loop.run_context import RunContext, Session, overseen
from kernel.loop.step_cache import record_inputs
from kernel.loop.work import first_turn, next_step, plan_turn, work

FROM_KNOWLEDGE = "answered from the model's knowledge, without a tool"
"""The approach of a loop that needed no step."""
NO_QUESTION = "(code fills in this phase; no question is put to the model)"
PLAN_WAITS = "the plan"
"""The question of a run that stops after PLAN and waits for approval."""

REVIEW = "waits for approval"
"""The note of §2 with the reasons why a plan may not start before oversight or a human has approved it."""


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
    unanswered = question is not None and question.origin == "kernel"  # no rung could answer
    if unanswered and _new_responder(session):
        return None
    return Waiting(str(waits["for"]), str(waits.get("question", "")))


def _new_responder(session: Session) -> bool:
    ladder = session.run.ladder
    taker = lowest_rung(session)
    if taker is None or ladder.rungs[taker].tier == "human":
        return False
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
    if responder.reads_prompt:
        session.offer_context()
    if session.atomic and responder.reads_prompt:
        return await atomic(session)
    if responder.reads_prompt and (_fuses(session) or _opens(session)):
        session.meta(phase="plan")  # one call fills §1 and §2
        return None
    session.save()
    answer = await ask(session, "understand")
    _write_understanding(session, answer.reply, answer.origin)
    session.meta(phase="plan")
    record_inputs(session, "understand", answer.read)
    session.save()
    session.phase_finished("understand", "PROCEED")
    return None


def _fuses(session: Session) -> bool:
    """Whether one call may fill §1 and §2. With `auto`, a guided tool's loop asks for each separately."""
    policy = session.run.policy.fuse
    if (
        policy == "never"
        or session.doc.meta.attempt > 1
        or session.doc.note(1, "resolved task")
        or not session.catalogue.text("phases/fused.md", drafted=drafted(session.doc))
    ):
        return False
    guided = session.catalogue.guided(session.doc.meta.type)
    large = sum(len(note.text) for note in session.doc.section(1).notes) > 8_000
    return policy == "always" or not (guided or large)


def _opens(session: Session) -> bool:
    """Whether the loop's own tool leaves its steps open, and its rung can decide them one turn at a time."""
    tool = session.catalogue.tools.get(session.doc.meta.type)
    return tool is not None and tool.open and not session.atomic and reader(session) is not None


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
    if responder and responder.reads_prompt:
        session.offer_context()
        session.run.hear(session)
    session.save()
    if _opens(session):
        _open_do(session)
        return None
    fused = not session.doc.note(1, "resolved task")
    before: list[bool | None] = []

    async def gate(reply: Plan) -> None:
        retry = session.doc.meta.attempt > 1
        rung = current_rung(session)
        by_code = rung is not None and coded(session.run.ladder.rungs[rung])
        gate_plan(
            reply,
            session.catalogue,
            may_split=not session.atomic,
            retry=retry,
            earlier=[n for n, step in session.doc.steps.items() if step.state == "done"],
            tasks=tasks(session),
            checks=session.run.checks,
            coded=by_code,
        )
        if reply.ends:
            return
        fails = not by_code and demanded(session) != "look"  # else all may be as it is to be
        held = _is_held(session, reply)
        before[:] = await criteria.baseline(session, reply.success, retry=retry, fails=fails, held=held)

    answer = await ask(session, "fused" if fused else "plan", gate=gate)
    reply: Plan = answer.reply
    if isinstance(reply, FusedPlan):
        _write_understanding(session, reply, answer.origin)
    if reply.question:
        return clarify(session, reply.question, answer.origin)
    if reply.answer:
        return _answer_directly(session, reply, answer)
    unsure = reply.confidence == "low" and not reply.cannot and not session.doc.note(1, "answer")
    if unsure and not session.run.review(session, "low"):
        # every higher rung was asked too, so a person decides
        return clarify(session, _uncertain(session, reply), answer.origin)
    if reply.cannot:
        return escalate(session, "cannot", Note("learned", f"cannot: {reply.cannot}", answer.origin))
    _write_plan(session, in_document(reply, session.doc.meta.base), answer, before)
    session.meta(phase="do")
    if fused:
        record_inputs(session, "understand")
    record_inputs(session, "plan", answer.read)
    session.save()
    steps = [] if session.doc.note(2, "work") else sorted(session.doc.planned)
    session.phase_finished("plan", "PROCEED", steps=steps)
    return None


def _is_held(session: Session, reply: Plan) -> bool:
    """Whether somebody has to approve a plan before it starts, or may have to because it is dangerous."""
    if session.doc.meta.extra.get("plan_only") or session.run.review(session, reply.confidence):
        return True
    known = session.catalogue.tools
    calls = [(known[each.tool], each.args) for each in reply.steps if each.tool in known and each.args]
    return any(not tool.guided and session.run.guard(tool, args) for tool, args in calls)


def _answer_directly(session: Session, reply: Plan, answer: Answer) -> None:
    """End with an answer that needed no tool. Nothing but the model's knowledge supports it."""
    session.note(2, "approach", FROM_KNOWLEDGE, answer.origin)
    record_inputs(session, "plan", answer.read)
    session.meta(unverified=True)
    session.phase_finished("plan", "PROCEED", steps=[])
    finish(session, "complete", origin=answer.origin, result=reply.answer)


def _open_do(session: Session) -> None:
    """Go to DO without a plan: its steps are decided one turn at a time."""
    session.note(2, "approach", "one turn at a time")
    session.note(2, "work", session.doc.text(1, "task"))
    session.meta(phase="do")
    record_inputs(session, "plan")
    session.save()
    session.phase_finished("plan", "PROCEED", steps=[])


def _uncertain(session: Session, plan: Plan) -> str:
    """The question to ask about a plan of low confidence."""
    doubt = session.doc.text(1, "open") or plan.rationale or plan.approach
    steps = "; ".join(
        step.subtask or f"{step.tool} {step.what or to_json(step.args)}"[:120] for step in plan.steps
    )
    return f"the plan is uncertain (confidence low): {doubt}\nplanned: {steps[:600]}\nHow should it go on?"


def _write_plan(session: Session, reply: Plan, answer: Answer, before: list[bool | None]) -> None:
    origin = answer.origin
    session.note(2, "approach", reply.approach, origin)
    session.note(2, "confidence", reply.confidence, origin)
    session.note(2, "success criteria", "\n".join(to_json(dict(each)) for each in reply.success), origin)
    if before:
        session.note(2, "baseline", criteria.baseline_note(reply.success, before))
    if reply.rationale:
        session.note(2, "rationale", reply.rationale, origin)
    if reply.done:
        session.note(2, "done", reply.done, origin)
    base = session.doc.meta.base
    if (calls := first_turn(session, reply)) is not None:
        session.note(2, "work", reply.steps[-1].what, origin)
        plan_turn(session, calls)
    else:
        guided = session.catalogue.guided
        steps: dict[int, Step] = {}
        ends: set[int] = set()  # the steps that no other one needs so far
        for n, each in enumerate(reply.steps, base + 1):
            steps[n] = _to_step(n, ends, each, guided(each.tool))
            ends = ends - {*steps[n].needs} | {n}
        session.doc = session.doc.with_section(2, replace(session.doc.section(2), steps=steps))
    if dangers := known_dangers(session):
        session.note(2, "dangers", dangers)
    if why := session.run.review(session, reply.confidence):
        session.note(2, REVIEW, why)


def _to_step(n: int, ends: Collection[int], step: PlanStep, guided: bool) -> Step:
    """A step of §2. Without `needs` it comes after all steps before it, so that a failure stops the plan.

    `ends` are those that no other step needs: in a plain sequence the previous one.
    """
    needs = {*(ends if step.needs is None else step.needs), *references(step.model_dump())}
    what = step.subtask or step.what
    args = step.args
    if args and step.tool and not what and (guided or set(args) == {"what"}):
        what, args = in_words(args), None
    return Step(n, "planned", step.tool, args, what, tuple(sorted(needs)))


# ---- DO --------------------------------------------------------------------------------------------------


async def do(session: Session) -> Waiting | None:
    """Fill §3: run the steps that are ready until none is left."""
    held = session.doc.meta.extra.get("plan_only") or session.doc.note(2, REVIEW)
    if held and not session.doc.note(2, "approved"):
        return Waiting("approval", PLAN_WAITS)
    session.run.catalogue.refresh()
    if asks := criteria.ask_for_checks(session):
        return Waiting("approval", asks)
    await criteria.late_baseline(session)
    if asks := ask_before_start(session):
        return Waiting("approval", asks)
    if session.doc.note(2, "work"):
        return await work(session)
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
    session.offer_context()
    if phase in ("understand", "plan"):
        unread = not session.doc.note(1, "resolved task")
        if session.atomic:
            phase = "atomic"
        elif unread and (phase == "plan" or _fuses(session)):
            phase = "fused"
    if phase == "do" and session.doc.note(2, "work"):
        phase, step = "work", next_step(session)
    if phase == "do":
        asked = [n for n, planned in session.doc.planned.items() if planned.args is None and planned.tool]
        open_ = [n for n in asked if not session.doc.steps.get(n, session.doc.planned[n]).ended]
        if not (step or open_):
            raise UsageError(f"{session.id} is in DO, and no step of its plan has to be asked for")
        step = step or open_[0]
    taker = current_rung(session)
    if taker is not None and isinstance(responder := session.run.ladder.rungs[taker], Questioner):
        question = next_question(session, responder, phase, step)
        return phase, Prompt(question.system, question.user) if question else Prompt(user=NO_QUESTION)
    catalogue, may_split = session.catalogue, not session.atomic
    return phase, assemble(session.doc, phase, catalogue, count, step=step, may_split=may_split)


_PHASES: Mapping[str, Callable[[Session], Any]] = {
    "understand": understand,
    "plan": plan,
    "do": do,
    "check": check,
}
