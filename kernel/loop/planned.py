"""A plan with whole steps: whether it can be carried out, and how it is written into §2."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kernel.asking.conversation import by_turns
from kernel.asking.replies import WORK, Plan, PlanStep, gate_plan, in_document, in_words
from kernel.asking.turn import Wanted
from kernel.document.escaping import to_json
from kernel.document.model import Document, Step
from kernel.document.references import references
from kernel.loop import criteria
from kernel.loop.approval import known_dangers
from kernel.loop.ask import coded, current_rung
from kernel.loop.child import tasks
from kernel.loop.proof import demanded
from kernel.loop.run_context import Session

PLAN_WAITS = "the plan"
"""The question of a run that stops after PLAN and waits for approval."""

REVIEW = "waits for approval"
"""The note of §2 with the reasons why a plan may not start before oversight or a human has approved it."""


def is_held(document: Document) -> bool:
    """Whether somebody has to approve the plan of a loop, if it has one, before it goes on."""
    held = document.meta.extra.get("plan_only") or document.note(2, REVIEW)
    planned = not by_turns(document) or document.note(2, "approach")
    return bool(held and planned) and not document.note(2, "approved")


def proposed(document: Document) -> dict[int, Step]:
    """The planned steps that somebody has to approve: those that have not ended."""
    return {n: step for n, step in document.planned.items() if not document.steps.get(n, step).ended}


async def check_plan(session: Session, reply: Plan) -> list[bool | None]:
    """Whether each criterion of a plan holds before its first step. Raises `ReplyError` for a wrong plan."""
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
        checks=session.run.hooks.checks,
        coded=by_code,
    )
    if reply.ends:
        return []
    fails = not by_code and demanded(session) != "look"  # else all may be as it is to be
    held = _will_be_held(session, reply)
    return await criteria.baseline(session, reply.success, retry=retry, fails=fails, held=held)


def uncertain(session: Session, plan: Plan) -> str:
    """The question to ask about a plan of low confidence."""
    doubt = session.doc.text(1, "open") or plan.rationale or plan.approach
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


def write_plan(session: Session, plan: Plan, origin: str, before: Sequence[bool | None]) -> None:
    """Write a plan into §2, with what each criterion said `before` its first step."""
    reply = in_document(plan, session.doc.meta.base)
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


def first_turn(session: Session, plan: Plan) -> tuple[Wanted, ...] | None:
    """The calls before the step of work that ends a plan, which then opens the loop's own DO.

    They may be none. None is returned for a plan that has another step than such calls.
    """
    *calls, last = plan.steps or (PlanStep(subtask="nothing"),)
    tools = session.catalogue.tools
    operations = all(step.args is not None and step.tool in tools and tools[step.tool].run for step in calls)
    if last.tool != WORK or not operations:
        return None
    return tuple(Wanted(tool=step.tool, args=step.args or {}) for step in calls)
