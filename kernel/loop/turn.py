"""Turns: every responder decides what comes next by the turn that it takes.

A model takes turn after turn, each from the results so far, until the task is done. The calls of a turn are
steps of §2 and §3; a failed call is a result that the next turn sees. What a turn says besides (an answer, a
question, a plan) is in notes that name the turn. `kernel.asking.conversation` renders all of it for a model.
A plan with whole steps, as code gives it, is a turn too: DO carries it out as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.asking.conversation import (
    CHECKS,
    DECLARED,
    HEARD,
    INDEX,
    PROPOSED,
    REPLACED,
    SHOWN,
    THOUGHT,
    by_turns,
    commands_in,
    declared_of,
    heard_by,
    index_of,
    last_turn,
    notes_of,
    offer_limit,
    said_in,
    turn_of,
)
from kernel.asking.prompt import FOLDER, NAMED, NOT_YET
from kernel.asking.replies import WORK, Plan, PlanStep, gate_plan, in_document, in_words
from kernel.asking.responder import Responder
from kernel.asking.turn import ASK, CANNOT, TURN, USE, Done, Sketch, TurnReply, Wanted
from kernel.document.escaping import to_json
from kernel.document.model import Document, Note, Step
from kernel.document.references import references
from kernel.errors import ReplyError
from kernel.loop import criteria
from kernel.loop.approval import PLAN_WAITS, REVIEW, known_dangers
from kernel.loop.ask import Gate, ask, coded, converses, decider, planner, reader
from kernel.loop.budget import Waiting
from kernel.loop.calls import failures_without_change, plan_calls, repeats
from kernel.loop.check import SAID_MEANWHILE, conclude
from kernel.loop.child import tasks
from kernel.loop.do import StepRunner, open_question
from kernel.loop.end import attempt_notes, clarify, escalate
from kernel.loop.proof import demanded
from kernel.loop.reuse import record_inputs
from kernel.loop.run_context import Session

PLAN_FIRST = (
    "held back: plan first: call `plan` with your approach and checks beside this call; nothing was changed"
)
"""The result of a call that changes something where a plan is demanded."""
UNCERTAIN = "held back: the plan is uncertain, and the user is asked first; nothing was changed"
"""The result of a call that changes something beside a plan of low confidence."""


def preview(session: Session, responder: Responder, shelve: Callable[[str, str], str]) -> None:
    """Make the document ready for its first turn, as `begin` does, for a look: nothing is written.

    `shelve` keeps the text that the first message shows, and returns its place.
    """
    _offer(session, responder)
    found = session.run.hooks.understand(session, offer_limit(responder.window))
    _show(session, responder, found, shelve)


def _offer(session: Session, responder: Responder) -> None:
    """What the run finds besides the files of the folder."""
    offered = session.doc.note(1, SHOWN) is not None  # in an earlier attempt
    session.leave_out(1, lambda note: note.key in (SHOWN, INDEX, DECLARED))
    session.leave_out(2, lambda note: note.key == "work")
    heard = [len(said_in(session.doc))] * 2
    session.meta(extra={**session.doc.meta.extra, "window": responder.window, "heard": heard})
    if not offered:
        session.offer_context()


def _show(
    session: Session, responder: Responder, found: tuple[str, str], shelve: Callable[[str, str], str]
) -> None:
    """What was found of the files of the folder (names and texts), and the index of tools."""
    name = f"{session.id}.shown-{session.doc.meta.attempt}.md"
    listed, text = found
    if text:
        session.leave_out(1, lambda note: note.source == FOLDER or note.source.startswith(NAMED))
        session.note(1, SHOWN, listed, "tool:read", shelve(name, text))
    session.run.catalogue.refresh()
    if names := declared_of(session.doc, session.catalogue, responder.count, responder.window):
        session.note(1, DECLARED, names)
    if index := index_of(session.doc, session.catalogue, responder.count):
        session.note(1, INDEX, index)
    session.note(2, "work", session.doc.text(1, "task"))


async def begin(session: Session, responder: Responder) -> int:
    """Make the document ready for a turn of this responder, who may have taken over; the turn's number.

    Only a model goes on with the turns of another one: for others, what was done by turns is an attempt.
    A large folder is read beside the event loop.
    """
    meta = session.doc.meta
    if converses(responder):
        if meta.phase != "do" or not by_turns(session.doc):
            session.run.inbox.hear(session)
            _offer(session, responder)
            limit = offer_limit(responder.window)
            found = await asyncio.to_thread(session.run.hooks.understand, session, limit)
            _show(session, responder, found, session.run.store.shelve)
            began = meta.phase != "do"
            if began:
                record_inputs(session, "understand")
                record_inputs(session, "plan", TURN)
                session.phase_finished("understand", "PROCEED")
            session.save(phase="do")
            if began:
                session.emit("phase_started", phase="do", attempt=meta.attempt)
        return last_turn(session.doc) + 1
    if meta.phase == "do" and planner(session, meta.attempt) is not responder:
        _end_attempt(session)
    if responder.reads_prompt:
        session.offer_context()
        session.run.inbox.hear(session)
    session.save()
    return last_turn(session.doc) + 1


def _end_attempt(session: Session) -> None:
    """Go back to PLAN for a rung that does not go on with the turns so far."""
    if last_turn(session.doc):
        passed = [rung["passed"] for rung in session.doc.meta.rungs if rung.get("passed")]
        learned = Note("learned", passed[-1] if passed else "nobody is left who goes on turn by turn")
        session.fold("escalate", learned, *attempt_notes(session))
    session.leave_out(2, lambda note: note.key == "work")
    session.meta(phase="plan")


async def turns(session: Session) -> None:
    """Take turn after turn, until the task is planned, done or given up. Raises `Waiting`."""
    while True:
        await StepRunner(session).run()
        question = open_question(session.doc)
        if question and question.origin != "kernel":  # the kernel's own: nobody could answer; ask anew
            raise Waiting("person", question.text)
        last = last_turn(session.doc)
        _hear(session, last)
        said = notes_of(session.doc, last)
        if ASK in said and HEARD not in said:
            if not by_turns(session.doc):  # the answer is what comes after all that was said by now
                told = len(said_in(session.doc))
                session.meta(extra={**session.doc.meta.extra, "heard": [told, told]})
            return clarify(session, said[ASK].text, said[ASK].origin)
        if CANNOT in said:
            learned = Note("learned", f"cannot: {said[CANNOT].text}", said[CANNOT].origin)
            escalate(session, "cannot", learned)
            return None
        if PROPOSED in said and NOT_YET not in said:
            if asks := criteria.ask_for_checks(session):
                raise Waiting("approval", asks)
            if await conclude(session, last, said[PROPOSED]):
                return None
            continue
        if why := _stuck(session):
            escalate(session, "stopped", Note("learned", why), reason=why)
            return None
        before: list[bool | None] = []

        answer = await ask(session, TURN, gate=_gate(session, before), begin=begin)
        reply: TurnReply = answer.reply
        turn, plan = last_turn(session.doc) + 1, reply.steps
        if plan:
            _write_understanding(session, plan, answer.origin)
            if _is_unsure(session, plan):
                return clarify(session, _uncertain(plan), answer.origin)
            calls = _first_turn(session, plan)
            if calls is None:
                _begin_plan(session, plan, answer.origin, answer.read, before)
                return None
            _write_sketch(session, plan, plan.success, answer.origin, turn)
            if before:
                session.note(2, "baseline", criteria.baseline_note(plan.success, before))
            reply = reply.model_copy(update={"calls": calls, "steps": None})  # the calls may be none
        _begin(session, reply, answer.origin, turn, plan.confidence if plan else reply.confidence)
        if reply.plan and _is_unsure(session, reply.plan):
            _hold_calls(session, turn, UNCERTAIN)
            session.save()
            doubt = f"the plan is uncertain (confidence low): {reply.plan.approach}\nHow should it go on?"
            return clarify(session, doubt, answer.origin)
        if is_held(session.doc):
            raise Waiting("approval", PLAN_WAITS)


def is_held(document: Document) -> bool:
    """Whether somebody has to approve the plan of a loop, if it has one, before it goes on."""
    held = document.meta.extra.get("plan_only") or document.note(2, REVIEW)
    planned = not document.note(2, "work") or document.note(2, "approach")
    return bool(held and planned) and not document.note(2, "approved")


# ---- a plan with whole steps -----------------------------------------------------------------------------


def _gate(session: Session, before: list[bool | None]) -> Gate:
    """Refuses only a plan with steps that cannot be carried out: other faults are results of their calls."""

    async def gate(reply: TurnReply) -> None:
        if reply.steps and session.doc.planned:
            raise ReplyError("a plan with steps is only read before the first call; give calls")
        if reply.steps:
            before[:] = await _check_plan(session, reply.steps)

    return gate


async def _check_plan(session: Session, reply: Plan) -> list[bool | None]:
    """Whether each criterion of a plan holds before its first step. Raises `ReplyError` for a wrong plan."""
    retry = session.doc.meta.attempt > 1
    by_code = coded(decider(session))
    gate_plan(
        reply,
        session.catalogue,
        may_split=not session.atomic,
        retry=retry,
        earlier=[n for n, step in session.doc.steps.items() if step.state == "done"],
        tasks=tasks(session),
        fault_of=session.run.hooks.criterion_fault,
        coded=by_code,
    )
    fails = not by_code and demanded(session) != "look"  # else all may be as it is to be
    held = _will_be_held(session, reply)
    return await criteria.baseline(session, reply.success, fails=fails, held=held)


def _is_unsure(session: Session, plan: Sketch | Plan) -> bool:
    """Whether a person has to say how it goes on: every higher rung was asked, too."""
    answered = session.doc.note(1, "answer")
    return plan.confidence == "low" and not answered and not session.run.hooks.review(session, "low")


def _uncertain(plan: Plan) -> str:
    """The question to ask about a plan of low confidence."""
    doubt = plan.rationale or plan.approach
    steps = "; ".join(
        step.subtask or f"{step.tool} {step.what or to_json(step.args)}"[:120] for step in plan.steps
    )
    return f"the plan is uncertain (confidence low): {doubt}\nplanned: {steps[:600]}\nHow should it go on?"


def _will_be_held(session: Session, reply: Plan) -> bool:
    """Whether somebody has to approve a plan before it starts, or may have to because it is dangerous."""
    if session.doc.meta.extra.get("plan_only") or session.run.hooks.review(session, reply.confidence):
        return True
    known = session.catalogue.tools
    calls = [(known[each.tool], each.args) for each in reply.steps if each.tool in known and each.args]
    return any(not tool.guided and session.run.hooks.guard(tool, args) for tool, args in calls)


def _write_understanding(session: Session, plan: Plan, origin: str) -> None:
    """Write into §1 how a rung has read the task. A model's conversation keeps the beginning that it has."""
    if reader(session):
        return
    if plan.task and not session.doc.note(1, "resolved task"):
        session.note(1, "resolved task", plan.task, origin)
    for fact in plan.context:
        note = Note("fact", fact.fact, origin, fact.source)
        if note not in session.doc.section(1).notes:
            session.doc = session.doc.with_notes(1, note)


def _begin_plan(session: Session, plan: Plan, origin: str, read: str, before: Sequence[bool | None]) -> None:
    """Write a plan with whole steps, which DO carries out as it stands."""
    extra, last = dict(session.doc.meta.extra), last_turn(session.doc)
    extra.pop("planned_after", None)
    session.meta(extra={**extra, **({"planned_after": last} if last else {})})
    session.leave_out(2, lambda note: note.key == "work")
    _write_plan(session, plan, origin, before)
    if "understand" not in session.doc.meta.derived:
        record_inputs(session, "understand")
    record_inputs(session, "plan", read)
    session.save(phase="do", status="running", waiting=None)
    session.phase_finished("plan", "PROCEED", steps=sorted(session.doc.planned))


def _write_plan(session: Session, plan: Plan, origin: str, before: Sequence[bool | None]) -> None:
    """Write a plan into §2, with what each criterion said `before` its first step."""
    reply = in_document(plan, session.doc.meta.base)
    session.note(2, "approach", reply.approach, origin)
    session.note(2, "confidence", reply.confidence, origin)
    session.note(2, "success criteria", _lines(reply.success), origin)
    if before:
        session.note(2, "baseline", criteria.baseline_note(reply.success, before))
    if reply.rationale:
        session.note(2, "rationale", reply.rationale, origin)
    if reply.done:
        session.note(2, "done", reply.done, origin)
    base = session.doc.meta.base
    guided = session.catalogue.guided
    steps: dict[int, Step] = {}
    ends: set[int] = set()  # the steps that no other one needs so far
    for n, each in enumerate(reply.steps, base + 1):
        steps[n] = _to_step(n, ends, each, guided(each.tool))
        ends = ends - {*steps[n].needs} | {n}
    session.doc = session.doc.with_section(2, replace(session.doc.section(2), steps=steps))
    if dangers := known_dangers(session):
        session.note(2, "dangers", dangers)
    if why := session.run.hooks.review(session, reply.confidence):
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


def _first_turn(session: Session, plan: Plan) -> tuple[Wanted, ...] | None:
    """The calls before the step of work that ends a plan, which then opens the loop's own DO.

    They may be none. None is returned for a plan that has another step than such calls, and where code plans.
    """
    if not reader(session):
        return None
    *calls, last = plan.steps or (PlanStep(subtask="nothing"),)
    tools = session.catalogue.tools
    operations = all(step.args is not None and step.tool in tools and tools[step.tool].run for step in calls)
    if last.tool != WORK or not operations:
        return None
    return tuple(Wanted(tool=step.tool, args=step.args or {}) for step in calls)


# ---- calls and what is said beside them ------------------------------------------------------------------


def _begin(session: Session, reply: TurnReply, origin: str, turn: int, confidence: str) -> None:
    """Write a turn into the document: its calls into §2, and what it says into §2 and §3."""
    source = f"turn {turn}"
    if session.doc.meta.phase != "do":  # code, or a small model, says that there is nothing to plan
        session.note(2, "work", session.doc.text(1, "task"))
        record_inputs(session, "understand")
        record_inputs(session, "plan")
    if reply.text:
        session.note(3, THOUGHT, reply.text, origin, source)
    if reply.plan:
        _write_sketch(session, reply.plan, [{"run": each} for each in reply.plan.checks], origin, turn)
    plan_calls(session, reply.calls, turn)
    if not session.doc.note(2, "approved") and (why := _plan_demanded(session, confidence)):
        _hold_plan(session, why, turn)
    if reply.question:
        session.note(3, ASK, reply.question, origin, source)
    if reply.cannot:
        session.note(3, CANNOT, reply.cannot, origin, source)
    if reply.done:
        _propose(session, reply.done, origin, turn)
    session.save(phase="do", status="running", waiting=None)
    _tell(session, reply, turn)


def _tell(session: Session, reply: TurnReply, turn: int) -> None:
    """Send the events of a turn: of its plan, and of its calls that nothing has to be started for."""
    if reply.plan:
        session.phase_finished("plan", "PROCEED", steps=[], approach=reply.plan.approach)
    for step in session.doc.attempted:  # not those of an earlier attempt
        if turn_of(step) == turn and step.ended:
            args = {"what": step.what} if step.args is None else dict(step.args)
            session.emit("step_started", step=step.n, tool=step.tool, args=args)
            session.end(step)


def _write_sketch(
    session: Session, plan: Sketch | Plan, success: Sequence[Mapping[str, Any]], origin: str, turn: int
) -> None:
    """Write how a turn goes on into §2. What was said of an earlier plan does not hold for it."""
    source = f"turn {turn}"
    session.leave_out(2, lambda note: note.key in ("approved", REVIEW))
    session.note(2, "approach", plan.approach, origin, source)
    session.note(2, "confidence", plan.confidence, origin, source)
    if success:
        lines = _lines(success)
        session.note(2, "planned checks", lines, origin, source)
        _set_criteria(session, lines, origin)


def _lines(success: Sequence[Mapping[str, Any]]) -> str:
    """Criteria as the document has them: one JSON object a line."""
    return "\n".join(to_json(dict(each)) for each in success)


def _set_criteria(session: Session, lines: str, origin: str) -> None:
    """Make these the criteria of the loop. A decision about other commands does not hold for them.

    Criteria that a person has changed stay.
    """
    known = session.doc.note(2, "success criteria")
    if known and (known.text == lines or known.origin == "person"):
        return
    session.leave_out(2, lambda note: note.key in ("success criteria", "checks"))
    if lines:
        session.note(2, "success criteria", lines, origin)


def _propose(session: Session, done: Done, origin: str, turn: int) -> None:
    """Record an answer with its checks. What it leaves out is as it was proposed before."""
    source, earlier = f"turn {turn}", session.doc.text(3, PROPOSED)
    session.note(3, PROPOSED, done.answer or earlier, origin, source)
    before = session.doc.text(3, CHECKS).splitlines()
    given: list[str] = []
    for kind, commands in (("run", done.checks), ("keep", done.keep)):
        same = [each for each in before if commands_in(each, kind)]
        given += [to_json({kind: each}) for each in commands] or same
    if done.checks or done.keep:
        session.note(3, CHECKS, "\n".join(given), origin, source)
    old = session.doc.text(2, "success criteria").splitlines()
    if done.why:
        session.note(3, REPLACED, done.why, origin, source)
        if old:
            session.note(2, "replaced checks", "\n".join([*old, done.why]), origin)
    planned = [] if done.why else [each for each in old if each not in before]
    if given:
        _set_criteria(session, "\n".join(dict.fromkeys([*planned, *given])), origin)


def _plan_demanded(session: Session, confidence: str) -> str:
    """Why nothing may be changed before there is a plan; "" if it may."""
    if session.doc.meta.extra.get("plan_only"):
        return "--plan"
    if dangers := known_dangers(session):
        session.leave_out(2, lambda note: note.key == "dangers")
        session.note(2, "dangers", dangers)
    return session.run.hooks.review(session, confidence)


def _hold_plan(session: Session, why: str, turn: int) -> None:
    """Hold a turn whose plan somebody has to approve, or refuse what it changes if it has none."""
    if session.doc.note(2, "approach"):
        if not session.doc.note(2, REVIEW) and not session.doc.meta.extra.get("plan_only"):
            session.note(2, REVIEW, why)
        return
    _hold_calls(session, turn, PLAN_FIRST)


def _hold_calls(session: Session, turn: int, why: str) -> None:
    """Refuse the calls of a turn that change something and have not begun."""
    for n, step in session.doc.planned.items():
        tool = session.catalogue.tools.get(step.tool)
        if turn_of(step) == turn and n not in session.doc.steps and (tool is None or tool.changes(step.args)):
            session.put(replace(step, state="failed", result=why, origin="kernel"))


def _stuck(session: Session) -> str:
    """Why no further turn is asked for; "" if one is."""
    last = last_turn(session.doc)
    if last >= session.run.bounds.turns:
        return f"{last} turns were used, and the task is not done"
    for n, step in session.doc.planned.items():
        done = session.doc.steps.get(n)
        if done is None or turn_of(step) != last or done.tool == USE:
            continue
        failed, seen = failures_without_change(session, done), repeats(session, done)
        if failed > session.run.bounds.same_failure or seen > session.run.bounds.same_result:
            what = f"failed {failed} times" if failed else f"came to the same {seen} times"
            return f"step {n}: the same call {what}, and nothing new was done in between"
    return ""


def _hear(session: Session, last: int) -> None:
    """Take up what a person has said meanwhile: it follows the last turn, whose answer is void."""
    if not last and (session.doc.meta.phase != "do" or not by_turns(session.doc)):
        return  # it is heard before the first turn
    session.run.inbox.hear(session)
    said = said_in(session.doc)
    if not last:
        session.meta(extra={**session.doc.meta.extra, "heard": [len(said), len(said)]})
        return
    first, known = heard_by(session.doc)
    new, source = said[known:], f"turn {last}"
    if not new:
        return
    for note in new:
        if note.key != "question":
            session.note(3, HEARD, note.text, note.origin, source)
    if PROPOSED in notes_of(session.doc, last) and NOT_YET not in notes_of(session.doc, last):
        session.note(3, NOT_YET, SAID_MEANWHILE, source=source)
    session.meta(extra={**session.doc.meta.extra, "heard": [first, len(said)]})
    session.save()
