"""Whether a call may be made, asked just before it, for every kind of tool at every level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.danger import Danger
from kernel.deciding import YES
from kernel.document import Step
from kernel.errors import OperationFailed
from kernel.references import problem_in, references, substitute
from kernel.screening import redact_forms
from kernel.states import refusal, standing
from kernel.text import fingerprint, to_json
from kernel.tools import CHANGING, Tool
from kernel.world import Held, World

SHOWN_CHARS = 300
"""Of a call that waits for an approval, what its question shows."""


async def refuse(held: Held, step: Step, tool: Tool, args: Mapping[str, Any]) -> None:
    """Raise `OperationFailed` for a call that cannot be made, whoever approves of it."""
    if problem := tool.problem(args, filled=True):
        raise OperationFailed(problem)
    if tool.states:
        now = standing(tool.states, tool.name, held.doc.steps.values())
        if why := refusal(tool.states, now, str(args.get(tool.states.by))):
            raise OperationFailed(f"{tool.name}: {why}")
    steps, most = held.doc.steps.values(), held.world.bounds.same_failure
    same = sorted(
        each.n
        for each in steps
        if each.state == "failed" and each.tool == step.tool and each.args == args
        if not (tool.states and each.origin == "kernel")  # refused: it may be right in another state
    )
    if len(same) >= most and not any(each.n > same[-most] and _may_mend(held, each) for each in steps):
        raise OperationFailed(f"the same call failed {most} times already and is not tried again")
    if not tool.draft and (why := await held.world.admitted(tool)):
        raise OperationFailed(why)


def _may_mend(held: Held, step: Step) -> bool:
    """Whether a step ended well and may have changed what a call fails by: the next one is another try."""
    if step.state != "done":
        return False
    tool = held.world.catalogue.tools.get(step.tool)
    return tool is None or tool.guided or bool(CHANGING & effects_of(tool))


def effects_of(tool: Tool) -> set[str]:
    """What a call may do: what it says, and of a program beside its pattern that it is one."""
    return {*tool.effects, *(["shell"] if tool.scheme == "command" else [])}


def ungranted(world: World, tool: Tool, args: Mapping[str, Any]) -> tuple[list[str], list[Danger]]:
    """The effects and dangers of a call that nobody approved of in advance: `yes` covers no serious one."""
    guarded, dangers = _wanting(world, tool, args)
    return ([], _serious(dangers)) if world.policy.yes else (guarded, dangers)


def _serious(dangers: Iterable[Danger]) -> list[Danger]:
    return [danger for danger in dangers if danger.severity == "serious"]


def _wanting(world: World, tool: Tool, args: Mapping[str, Any]) -> tuple[list[str], list[Danger]]:
    """The effects and dangers of a call that want an approval, whoever gives it."""
    guarded = [effect for effect in world.policy.approve if effect in effects_of(tool)]
    return guarded, [*world.guard(tool, args), *_not_kept(world, tool, args)]


def large_named(world: World, tool: Tool, args: Mapping[str, Any]) -> list[Path]:
    """The files too large to be kept that a call names and may change; it finds all others read-only."""
    large = world.snapshots.large if world.snapshots and CHANGING & effects_of(tool) else ()
    if not large:
        return []
    said = to_json(dict(args))
    return [path for path in large if path.name in said]


def _not_kept(world: World, tool: Tool, args: Mapping[str, Any]) -> list[Danger]:
    """A danger for a call that names files that are too large to be kept."""
    named = [world.shown(path) for path in large_named(world, tool, args)]
    why = f"{', '.join(named[:3])}: too large to be kept, so `fractal undo` cannot bring it back"
    return [Danger("not kept", "danger", why)] if named else []


def shown(tool: Tool, args: Mapping[str, Any]) -> str:
    """A call as a question shows it."""
    return _short(f"{tool.name} {to_json(dict(args))}")


def call_of(tool: Tool, args: Mapping[str, Any], results: Mapping[int, str]) -> str:
    """The digest of what a person approves of: a call, its arguments, and the results that it is given."""
    given = {str(n): text for n, text in sorted(results.items())}
    return fingerprint([tool.name, dict(args), given])


def approval(
    held: Held, step: Step, tool: Tool, args: Mapping[str, Any], results: Mapping[int, str] | None = None
) -> tuple[Step, str]:
    """The step, and what a person has to approve of before this call, "" when nothing.

    The step says who has approved, or that it waits. An approval is for one call with these arguments and
    results. Where they are others now, it is asked for anew.
    """
    guarded, dangers = _wanting(held.world, tool, args)
    call = call_of(tool, args, results or {})
    if not (guarded or dangers) or (step.evidence.get("approved") and step.evidence.get("call") == call):
        return step, ""
    if held.world.policy.yes:
        guarded, dangers = [], _serious(dangers)
        if not dangers:
            return replace(step, evidence={**step.evidence, "approved": str(YES), "call": call}), ""
    told: dict[str, Any] = {key: value for key, value in step.evidence.items() if key != "approved"}
    told |= {"approval": guarded} if guarded else {}
    told |= {"dangers": [str(danger) for danger in dangers]} if dangers else {}
    waiting = replace(step, state="waiting", evidence={**told, "call": call})
    held.put(waiting)
    asked = shown(tool, args)
    may = f"may {' and '.join(guarded)}: {asked}" if guarded else asked
    with_results = [f"- with RESULT_{n} = {_short(to_json(text))}" for n, text in (results or {}).items()]
    return waiting, "\n".join([f"step {step.n} {may}", *with_results, *(f"- {each}" for each in dangers)])


def foreseen(held: Held) -> list[tuple[Step, Tool, list[Danger]]]:
    """The steps of the plan that are not begun and have whole arguments: filled in, with their dangers."""
    found: list[tuple[Step, Tool, list[Danger]]] = []
    for n, planned in held.doc.planned.items():
        step = held.doc.steps.get(n, planned)
        tool = held.world.catalogue.tools.get(step.tool)
        if step.state not in ("planned", "waiting") or step.evidence.get("approved") or step.args is None:
            continue
        if tool is None or tool.guided or references(step.args) or problem_in(step.args):
            continue
        args = dict(step.args) if step.state == "waiting" else tool.typed(substitute(step.args, {}))
        _, dangers = ungranted(held.world, tool, args)
        if dangers and not tool.problem(args, filled=True):
            found.append((replace(step, args=args), tool, dangers))
    return found


def told(held: Held) -> str:
    """The dangers of the plan that are known before it begins, a line each; "" when there are none."""
    return "\n".join(
        f"step {step.n} ({tool.name}): {each}" for step, tool, dangers in foreseen(held) for each in dangers
    )


def ask_first(held: Held) -> str:
    """What a person has to approve of before the plan begins: its serious steps; "" when there are none."""
    steps = held.doc.steps
    if any(n in steps and steps[n].state not in ("planned", "waiting") for n in held.doc.planned):
        return ""  # it has begun; each further step is asked for when it comes
    serious = [(step, tool) for step, tool, dangers in foreseen(held) if _serious(dangers)]
    return "\n".join(approval(held, step, tool, dict(step.args or {}))[1] for step, tool in serious)


def _short(text: str) -> str:
    """A text as a question shows it; the mark of a cut one tells it from any other."""
    redacted = redact_forms(text)
    if len(redacted) <= SHOWN_CHARS:
        return redacted
    return f"{redacted[:SHOWN_CHARS]}… [{len(text)} characters, {fingerprint(text)[:8]}]"
