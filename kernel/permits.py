"""Whether a call may be made, asked just before it, for every kind of tool at every level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernel.danger import Danger
from kernel.document import Step
from kernel.errors import OperationFailed
from kernel.states import refusal, standing
from kernel.text import to_json
from kernel.tools import Tool
from kernel.world import Held, World

SHOWN_CHARS = 300
"""Of a call that waits for an approval, what its question shows."""


async def refuse(held: Held, step: Step, tool: Tool, args: Mapping[str, Any]) -> None:
    """Raise `OperationFailed` for a call that cannot be made, whoever approves of it."""
    if problem := tool.problem(args):
        raise OperationFailed(problem)
    if tool.states:
        now = standing(tool.states, tool.name, held.doc.steps.values())
        if why := refusal(tool.states, now, str(args.get(tool.states.by))):
            raise OperationFailed(f"{tool.name}: {why}")
    same = [
        each
        for each in held.doc.steps.values()
        if each.state == "failed" and each.tool == step.tool and each.args == args
        if not (tool.states and each.origin == "kernel")  # refused: it may be right in another state
    ]
    if len(same) >= held.world.bounds.same_failure:
        raise OperationFailed(f"the same call failed {len(same)} times already and is not tried again")
    if not tool.draft and (why := await held.world.admitted(tool)):
        raise OperationFailed(why)


def effects_of(tool: Tool) -> set[str]:
    """What a call may do: what it says, and of a program beside its pattern that it is one."""
    return {*tool.effects, *(["shell"] if tool.scheme == "command" else [])}


def ungranted(world: World, tool: Tool, args: Mapping[str, Any]) -> tuple[list[str], list[Danger]]:
    """The effects and dangers of a call that nobody approved of in advance: `yes` covers no serious one."""
    policy = world.policy
    guarded = [effect for effect in policy.approve if effect in effects_of(tool)]
    dangers = list(world.guard(tool, args))
    if policy.yes:
        return [], [danger for danger in dangers if danger.severity == "serious"]
    return guarded, dangers


def approval(held: Held, step: Step, tool: Tool, args: Mapping[str, Any]) -> str:
    """What a person has to approve of before this call, "" when nothing; the step says so, and waits."""
    guarded, dangers = ungranted(held.world, tool, args)
    if not (guarded or dangers) or step.evidence.get("approved"):
        return ""
    told = {"approval": guarded} if guarded else {}
    told |= {"dangers": [str(danger) for danger in dangers]} if dangers else {}
    held.put(replace(step, state="waiting", evidence={**step.evidence, **told}))
    call = f"{tool.name} {to_json(dict(args))}"
    call = call if len(call) <= SHOWN_CHARS else f"{call[: SHOWN_CHARS - 1]}…"
    may = f"may {' and '.join(guarded)}: {call}" if guarded else call
    return "\n".join([f"step {step.n} {may}", *(f"- {danger}" for danger in dangers)])
