"""A call is prepared: its arguments asked for and filled in, its harm looked at, its approval had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from kernel import keeping
from kernel.arguments import arguments
from kernel.document import Step
from kernel.errors import OperationFailed
from kernel.operate import may_change, tell_of_wait
from kernel.permits import approval, refuse
from kernel.references import substitute
from kernel.responder import Waits
from kernel.shelving import missing
from kernel.tools import Tool
from kernel.views import Views, results_of
from kernel.world import Held


@dataclass(frozen=True)
class Waiting:
    """The loop holds nothing in memory until children end, or a person answers or approves."""

    on: str  # children, person, approval
    question: str = ""


@dataclass(frozen=True)
class Call:
    """A step with the arguments that it is carried out with, its tool, and the results that it is given."""

    step: Step
    tool: Tool
    results: Mapping[int, str]


async def prepared(held: Held, step: Step, tool: Tool, again: Step | None) -> Call | Step | Waiting:
    """The call of a step that may begin now; the step itself where it has ended without one.

    Its arguments are filled in once: what stands in the step's line, and is approved of, is what is carried
    out. `again` is what stands in §3 of a step that is done again.
    """
    begun = step.state == "running"  # before an interruption
    stored = begun or step.state == "waiting" or "approved" in step.evidence
    if stored and not begun and keeping.why_stale(held, step.n):
        stored = False  # what it was made from came to something else: an approval was for another call
    if not stored:
        step = held.doc.planned[step.n]
    if step.args is None:
        held.flush()
        asked = await arguments(held, step)
        if isinstance(asked, Waits):
            return _ask_person(held, asked)
        if asked.ended:
            return asked
        step, tool = asked, held.world.catalogue.get(asked.tool)
    if lost := missing(step):
        raise OperationFailed(lost)
    views = Views(held, exact=True)
    args = dict(step.args or {}) if stored else tool.typed(substitute(step.args, views))
    await refuse(held, step, tool, args)
    results = results_of(held, str(args.get("command"))) if tool.name == "bash" else {}
    filled = replace(step, args=args, evidence={**step.evidence, **keeping.made_from(held, step.n)})
    if not begun:
        went = keeping.went_before(held, filled, again, tool.repeatable(args))
        if went is not None:
            return Waiting("person", went) if isinstance(went, str) else went
    await _look_for_large(held, filled, tool)
    allowed, asks = approval(held, filled, tool, args, results)
    if asks:
        return Waiting("approval", asks)
    return Call(replace(allowed, state="running", result=None), tool, results)


async def _look_for_large(held: Held, step: Step, tool: Tool) -> None:
    """Keep the folder before anything is asked: then it is known which files are too large to be kept."""
    snapshots = held.world.snapshots
    if snapshots and snapshots.large is None and may_change(held, step, tool):
        async with snapshots.turn(partial(tell_of_wait, held, step)):
            await snapshots.taken(held.world.run)


def _ask_person(held: Held, waits: Waits) -> Waiting:
    """At the root the question stands in §1, where its answer is looked for; a child hands it up."""
    if not held.root:
        raise OperationFailed(f"a question only a person can answer: {waits.question}")
    last = held.doc.note(1, "question")
    if last is None or last.text != waits.question:
        held.note(1, "question", waits.question)
        held.save()
    return Waiting(waits.reason, waits.question)
