"""Open DO: the steps of a loop are not planned but decided one turn at a time, from the results so far.

The calls of a turn are ordinary steps of §2 and §3. A failed call is a result that the next turn sees.
"""

from __future__ import annotations

from dataclasses import replace

from kernel.asking.prompt import NOT_YET
from kernel.asking.replies import WORK, Call, Plan, PlanStep, Turn, in_words, step_faults
from kernel.document.model import Note, Step
from kernel.document.references import references
from kernel.errors import ReplyError
from kernel.loop import criteria
from kernel.loop.approval import failures_without_change, repeats
from kernel.loop.ask import Gate, ask
from kernel.loop.check import last_turn, turn_of, write_evidence
from kernel.loop.child import tasks
from kernel.loop.do import SUCCEEDED, StepRunner, Waiting, unanswered
from kernel.loop.end import clarify, escalate
from kernel.loop.run_context import Session, unready

PROPOSED = "proposed"
"""The note of §3 with the answer that counts if the calls of its turn succeed and the criteria hold."""


async def work(session: Session) -> Waiting | None:
    """Fill §3 turn by turn, until the responder is done, asks, or cannot go on."""
    while True:
        if waiting := await StepRunner(session).run():
            return waiting
        if question := unanswered(session.doc):
            return Waiting("person", question.text)
        _hear(session)
        proposed = _proposed(session)
        if proposed and await _done(session, proposed.text, proposed.origin):
            break
        if why := _stuck(session):
            session.note(3, "stopped", why)
            break
        answer = await ask(session, "work", step=next_step(session), gate=_gate(session))
        turn: Turn = answer.reply
        if turn.calls:
            plan_turn(session, turn.calls)
            if turn.done:
                session.note(3, PROPOSED, turn.done, answer.origin, f"turn {last_turn(session.doc)}")
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


def _gate(session: Session) -> Gate:
    async def gate(turn: Turn) -> None:
        faults: list[str] = []
        for at, call in enumerate(turn.calls, 1):
            where = f"call {at}"
            may_split, above = not session.atomic, tasks(session)
            faults += step_faults(call.step, where, session.catalogue, may_split, tasks=above)
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
    tools = session.catalogue.tools
    operations = all(step.args is not None and step.tool in tools and tools[step.tool].run for step in calls)
    if last.tool != WORK or not operations:
        return None
    return tuple(Call(tool=step.tool, args=step.args or {}) for step in calls)


def plan_turn(session: Session, calls: tuple[Call, ...]) -> None:
    """Add the calls of a turn to §2. A step waits for those before it that it may depend on.

    Changes of one file, and looks at it, keep their order. A command or a child may change any file: it
    waits for all calls before it, and those after it wait for it.
    """
    first = next_step(session)
    number = 1 + last_turn(session.doc)
    planned = dict(session.doc.planned)
    before: dict[int, tuple[bool, str]] = {}
    """Whether each call before changes something, and the only file that it names."""
    for n, call in enumerate(calls, first):
        tool = session.catalogue.get(call.tool) if call.tool else None
        changes = tool is None or tool.changes(call.args)
        anything = tool is None or tool.guided or "shell" in tool.effects_of(call.args)
        path = "" if anything else str(call.args.get("path", ""))
        needs = {
            m
            for m, (changed, other) in before.items()
            if (changes or changed) and (not path or not other or path == other)
        }
        needs |= set(references(call.args))
        step = Step(n, "planned", call.tool, call.args, needs=tuple(sorted(needs)), evidence={"turn": number})
        if tool is None or tool.guided:
            step = replace(step, args=None, what=call.subtask or in_words(call.args))
        planned[n] = step
        before[n] = changes, path
    session.doc = session.doc.with_section(2, replace(session.doc.section(2), steps=planned))


def next_step(session: Session) -> int:
    """The number of the next step of an open DO."""
    return max([session.doc.meta.base, *session.doc.planned, *session.doc.steps]) + 1


def _stuck(session: Session) -> str:
    """Why no further turn is asked for; "" if one is."""
    last = last_turn(session.doc)  # turns are numbered from 1
    if last >= session.run.bounds.turns:
        return f"{last} turns were used, and the task is not done"
    for n, step in session.doc.planned.items():
        done = session.doc.steps.get(n)
        if done is None or turn_of(step) != last:
            continue
        failed, seen = failures_without_change(session, done), repeats(session, done)
        if failed > session.run.bounds.same_failure or seen > session.run.bounds.same_result:
            what = f"failed {failed} times" if failed else f"came to the same {seen} times"
            return f"step {n}: the same call {what}, and nothing new was done in between"
    return ""


def _proposed(session: Session) -> Note | None:
    """The answer proposed with the calls of the last turn, if all of them have succeeded."""
    last = last_turn(session.doc)
    notes = [note for note in session.doc.section(3).notes if note.source == f"turn {last}"]
    steps = [session.doc.steps.get(n) for n, step in session.doc.planned.items() if turn_of(step) == last]
    succeeded = all(step is not None and step.state in SUCCEEDED for step in steps)
    return notes[-1] if notes and notes[-1].key == PROPOSED and succeeded else None


def _hear(session: Session) -> bool:
    """Take up what a person has said meanwhile: an answer that was proposed before does not count."""
    if not session.run.hear(session):
        return False
    section = session.doc.section(3)
    notes = tuple(note for note in section.notes if note.key != PROPOSED)
    session.doc = session.doc.with_section(3, replace(section, notes=notes))
    session.save()
    return True


async def _done(session: Session, result: str, origin: str) -> bool:
    """Record the result; false if the responder is to go on: a criterion does not hold, or a person spoke."""
    gathered = await criteria.gather_evidence(session)
    failing = [finding.line() for finding in gathered[0] if finding.after is False]
    again = sum(note.key == NOT_YET for note in session.doc.section(3).notes)
    if failing and again < session.run.bounds.retries:
        session.note(3, NOT_YET, "\n".join(failing), source=f"turn {last_turn(session.doc)}")
        session.save()
        return False
    if _hear(session):
        return False
    session.note(3, "result", result, origin)
    write_evidence(session, *gathered)
    return True
