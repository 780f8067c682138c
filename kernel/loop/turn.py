"""DO by turns: a capable model decides the next calls from the results so far, until the task is done.

The calls of a turn are steps of §2 and §3. A failed call is a result that the next turn sees. What a turn
says besides (an answer, a question, a plan) is in notes that name the turn. `kernel.asking.conversation`
renders all of it for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from posixpath import normpath
from typing import Any, cast

from kernel.asking.conversation import (
    CHECKS,
    HEARD,
    INDEX,
    PROPOSED,
    REPLACED,
    SHOWN,
    THOUGHT,
    by_turns,
    commands_in,
    guidance_of,
    heard_by,
    index_of,
    last_turn,
    notes_of,
    offer_limit,
    said_in,
    turn_of,
)
from kernel.asking.prompt import FOLDER, NAMED, NOT_YET
from kernel.asking.replies import Call, Plan, in_words, step_faults
from kernel.asking.responder import Responder
from kernel.asking.turn import ASK, CANNOT, SUBTASK, TURN, USE, Done, Sketch, TurnReply, Wanted
from kernel.document.escaping import to_json
from kernel.document.model import Note, Step
from kernel.document.references import references
from kernel.errors import ReplyError
from kernel.loop import criteria
from kernel.loop.approval import failures_without_change, known_dangers, repeats
from kernel.loop.ask import Answer, Gate, ask, reader
from kernel.loop.child import tasks
from kernel.loop.conclude import SAID_MEANWHILE, conclude
from kernel.loop.do import StepRunner, Waiting, unanswered
from kernel.loop.end import attempt_notes, clarify, escalate
from kernel.loop.hooks import hear
from kernel.loop.planned import PLAN_WAITS, REVIEW, check_plan, first_turn, is_held, uncertain, write_plan
from kernel.loop.run_context import Session, unready
from kernel.loop.step_cache import record_inputs

PLAN_FIRST = (
    "held back: plan first: call `plan` with your approach and checks beside this call; nothing was changed"
)
"""The result of a call that changes something where a plan is demanded."""
UNCERTAIN = "held back: the plan is uncertain, and the user is asked first; nothing was changed"
"""The result of a call that changes something beside a plan of low confidence."""


def prepare(session: Session, responder: Responder, shelve: Callable[[str, str], str] | None = None) -> None:
    """UNDERSTAND by code: §1 gets what the run finds of the folder, of memory and of its tools.

    `shelve` keeps the text that the first message shows, and returns its place; by default in the store.
    """
    shelve = shelve or session.run.store.shelve
    window = responder.window
    offered = session.doc.note(1, SHOWN) is not None  # in an earlier attempt
    _leave_out(session, 1, lambda note: note.key in (SHOWN, INDEX))
    _leave_out(session, 2, lambda note: note.key == "work")
    session.meta(extra={**session.doc.meta.extra, "window": window})
    if not offered:
        session.offer_context()
    name = f"{session.id}.shown-{session.doc.meta.attempt}.md"
    listed, text = session.run.hooks.understand(session, offer_limit(window))
    if text:
        _leave_out(session, 1, lambda note: note.source == FOLDER or note.source.startswith(NAMED))
        session.note(1, SHOWN, listed, "tool:read", shelve(name, text))
    session.run.catalogue.refresh()
    if index := index_of(session.doc, session.catalogue, responder.count):
        session.note(1, INDEX, index)
    session.note(2, "work", session.doc.text(1, "task"))


def begin_turns(session: Session, responder: Responder) -> None:
    """Go to DO by turns: PLAN is a part of the first one."""
    session.meta(status="running", waiting=None)
    prepare(session, responder)
    session.meta(phase="do")
    record_inputs(session, "understand")
    record_inputs(session, "plan", TURN)
    session.save()
    session.phase_finished("understand", "PROCEED")


def leave_turns(session: Session) -> None:
    """Go back to PLAN for a rung that fills in whole phases. What was done by turns is an attempt."""
    if session.doc.planned:
        passed = [rung["passed"] for rung in session.doc.meta.rungs if rung.get("passed")]
        learned = Note("learned", passed[-1] if passed else "nobody is left who decides turn by turn")
        session.fold("escalate", learned, *attempt_notes(session))
    _leave_out(session, 2, lambda note: note.key == "work")
    session.save(phase="plan", status="running")


async def turns(session: Session) -> Waiting | None:
    """Fill §3 turn by turn, until the task is done, waits for a person, or is given up."""
    responder = reader(session)
    if responder and not by_turns(session.doc):  # begun by a reflex, or by an earlier version
        prepare(session, responder)
    while True:
        if waiting := await StepRunner(session).run():
            return waiting
        question = unanswered(session.doc)
        if question and question.origin != "kernel":  # the kernel's own: nobody could answer; ask anew
            return Waiting("person", question.text)
        last = last_turn(session.doc)
        _hear(session, last)
        said = notes_of(session.doc, last)
        if ASK in said and HEARD not in said:
            return clarify(session, said[ASK].text, said[ASK].origin)
        if CANNOT in said:
            learned = Note("learned", f"cannot: {said[CANNOT].text}", said[CANNOT].origin)
            return escalate(session, "cannot", learned)
        if PROPOSED in said and NOT_YET not in said:
            if asks := criteria.ask_for_checks(session):
                return Waiting("approval", asks)
            if await conclude(session, last, said[PROPOSED]):
                return None
            continue
        if why := _stuck(session):
            return escalate(session, "stopped", Note("learned", why), reason=why)
        before: list[bool | None] = []

        answer = await ask(session, TURN, step=last + 1, gate=_gate(session, before))
        reply: TurnReply = answer.reply
        if (plan := reply.steps) and not plan.ends:
            if _is_unsure(session, plan):
                return clarify(session, uncertain(session, plan), answer.origin)
            calls = first_turn(session, plan)
            if calls is None:
                _begin_plan(session, plan, answer, before)
                return None
            _write_criteria(session, plan, before, answer.origin, last + 1)
            reply = reply.model_copy(update={"calls": calls, "steps": None})  # the calls may be none
        _begin(session, reply, answer.origin, last + 1, plan.confidence if plan else reply.confidence)
        if reply.plan and _is_unsure(session, reply.plan):
            plan = reply.plan
            _hold_calls(session, last + 1, UNCERTAIN)
            session.save()
            doubt = f"the plan is uncertain (confidence low): {plan.approach}\nHow should it go on?"
            return clarify(session, doubt, answer.origin)
        if is_held(session.doc):
            return Waiting("approval", PLAN_WAITS)


def _write_criteria(
    session: Session, plan: Plan, before: Sequence[bool | None], origin: str, turn: int
) -> None:
    """Write what a plan says of a turn whose calls begin it: how it goes on, and its criteria."""
    source = f"turn {turn}"
    session.note(2, "approach", plan.approach, origin, source)
    session.note(2, "confidence", plan.confidence, origin, source)
    lines = "\n".join(to_json(dict(each)) for each in plan.success)
    session.note(2, "planned checks", lines, origin, source)
    _set_criteria(session, lines, origin)
    if before:
        session.note(2, "baseline", criteria.baseline_note(plan.success, before))


def _gate(session: Session, before: list[bool | None]) -> Gate:
    """Refuses only a plan with steps that cannot be carried out: other faults are results of their calls."""

    async def gate(reply: TurnReply) -> None:
        if reply.steps and session.doc.planned:
            raise ReplyError("a plan with steps is only read before the first call; give calls")
        if reply.steps:
            before[:] = await check_plan(session, reply.steps)

    return gate


def _is_unsure(session: Session, plan: Sketch | Plan) -> bool:
    """Whether a person has to say how it goes on: every higher rung was asked, too."""
    answered = session.doc.note(1, "answer")
    return plan.confidence == "low" and not answered and not session.run.hooks.review(session, "low")


def _begin_plan(session: Session, plan: Plan, answer: Answer, before: Sequence[bool | None]) -> None:
    """Write a plan with whole steps, which DO carries out as it stands."""
    _leave_out(session, 2, lambda note: note.key == "work")
    write_plan(session, plan, answer.origin, before)
    session.meta(extra={**session.doc.meta.extra, "planned_after": last_turn(session.doc)})
    record_inputs(session, "plan", answer.read)
    session.save(status="running", waiting=None)
    session.phase_finished("plan", "PROCEED", steps=sorted(session.doc.planned))


def _begin(session: Session, reply: TurnReply, origin: str, turn: int, confidence: str) -> None:
    """Write a turn into the document: its calls into §2, and what it says into §2 and §3."""
    source = f"turn {turn}"
    if (plan := reply.steps) and plan.ends:
        done = Done(answer=plan.answer) if plan.answer else None
        reply = reply.model_copy(update={"done": done, "question": plan.question, "cannot": plan.cannot})
    if reply.text:
        session.note(3, THOUGHT, reply.text, origin, source)
    if reply.plan:
        _write_sketch(session, reply.plan, origin, source)
    _plan_calls(session, reply.calls, turn)
    if not session.doc.note(2, "approved") and (why := _plan_demanded(session, confidence)):
        _hold(session, why, turn)
    if reply.question:
        session.note(3, ASK, reply.question, origin, source)
    if reply.cannot:
        session.note(3, CANNOT, reply.cannot, origin, source)
    if reply.done:
        _propose(session, reply.done, origin, turn)
    session.save(status="running", waiting=None)
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


def _write_sketch(session: Session, plan: Sketch, origin: str, source: str) -> None:
    """Write a plan into §2. What was said of an earlier one does not hold for it."""
    _leave_out(session, 2, lambda note: note.key in ("approved", REVIEW))
    session.note(2, "approach", plan.approach, origin, source)
    session.note(2, "confidence", plan.confidence, origin, source)
    if plan.checks:
        lines = "\n".join(to_json({"run": command}) for command in plan.checks)
        session.note(2, "planned checks", lines, origin, source)
        _set_criteria(session, lines, origin)


def _leave_out(session: Session, number: int, which: Callable[[Note], bool]) -> None:
    """Remove notes of a section."""
    section = session.doc.section(number)
    kept = tuple(note for note in section.notes if not which(note))
    session.doc = session.doc.with_section(number, replace(section, notes=kept))


def _set_criteria(session: Session, lines: str, origin: str) -> None:
    """Make these the criteria of the loop. A decision about other commands does not hold for them.

    Criteria that a person has changed stay.
    """
    known = session.doc.note(2, "success criteria")
    if known and (known.text == lines or known.origin == "person"):
        return
    _leave_out(session, 2, lambda note: note.key in ("success criteria", "checks"))
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
        _leave_out(session, 2, lambda note: note.key == "dangers")
        session.note(2, "dangers", dangers)
    return session.run.hooks.review(session, confidence)


def _hold(session: Session, why: str, turn: int) -> None:
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


def _plan_calls(session: Session, calls: Sequence[Wanted], turn: int) -> None:
    """Add the calls of a turn to §2. A call that cannot be made is a failed step: its fault is a result.

    A call waits for those before it that it may depend on. Changes of one file, and looks at it, keep their
    order. A command or a child may change any file: it waits for all calls before it, and those after it wait
    for it.
    """
    first = max([session.doc.meta.base, *session.doc.planned, *session.doc.steps]) + 1
    planned = dict(session.doc.planned)
    ended: list[Step] = []
    before: dict[int, tuple[bool, str]] = {}
    """Whether each call before changes something, and the only file that it names."""
    for n, wanted in enumerate(calls, first):
        step = Step(n, "planned", evidence={"turn": turn})
        call = _unwrapped(wanted)
        if answered := _without_call(session, call, step):
            planned[n] = replace(answered, state="planned", result=None)
            ended.append(answered)
            continue
        tool = session.catalogue.get(call.tool) if call.tool else None
        if moved := _moved_lines(call, calls[: n - first]):
            planned[n] = replace(step, tool=call.tool, args=call.args)
            ended.append(replace(planned[n], state="failed", result=f"error: {moved}"))
            continue
        changes = tool is None or tool.changes(call.args)
        anything = tool is None or tool.guided or "shell" in tool.effects_of(call.args)
        path = "" if anything else _path(call)
        needs = {
            m
            for m, (changed, other) in before.items()
            if (changes or changed) and (not path or not other or path == other)
        }
        needs |= set(references(call.args))
        step = replace(step, tool=call.tool, needs=tuple(sorted(needs)))
        task = call.subtask or in_words(call.args)
        planned[n] = (
            replace(step, what=task) if tool is None or tool.guided else replace(step, args=call.args)
        )
        before[n] = changes, path
    session.doc = session.doc.with_section(2, replace(session.doc.section(2), steps=planned))
    for step in ended:
        session.put(step)


def _path(call: Wanted) -> str:
    """The file that a call names, in one spelling."""
    path = str(call.args.get("path") or "")
    return normpath(path) if path else ""


def _moved_lines(call: Wanted, before: Sequence[Wanted]) -> str:
    """Why the numbers of lines that a call names are no longer those that were shown; "" if they are."""
    path, lines = _path(call), str(call.args.get("lines") or "")
    first = lines.partition("-")[0].strip()
    if call.tool != "edit" or not first.isdecimal():
        return ""
    for each in map(_unwrapped, before):
        other = str(each.args.get("lines") or "").partition("-")[0].strip()
        later = other.isdecimal() and int(other) > int(first)
        if each.tool in ("edit", "write") and _path(each) == path and not later:
            moves = f"an earlier call of this turn moves the lines of {path}"
            return f"{moves}; use old, or begin with the last lines"
    return ""


def _unwrapped(wanted: Wanted) -> Wanted:
    """The call that `use` stands for, if it has arguments."""
    if wanted.tool != USE or wanted.bad:
        return wanted
    name, args = str(wanted.args.get("tool") or ""), wanted.args.get("args")
    if isinstance(args, dict) and name:
        return Wanted(tool=name, args=cast(dict[str, Any], args))
    return wanted


def _without_call(session: Session, call: Wanted, step: Step) -> Step | None:
    """The ended step of a call that nothing has to be started for; None for any other call."""
    step = replace(step, tool=call.tool or SUBTASK, args=dict(call.args))
    if call.bad:
        why = f"error: the call cannot be made as written: {call.bad[:500]}"
        return replace(step, args={}, state="failed", result=why)
    catalogue = session.catalogue
    if call.tool == USE or (not call.subtask and catalogue.guided(call.tool)):
        name = str(call.args.get("tool") or "") if call.tool == USE else call.tool
        tool = catalogue.tools.get(name)
        known = {"tool": USE, "args": {"tool": name}}
        if tool is None:
            return replace(step, **known, state="failed", result=f"error: {catalogue.unknown(name)}")
        return replace(step, **known, state="done", result=guidance_of(tool))
    plain = Call.model_construct(tool="" if call.subtask else call.tool, args=call.args, subtask=call.subtask)
    faults = step_faults(plain.step, "this call", catalogue, not session.atomic, tasks=tasks(session))
    if call.subtask and call.tool and not catalogue.guided(call.tool):
        faults.append(f"{call.tool} is no guided tool; leave `tool` out, or call it yourself")
    if problem := unready(session, call.args):
        faults.append(problem)
    if faults:
        args = {"task": call.subtask} if call.subtask else dict(call.args)
        text = "; ".join(faults).removeprefix("this call: ")
        return replace(step, args=args, state="failed", result=f"error: {text}")
    return None


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
    hear(session)
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
