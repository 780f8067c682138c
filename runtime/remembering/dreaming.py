"""Dreams of a workspace: started as a run of their own, done stage by stage by the steps of its loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kernel.document import ENDED
from kernel.errors import Exit, FractalError, UsageError
from kernel.operations import OperationContext, Result
from kernel.responder import Ladder
from kernel.workspace import is_locked
from runtime.memory.prompting import Asking
from runtime.responders.dreaming import KIND, Order
from runtime.results import RunResult

if TYPE_CHECKING:
    from kernel.world import World
    from runtime.fractal import Fractal
    from runtime.memory.dream.dreamer import Rehearsed
    from runtime.memory.dream.record import Done
    from runtime.memory.dream.undoing import Undone

LONGEST = 6 * 3600.0
"""Seconds that a dream may take; a run is limited by the setting `seconds`."""
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """A span such as `5m`, `90s`, `2h`, `3d`. Raises `UsageError`."""
    hit = _AGO.fullmatch(text.strip())
    if not hit or not float(hit[1]):
        raise UsageError(f"{text!r} is no span of time; such as 90s, 5m, 2h or 3d")
    return float(hit[1]) * _SECONDS[hit[2]]


def moment(text: str, now: datetime) -> str:
    """A date, a time, or a span before now, as ISO 8601. Raises `UsageError`."""
    if _AGO.fullmatch(text.strip()):
        return (now - timedelta(seconds=seconds(text))).isoformat(timespec="seconds")
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is no date and no time; such as 2026-11-20, or 3d for 3 days ago"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat(timespec="seconds")


def ladder_of(fractal: Fractal) -> Ladder:
    """The ladder of a dream's own loop: nothing but what plans it."""
    from runtime.responders.recalled import Recalled

    return Ladder((Recalled(fractal.memory, checked=False),))


async def dream(fractal: Fractal, order: Order) -> RunResult:
    """A dream, as a run of its own. Raises `UsageError` where another one is at work."""
    from runtime.memory.dream.stages import chosen

    chosen(order.phases, order.without)  # a wrong name is told before anything is written
    if KIND not in fractal.catalogue().tools:
        raise UsageError(f"there is no tool {KIND} in {fractal.systems[0]}; one made without --bare has it")
    dreamer = fractal.memory.dreamer
    dreamer.hold("a dream that begins")
    dreamer.let_go()
    try:
        return await _asleep(fractal).run(order.task, tool=KIND, yes=True)
    finally:
        dreamer.let_go()


async def resume(fractal: Fractal, run: str) -> RunResult:
    """Go on with a dream that was cut short."""
    try:
        return await _asleep(fractal).resume(run, yes=True)
    finally:
        fractal.memory.dreamer.let_go()


def _asleep(fractal: Fractal) -> Fractal:
    """Another one over the same memory, with the time that a large memory takes."""
    other = fractal.anew(seconds=max(fractal.config.seconds, LONGEST))
    other.__dict__["memory"] = fractal.memory
    return other


def rehearse(fractal: Fractal, order: Order) -> list[Rehearsed]:
    """What a dream would do; nothing is changed."""
    from runtime.memory.dream.stages import chosen

    stages = chosen(order.phases, order.without)
    return fractal.memory.dreamer.rehearse(stages, order.since)


def undo(fractal: Fractal) -> Undone:
    """Take back the last dream."""
    from runtime.memory.dream.undoing import undo

    return undo(fractal.memory.dreamer)


def at_work(fractal: Fractal) -> list[str]:
    """The runs that a process works on now."""
    runs = fractal.workspace.runs
    folders = sorted(runs.iterdir()) if runs.is_dir() else []
    return [folder.name for folder in folders if folder.is_dir() and is_locked(folder)]


def unfinished(fractal: Fractal) -> str:
    """The newest dream that was cut short; "" where there is none."""
    found = (each for each in fractal.runs() if each.type == KIND)
    newest = next(found, None)
    return newest.run if newest and newest.status not in ENDED | {"broken"} else ""


def done(fractal: Fractal, id: str) -> dict[str, Done]:
    """What each stage of a dream did, in their order."""
    from runtime.memory.dream.record import Dreamt

    known = fractal.brain.shelf.get(Dreamt, id)
    return known.stages if known else {}


# ---- the tool --------------------------------------------------------------------------------------------


async def act(fractal: Fractal, world: World, context: OperationContext, args: Mapping[str, Any]) -> Result:
    """A call of the tool: one stage in a dream's own loop; in any other a whole dream, or a rehearsal."""
    if args.get("stage"):
        return await _stage(fractal, world, str(args["stage"]), args)
    now = fractal.memory.clock()
    phase, since = args.get("phase"), args.get("since")
    without = tuple(each.strip() for each in str(args.get("without") or "").split(",") if each.strip())
    order = Order((str(phase),) if phase else (), moment(str(since), now) if since else "", without)
    if args.get("dry_run"):
        return Result(rehearsed(await asyncio.to_thread(rehearse, fractal, order)))
    result = await dream(fractal, order)
    return Result(f"{result.output or result.reason}\n(dream {result.run})", result.exit == Exit.ACCEPTED)


async def _stage(fractal: Fractal, world: World, stage: str, args: Mapping[str, Any]) -> Result:
    """One stage; where it goes wrong it changes nothing, is told, and the next ones are done all the same."""
    id = str(args.get("dream") or "")
    if not id:
        raise UsageError("a stage belongs to a dream; leave `stage` out to start one")
    dreamer = fractal.memory.dreamer
    dreamer.asking = asking(fractal, world, id)
    try:
        done = await asyncio.to_thread(dreamer.do, id, stage, str(args.get("since") or ""))
    except UsageError:
        raise
    except FractalError as error:
        return Result(f"went wrong, and nothing of it is kept: {error}", True, {"failed": True})
    except Exception as error:  # a fault of one stage's code
        told = f"went wrong, and nothing of it is kept: {type(error).__name__}: {error}"
        return Result(told, True, {"failed": True})
    evidence = {"rows and files": done.changed, "form": done.form, "seconds": done.seconds}
    return Result(shown(done), True, evidence | ({"asked": done.asked} if done.asked else {}))


def asking(fractal: Fractal, world: World, id: str) -> Asking | None:
    """What asks the models of the settings, at the cost of the dream's own run; None where there is none."""
    try:
        rungs = list(fractal.ladder)
    except FractalError:
        return None
    return Asking(rungs, fractal.systems, world.log, world.bounds, id, redact=world.redact) or None


# ---- in words --------------------------------------------------------------------------------------------


def summary(done: Done) -> str:
    """A stage in a line."""
    counts = ", ".join(f"{_number(value)} {name}" for name, value in done.counts.items() if value)
    if not counts:
        return "nothing to do"
    return counts + {"extractive": " (without a model)", "model": " (by a model)"}.get(done.form, "")


def shown(done: Done) -> str:
    """A stage in the words of its step's result."""
    lines = [summary(done), *(f"- {each}" for each in done.did)]
    lines += [f"- no model's word was used: {each}" for each in done.trouble]
    if done.asked:
        lines.append("- asked: " + ", ".join(f"{value} {name}" for name, value in done.asked.items()))
    return "\n".join(lines)


def rehearsed(found: Sequence[Rehearsed]) -> str:
    """What a dream would do, stage by stage."""
    lines: list[str] = []
    for each in found:
        lines += [f"{each.stage.name}: {summary(each.done)}", *(f"- {line}" for line in each.done.did)]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
