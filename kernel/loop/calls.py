"""Calls: those of a turn as steps of §2, whether one can be made, and what equal ones have come to before.

A call that cannot be made is a failed step: its fault is a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from posixpath import normpath
from typing import Any, cast

from kernel import disk
from kernel.asking.conversation import guidance_of
from kernel.asking.replies import PlanStep, in_words, step_faults
from kernel.asking.turn import SUBTASK, USE, Wanted
from kernel.document.model import Step
from kernel.document.references import references
from kernel.errors import OperationFailed
from kernel.loop.child import tasks
from kernel.loop.run_context import Session, unready
from kernel.tools.state_machine import machine_state, refusal
from kernel.tools.tool import Tool

MOST_READ = 4_000_000
"""Bytes of a file that are looked through for where an earlier edit of a turn is."""


def plan_calls(session: Session, calls: Sequence[Wanted], turn: int) -> None:
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
        call = unwrapped(wanted)
        if answered := _without_call(session, call, step):
            planned[n] = replace(answered, state="planned", result=None)
            ended.append(answered)
            continue
        tool = session.catalogue.get(call.tool) if call.tool else None
        if moved := _moved_lines(call, calls[: n - first], session.run.folder):
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


def _moved_lines(call: Wanted, before: Sequence[Wanted], folder: Path) -> str:
    """Why the numbers of lines that a call names are no longer those that were shown; "" if they are."""
    path, lines = _path(call), str(call.args.get("lines") or "")
    first = lines.partition("-")[0].strip()
    if call.tool != "edit" or not first.isdecimal():
        return ""
    for each in map(unwrapped, before):
        if each.tool in ("edit", "write") and _path(each) == path and _line_of(each, folder) <= int(first):
            moves = f"an earlier call of this turn moves the lines of {path}"
            return f"{moves}; use old, or begin with the last lines"
    return ""


def _line_of(change: Wanted, folder: Path) -> float:
    """The first line that a change moves, by the file as it is; infinity if it moves none, 0 if unknown."""
    other = str(change.args.get("lines") or "").partition("-")[0].strip()
    if other.isdecimal():
        return int(other)
    old, new = (str(change.args.get(name) or "") for name in ("old", "new"))
    if not old:
        return 0
    if old.count("\n") == new.count("\n") and old.endswith("\n") == new.endswith("\n"):
        return inf
    try:
        text = disk.read(folder / _path(change), MOST_READ).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return 0
    at = text.replace("\r\n", "\n").find(old)
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def unwrapped(wanted: Wanted) -> Wanted:
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
        return replace(step, **known, state="done", result=guidance_of(tool, catalogue))
    said = {"subtask": call.subtask} if call.subtask else {"tool": call.tool, "args": call.args}
    plain = PlanStep.model_construct(None, **said)
    faults = step_faults(plain, "this call", catalogue, not session.atomic, tasks=tasks(session))
    if call.subtask and call.tool and not catalogue.guided(call.tool):
        faults.append(f"{call.tool} is no guided tool; leave `tool` out, or call it yourself")
    if problem := unready(session, call.args):
        faults.append(problem)
    if faults:
        args = {"task": call.subtask} if call.subtask else dict(call.args)
        text = "; ".join(faults).removeprefix("this call: ")
        return replace(step, args=args, state="failed", result=f"error: {text}")
    return None


# ---- whether a call can be made, and what calls have come to ---------------------------------------------


async def check_call(session: Session, step: Step, tool: Tool, args: Mapping[str, Any]) -> None:
    """Raise `OperationFailed` for a call that cannot be made, even with approval."""
    if problem := tool.problem(args, filled=True):
        raise OperationFailed(problem)
    if tool.states:
        now = machine_state(tool.states, tool.name, session.doc.steps.values())
        if why := refusal(tool.states, now, str(args.get(tool.states.by))):
            raise OperationFailed(f"{tool.name}: {why}")
    most = session.run.bounds.same_failure
    if failures_without_change(session, replace(step, args=args)) >= most:
        raise OperationFailed(f"the same call failed {most} times already and is not tried again")
    if not tool.draft and (why := await session.run.hooks.admitted(session.run, tool)):
        raise OperationFailed(why)


def failures_without_change(session: Session, step: Step) -> int:
    """How often the same call has failed since the last step that may have removed the cause."""
    tool = session.catalogue.tools.get(step.tool)
    failed = 0
    for _, each in sorted(session.doc.steps.items(), reverse=True):
        if may_have_changed(session, each):
            break
        same = each.state == "failed" and each.tool == step.tool and each.args == step.args
        # a refusal in a state of a machine that may have changed since does not count
        failed += same and not (tool is not None and tool.states and each.origin == "kernel")
    return failed


def repeats(session: Session, step: Step) -> int:
    """How often a call has come to the same in this attempt since the last step that did something new.

    A change that comes to what the same change came to before is nothing new.
    """
    known: set[str] = set()
    seen = Counter[str]()
    for n, each in sorted(session.doc.steps.items()):
        if n <= session.doc.meta.base or not each.ended:
            continue
        if may_have_changed(session, each) and each.outcome not in known:
            seen.clear()
        known.add(each.outcome)
        seen[each.outcome] += 1
    return seen[step.outcome]


def may_have_changed(session: Session, step: Step) -> bool:
    """Whether a step succeeded and may have changed something."""
    tool = session.catalogue.tools.get(step.tool)
    return step.state == "done" and (tool is None or tool.changes(step.args))
