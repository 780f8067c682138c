"""Open DO: the steps of a loop are not planned but decided one turn at a time, from the results so far.

The calls of a turn are ordinary steps of §2 and §3. A failed call is a result that the next turn sees.
"""

from __future__ import annotations

from dataclasses import replace

from kernel.asking.replies import WORK, Call, Plan, PlanStep, Turn, step_faults
from kernel.document.model import Document, Note, Step
from kernel.document.references import references
from kernel.errors import ReplyError
from kernel.loop import criteria
from kernel.loop.approval import effects_of, failures_without_change
from kernel.loop.ask import Gate, ask
from kernel.loop.check import turn_of, write_evidence
from kernel.loop.do import StepRunner, Waiting
from kernel.loop.end import clarify, escalate
from kernel.loop.run_context import Session, unready
from kernel.tools.tool import CHANGING

NOT_YET = "not yet"
"""The note of §3 with the criteria that did not hold when the responder was done."""


async def work(session: Session) -> Waiting | None:
    """Fill §3 turn by turn, until the responder is done, asks, or cannot go on."""
    while True:
        if waiting := await StepRunner(session).run():
            return waiting
        if question := unanswered(session.doc):
            return Waiting("person", question)
        if why := _stuck(session):
            session.note(3, "stopped", why)
            break
        answer = await ask(session, "work", step=next_step(session), gate=_gate(session))
        turn: Turn = answer.reply
        if turn.calls:
            plan_turn(session, turn.calls)
            session.save(status="running", waiting=None)
            continue
        if turn.question:
            return clarify(session, turn.question, answer.origin)
        if turn.cannot:
            return escalate(session, "cannot", Note("learned", f"cannot: {turn.cannot}", answer.origin))
        if await _done(session, turn.done, answer.origin):
            break
    session.save(phase="check", status="running", waiting=None)
    session.phase_finished("do", "")
    return None


def unanswered(document: Document) -> str:
    """The last question to a person, if it has no answer yet."""
    said = [note for note in document.section(1).notes if note.key in ("question", "answer")]
    return said[-1].text if said and said[-1].key == "question" else ""


def _gate(session: Session) -> Gate:
    async def gate(turn: Turn) -> None:
        faults: list[str] = []
        for at, call in enumerate(turn.calls, 1):
            where = f"call {at}"
            step = PlanStep(tool=call.tool, args=call.args)
            faults += step_faults(step, where, session.run.catalogue, not session.atomic)
            if problem := unready(session, call.args):
                faults.append(f"{where}: {problem}")
        if faults:
            raise ReplyError("; ".join(faults))

    return gate


def first_turn(session: Session, plan: Plan) -> tuple[Call, ...] | None:
    """The calls before the step of work that ends a plan, which then opens the loop's own DO.

    They may be none. None is returned for a plan that has another step than such calls.
    """
    *calls, last = plan.steps or (PlanStep(subtask="nothing"),)
    tools = session.run.catalogue.tools
    operations = all(step.args is not None and step.tool in tools and tools[step.tool].run for step in calls)
    if last.tool != WORK or not operations:
        return None
    return tuple(Call(tool=step.tool, args=step.args or {}) for step in calls)


def plan_turn(session: Session, calls: tuple[Call, ...]) -> None:
    """Add the calls of a turn to §2. Independent ones run in parallel; a change waits for all before it."""
    first = next_step(session)
    number = 1 + max(map(turn_of, session.doc.planned.values()), default=0)
    planned = dict(session.doc.planned)
    changed: tuple[int, ...] = ()
    for n, call in enumerate(calls, first):
        tool = session.run.catalogue.get(call.tool)
        changes = tool.guided or bool(CHANGING & effects_of(tool))
        needs = {*(range(first, n) if changes else changed), *references(call.args)}
        step = Step(n, "planned", call.tool, call.args, needs=tuple(sorted(needs)), evidence={"turn": number})
        if tool.guided:
            step = replace(step, args=None, what=str(call.args.get("what", "")) or session.doc.task)
        planned[n] = step
        changed = (n,) if changes else changed
    session.doc = session.doc.with_section(2, replace(session.doc.section(2), steps=planned))


def next_step(session: Session) -> int:
    """The number of the next step of an open DO."""
    return max([session.doc.meta.base, *session.doc.planned, *session.doc.steps]) + 1


def _stuck(session: Session) -> str:
    """Why no further turn is asked for; "" if one is."""
    turns = {turn_of(step) for step in session.doc.planned.values()} - {0}
    if len(turns) >= session.run.bounds.turns:
        return f"{len(turns)} turns were used, and the task is not done"
    for n, step in session.doc.planned.items():
        done = session.doc.steps.get(n)
        if turn_of(step) == max(turns, default=0) and done and done.state == "failed":
            failed = failures_without_change(session, done)
            if failed > session.run.bounds.same_failure:
                return f"step {n}: the same call failed {failed} times, and nothing was changed in between"
    return ""


async def _done(session: Session, result: str, origin: str) -> bool:
    """Record the result; false if a criterion does not hold and the responder is to go on."""
    gathered = await criteria.gather_evidence(session)
    failing = [finding.line() for finding in gathered[0] if finding.after is False]
    again = sum(note.key == NOT_YET for note in session.doc.section(3).notes)
    if failing and again < session.run.bounds.retries:
        session.note(3, NOT_YET, "\n".join(failing))
        session.save()
        return False
    session.note(3, "result", result, origin)
    write_evidence(session, *gathered)
    return True
