"""The only control structure: one loop, UNDERSTAND, PLAN, DO, CHECK, from its document to its end.

`advance` is called with the id of any loop at any level, after any interruption; it goes on from where the
document stands, and returns how the loop ended, or what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel import checking
from kernel.asking import Answer, NobodyLeft, ask, current
from kernel.atomic import atomic
from kernel.budget import estimate_tokens
from kernel.derived import derive
from kernel.document import Document, Note, Step
from kernel.ends import clarify, climb, finish
from kernel.errors import Exit, LimitReached, UsageError
from kernel.judging import check
from kernel.offering import offer_context
from kernel.permits import ask_first, told
from kernel.phases import FusedPlan, Plan, PlanStep, Typed, Understanding, gate_plan, in_document
from kernel.prompt import Prompt, assemble, drafted
from kernel.references import references
from kernel.responder import Waits
from kernel.steps import Doing, Waiting
from kernel.text import to_json
from kernel.world import Held, World

PLAN_WAITS = "the plan"
"""What a run that was told to stop after PLAN waits for an approval of."""


@dataclass(frozen=True)
class Outcome:
    """How a loop ended: a result, an error, or an escalation (reason, partial result, question)."""

    status: str
    exit: Exit
    result: str = ""
    error: str = ""
    question: str = ""
    partial: str = ""


async def advance(world: World, loop_id: str) -> Outcome | Waiting:
    """Go on with a loop until it ends or waits. Raises only what the kernel itself cannot do."""
    held = Held(world, world.store.load(loop_id))
    if held.doc.ended:
        return outcome(held.doc)
    if held.doc.meta.status == "ready":
        held.emit("loop_started", task=held.doc.text(1, "task")[:200], depth=held.doc.meta.depth)
    try:
        if waiting := _still_waits(held):
            return waiting
        while not held.doc.ended:
            held.emit("phase_started", phase=held.doc.meta.phase, attempt=held.doc.meta.attempt)
            waiting = await _PHASES[held.doc.meta.phase](held)
            if waiting:
                return _wait(held, waiting)
    except LimitReached as error:
        finish(held, "exhausted", error=str(error))
    except NobodyLeft as error:
        finish(held, "escalated", error=str(error))
    return outcome(held.doc)


def _still_waits(held: Held) -> Waiting | None:
    """Whether a person has not answered yet, and no rung has come in the meantime that could go on alone."""
    waits = held.doc.meta.waiting
    if (
        not waits
        or waits["for"] == "children"
        or (held.doc.meta.phase == "do" and waits.get("question") != PLAN_WAITS)
    ):
        return None
    question = held.doc.note(1, "question")
    nobody = (
        question is not None and question.origin == "kernel"
    )  # no rung could; a person did not ask for it
    if nobody and _other_taker(held):
        return None
    return Waiting(str(waits["for"]), str(waits.get("question", "")))


def _other_taker(held: Held) -> bool:
    ladder = held.world.ladder
    taker = ladder.taker(held.doc.task, held.doc)
    if taker is None or ladder.rungs[taker].tier == "human":
        return False
    held.meta(taker=ladder.rungs[taker].name)
    return True


def outcome(document: Document) -> Outcome:
    """What §5 of an ended document says."""
    return Outcome(
        document.meta.word,
        document.meta.exit,
        result=document.text(5, "result"),
        error=document.text(5, "error") or document.text(5, "escalation"),
        question=document.text(5, "question"),
        partial=document.text(5, "partial result"),
    )


# ---- UNDERSTAND ------------------------------------------------------------------------------------------


async def understand(held: Held) -> Waiting | None:
    """§1: the task with every reference made explicit, and the context that matters."""
    meta = held.doc.meta
    taker = current(held)
    if taker is None:
        finish(
            held, "failed", error="no rung of the ladder takes this task; set a model, see `fractal doctor`"
        )
        return None
    responder = held.world.ladder.rungs[taker]
    held.meta(status="running", taker=responder.name, waiting=None)
    if responder.reads_prompt:
        offer_context(held)
    if held.atomic and responder.reads_prompt:
        return await atomic(held)
    if _fuses(held, responder.reads_prompt):
        held.meta(phase="plan")  # one call fills §1 and §2; until then the document is as it was
        return None
    held.save()
    answer = await ask(held, "understand")
    if isinstance(answer, Waits):
        return clarify(held, answer.question, "kernel")
    assert isinstance(answer.reply, Understanding)
    _write_understanding(held, answer.reply, answer.origin)
    held.meta(phase="plan")
    derive(held, "understand", answer.read)
    held.save()
    held.emit(
        "phase_finished", phase="understand", attempt=meta.attempt, rung=held.doc.meta.taker, gate="PROCEED"
    )
    return None


def _fuses(held: Held, reads_prompt: bool) -> bool:
    """One call may fill §1 and §2: not in a tool's loop, whose phases have texts of their own."""
    policy = held.world.policy.fuse
    if (
        not reads_prompt
        or policy == "never"
        or held.doc.meta.attempt > 1
        or held.doc.note(1, "resolved task")
        or not held.world.catalogue.text("phases/fused.md", drafted=drafted(held.doc))
    ):
        return False
    guided = held.world.catalogue.guided(held.doc.meta.type)
    large = sum(len(note.text) for note in held.doc.section(1).notes) > 8_000
    return policy == "always" or not (guided or large)


def _write_understanding(held: Held, reply: Understanding, origin: str) -> None:
    held.note(1, "resolved task", reply.task, origin)
    for fact in reply.context:
        held.note(1, "fact", fact.fact, origin, fact.source)
    if reply.open:
        held.note(1, "open", "\n".join(reply.open), origin)


# ---- PLAN ------------------------------------------------------------------------------------------------


async def plan(held: Held) -> Waiting | None:
    """§2: approach, steps and success criteria; its gate is PROCEED, CLARIFY, or "cannot"."""
    held.world.catalogue.refresh()
    held.meta(status="running", waiting=None)
    taker = current(held)
    reads_prompt = taker is not None and held.world.ladder.rungs[taker].reads_prompt
    if reads_prompt:
        offer_context(held)
    held.save()
    fused = not held.doc.note(1, "resolved task")
    before: list[bool | None] = []

    async def gate(reply: Typed) -> None:
        assert isinstance(reply, Plan)
        retry = held.doc.meta.attempt > 1
        gate_plan(
            reply,
            held.world.catalogue,
            may_split=held.may_split,
            retry=retry,
            earlier=[n for n, step in held.doc.steps.items() if step.state == "done"],
            tasks=_tasks(held),
        )
        if reply.question or reply.cannot:
            return
        before[:] = await checking.baseline(held, reply.success, retry=retry)

    answer = await ask(held, "fused" if fused else "plan", gate=gate)
    if isinstance(answer, Waits):
        return clarify(held, answer.question, "kernel")
    reply = answer.reply
    assert isinstance(reply, Plan)
    if isinstance(reply, FusedPlan):
        _write_understanding(held, reply.understanding, answer.origin)
    if reply.question:
        return clarify(held, reply.question, answer.origin)
    if reply.confidence == "low" and not reply.cannot and not held.doc.note(1, "answer"):
        # every rung above was asked: without a person's word nothing is done
        return clarify(held, _uncertain(held, reply), answer.origin)
    if reply.cannot:
        return climb(held, "cannot", Note("learned", f"cannot: {reply.cannot}", answer.origin))
    _write_plan(held, in_document(reply, held.doc.meta.base), answer, before)
    held.meta(phase="do")
    if fused:
        derive(held, "understand")
    derive(held, "plan", answer.read)
    held.save()
    held.emit(
        "phase_finished",
        phase="plan",
        attempt=held.doc.meta.attempt,
        rung=held.doc.meta.taker,
        gate="PROCEED",
    )
    return None


def _tasks(held: Held) -> list[str]:
    """The task of this loop and of each above it, as given and as resolved."""
    documents = [held.doc]
    while (parent := documents[-1].meta.parent) and held.world.store.exists(parent):
        documents.append(held.world.store.load(parent))
    return [task for each in documents for task in (each.text(1, "task"), each.task)]


def _uncertain(held: Held, plan: Plan) -> str:
    """The question that a plan of low confidence comes to: what is open, else why it was made so."""
    doubt = held.doc.text(1, "open") or plan.rationale or plan.approach
    steps = "; ".join(
        step.subtask or f"{step.tool} {step.what or to_json(step.args)}"[:120] for step in plan.steps
    )
    return f"the plan is uncertain (confidence low): {doubt}\nplanned: {steps[:600]}\nHow should it go on?"


def _write_plan(held: Held, reply: Plan, answer: Answer, before: list[bool | None]) -> None:
    origin = answer.origin
    held.note(2, "approach", reply.approach, origin)
    held.note(2, "confidence", reply.confidence, origin)
    held.note(2, "success criteria", "\n".join(to_json(dict(each)) for each in reply.success), origin)
    held.note(2, "baseline", checking.marks(reply.success, before))
    if reply.rationale:
        held.note(2, "rationale", reply.rationale, origin)
    base = held.doc.meta.base
    steps = {n: _planned(n, base, each) for n, each in enumerate(reply.steps, base + 1)}
    held.doc = held.doc.with_section(2, replace(held.doc.section(2), steps=steps))
    if dangers := told(held):
        held.note(2, "dangers", dangers)


def _planned(n: int, base: int, step: PlanStep) -> Step:
    """A step of §2; without `needs` it needs the step before it, so that a failure stops the plan."""
    default = (n - 1,) if n - 1 > base else ()
    needs = {*(default if step.needs is None else step.needs), *references(step.model_dump())}
    what = step.subtask or step.what
    args = step.args
    if args is not None and step.tool and not what and set(args) == {"what"}:
        what, args = str(args["what"]), None
    return Step(n, "planned", step.tool, args, what, tuple(sorted(needs)))


# ---- DO --------------------------------------------------------------------------------------------------


async def do(held: Held) -> Waiting | None:
    """§3: carry out the steps that are ready until none is left."""
    if held.doc.meta.extra.get("plan_only") and not held.doc.note(2, "approved"):
        return Waiting("approval", PLAN_WAITS)
    held.world.catalogue.refresh()
    if asks := ask_first(held):
        return Waiting("approval", asks)
    waiting = await Doing(held).run()
    if waiting:
        return waiting
    held.meta(phase="check", status="running", waiting=None)
    held.save()
    held.emit("phase_finished", phase="do", attempt=held.doc.meta.attempt, rung=held.doc.meta.taker, gate="")
    return None


def _wait(held: Held, waiting: Waiting) -> Waiting:
    """Say in META what the loop waits for; a wait for children is written once, not for each child."""
    known = held.doc.meta.waiting
    waits = {"for": waiting.on} | ({"question": waiting.question} if waiting.question else {})
    if known != waits or held.doc.meta.status != "waiting":
        held.meta(status="waiting", waiting=waits)
        held.save()
    if waiting.on != "children":
        held.emit("loop_waiting", **waits)
    return waiting


def next_prompt(held: Held, step: int = 0) -> tuple[str, Prompt]:
    """The phase of the next ask of this document, and the prompt that it would send; `step`: of DO."""
    if held.doc.ended:
        raise UsageError(f"{held.id} has ended ({held.doc.meta.status}); no further prompt will be sent")
    readers = [responder for responder in held.world.ladder if responder.reads_prompt]
    count = readers[0].count if readers else estimate_tokens
    phase = held.doc.meta.phase
    offer_context(held)
    if phase in ("understand", "plan"):
        unread = not held.doc.note(1, "resolved task")
        if held.atomic:
            phase = "atomic"
        elif unread and (phase == "plan" or _fuses(held, reads_prompt=True)):
            phase = "fused"
    if phase == "do":
        asked = [n for n, planned in held.doc.planned.items() if planned.args is None and planned.tool]
        open_ = [n for n in asked if not held.doc.steps.get(n, held.doc.planned[n]).ended]
        if not (step or open_):
            raise UsageError(f"{held.id} is in DO, and no step of its plan has to be asked for")
        step = step or open_[0]
    prompt = assemble(held.doc, phase, held.world.catalogue, count, step=step, may_split=held.may_split)
    return phase, prompt


_PHASES: Mapping[str, Callable[[Held], Any]] = {
    "understand": understand,
    "plan": plan,
    "do": do,
    "check": check,
}
