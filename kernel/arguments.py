"""A step that the plan only describes: its arguments are asked for when it is reached."""

from __future__ import annotations

from dataclasses import replace

from kernel.asking import Gate, ask
from kernel.document import Step
from kernel.errors import ReplyError
from kernel.phases import Action, Typed
from kernel.responder import Waits
from kernel.views import unready
from kernel.world import Held


async def arguments(held: Held, step: Step) -> Step | Waits:
    """The step with its arguments; ended where it was skipped or is blocked; or a wait for a person."""
    answer = await ask(held, "do", step=step.n, gate=_gate(held, step))
    if isinstance(answer, Waits):
        return answer
    action = answer.reply
    assert isinstance(action, Action)
    if action.skip or action.blocked:
        state, why = ("skipped", action.skip) if action.skip else ("failed", f"blocked: {action.blocked}")
        return replace(step, state=state, result=why, origin=answer.origin)
    evidence = {**step.evidence, "asked": answer.origin}
    return replace(step, tool=action.tool, args=action.args, evidence=evidence)


def _gate(held: Held, step: Step) -> Gate:
    async def gate(reply: Typed) -> None:
        assert isinstance(reply, Action)
        action = reply
        if action.tool and action.tool != step.tool:
            raise ReplyError(f"step {step.n} is a call of {step.tool}, not of {action.tool}")
        if action.tool and (problem := held.world.catalogue.problem(action.tool, action.args)):
            raise ReplyError(problem)
        if problem := unready(held, action.args):
            raise ReplyError(f"step {step.n}: {problem}")

    return gate
