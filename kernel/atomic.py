"""A loop at the limit of depth or context: one reply names one operation, and code checks it."""

from __future__ import annotations

from dataclasses import replace

from kernel.asking import ask
from kernel.derived import derive
from kernel.document import Step
from kernel.ends import clarify, finish
from kernel.errors import ReplyError
from kernel.phases import Action, Typed
from kernel.responder import Waits
from kernel.steps import Doing, Waiting
from kernel.views import Views, unready
from kernel.world import Held


async def atomic(held: Held) -> Waiting | None:
    """At the limit of depth or context: one reply names one operation, and code checks what came of it."""
    held.world.catalogue.refresh()
    held.save()

    async def gate(reply: Typed) -> None:
        assert isinstance(reply, Action)
        if reply.tool and held.world.catalogue.guided(reply.tool):
            raise ReplyError(f"{reply.tool} is a loop; name an operation")
        if reply.tool and (problem := held.world.catalogue.problem(reply.tool, reply.args)):
            raise ReplyError(problem)
        if problem := unready(held, reply.args):
            raise ReplyError(problem)

    answer = await ask(held, "atomic", gate=gate)
    if isinstance(answer, Waits):
        return clarify(held, answer.question, "kernel")
    action = answer.reply
    assert isinstance(action, Action)
    held.note(1, "resolved task", held.doc.text(1, "task"))
    if action.blocked or action.skip:
        finish(held, "escalated", error=f"blocked: {action.blocked or action.skip}")
        return None
    held.note(2, "approach", "one operation, by the limit of depth or context", answer.origin)
    step = Step(held.doc.meta.base + 1, "planned", action.tool, action.args)
    held.doc = held.doc.with_section(2, replace(held.doc.section(2), steps={step.n: step}))
    held.meta(phase="do")
    derive(held, "understand", answer.read)
    held.save()
    if waiting := await Doing(held).run():
        return waiting
    return judge_atomic(held)


def judge_atomic(held: Held) -> None:
    """CHECK by code: the operation's own end is the loop's."""
    step = held.doc.steps[max(held.doc.steps)]
    good = step.state in ("done", "skipped")
    derive(held, "check")
    held.note(4, "decision", "ACCEPT" if good else "ESCALATE")
    if good:
        finish(held, "complete", result=Views(held)[step.n].result)
    else:
        finish(held, "escalated", error=step.result or step.state)
