"""Dreams of a workspace: each is a run of its own, with one step for each stage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from kernel.asking.responder import Ladder, Usage
from kernel.document.model import ENDED, root_id
from kernel.errors import Exit, FractalError, OperationFailed, UsageError
from kernel.loop.budget import Amount
from kernel.store.call_log import ReplyLog
from kernel.tools.operations import Result
from runtime.api import checkpointing
from runtime.api.spans import moment
from runtime.memory.prompting import Asking
from runtime.reflexes.dreaming import KIND, Order
from runtime.workspace.runs import RunResult
from runtime.workspace.workspace import is_locked

if TYPE_CHECKING:
    from pathlib import Path

    from kernel.loop.hooks import FolderChanges
    from kernel.loop.run_context import RunContext
    from runtime.api.fractal import Fractal
    from runtime.memory.dream.archive import UndoResult
    from runtime.memory.dream.dreamer import RehearsedStage
    from runtime.memory.dream.stages import StageRecord

LONGEST = 6 * 3600.0
"""Seconds of a dream, at least; the setting `seconds` limits other runs."""
CHECKS = 1
"""Calls of a run that a dream within it leaves, for CHECK."""


def ladder_of(fractal: Fractal) -> Ladder:
    """The ladder of a dream: memory alone, which plans it."""
    from runtime.reflexes.recalled import Recalled

    return Ladder((Recalled(fractal.memory, checked=False),))


async def dream(
    fractal: Fractal, order: Order, *, id: str = "", within: str = "", limits: Mapping[str, Any] | None = None
) -> RunResult:
    """A dream, as a run of its own, or with an `id` and `limits` within another one.

    Raises `UsageError` if another one is running.
    """
    from runtime.memory.dream.stages import chosen

    chosen(order.phases, order.without)  # raises for a wrong name, before anything is written
    if KIND not in fractal.catalogue().tools:
        raise UsageError(
            f"there is no tool {KIND} in {fractal.systems[0]}; a workspace made without --bare has it"
        )
    dreamer = fractal.memory.dreamer
    dreamer.hold("a dream that begins")
    dreamer.release()
    checkpointing.make_if_due(fractal, "before a dream")
    try:
        dreaming = _with_time_limit(fractal, **(limits or {}))
        return await dreaming.run(order.task, tool=KIND, yes=True, id=id, within=within)
    finally:
        dreamer.release()


async def resume(fractal: Fractal, run: str) -> RunResult:
    """Resume a dream that was interrupted."""
    try:
        return await _with_time_limit(fractal).resume(run, yes=True)
    finally:
        fractal.memory.dreamer.release()


def _with_time_limit(fractal: Fractal, **limits: Any) -> Fractal:
    """The same workspace and memory, with enough time for a large memory."""
    dreamer = fractal.anew(seconds=max(fractal.config.seconds, LONGEST), **limits)
    dreamer.__dict__["memory"] = fractal.memory
    return dreamer


def rehearse(fractal: Fractal, order: Order) -> list[RehearsedStage]:
    """What a dream would do; nothing changes."""
    from runtime.memory.dream.stages import chosen

    stages = chosen(order.phases, order.without)
    return fractal.memory.dreamer.rehearse(stages, order.since)


def undo(fractal: Fractal) -> UndoResult:
    """Undo the last dream."""
    return fractal.memory.dreamer.undo()


def at_work(fractal: Fractal) -> list[str]:
    """The runs that are in progress."""
    runs = fractal.workspace.runs
    folders = sorted(runs.iterdir()) if runs.is_dir() else []
    return [folder.name for folder in folders if folder.is_dir() and is_locked(folder)]


def unfinished(fractal: Fractal) -> str:
    """The newest dream if it was interrupted, else ""."""
    dreams = (each for each in fractal.runs() if each.type == KIND)
    newest = next(dreams, None)
    return newest.run if newest and newest.status not in ENDED | {"broken"} else ""


def done(fractal: Fractal, id: str) -> dict[str, StageRecord]:
    """What each stage of a dream did, in order."""
    from runtime.memory.dream.stages import DreamRecord

    record = fractal.brain.shelf.get(DreamRecord, id)
    return record.stages if record else {}


def dreamed(
    fractal: Fractal, criterion: Mapping[str, Any], _folder: Path, _since: FolderChanges | None
) -> tuple[bool, str]:
    """The check of the criterion `dreamed`: whether memory has the record of a dream's stage."""
    stages = done(fractal, str(criterion["dream"])) if fractal.memory.there else {}
    return criterion["stage"] in stages, f"{len(stages)} stages are done"


async def act(fractal: Fractal, run_context: RunContext | None, args: Mapping[str, Any]) -> Result:
    """A call of the tool: one stage in a dream's own loop; elsewhere a whole dream, or a rehearsal."""
    if args.get("stage") and run_context:
        return await _stage(fractal, run_context, str(args["stage"]), args)
    now = fractal.memory.clock()
    phase, since = args.get("phase"), args.get("since")
    without = tuple(each.strip() for each in str(args.get("without") or "").split(",") if each.strip())
    order = Order((str(phase),) if phase else (), moment(str(since), now) if since else "", without)
    if args.get("dry_run"):
        return Result(rehearsed(await asyncio.to_thread(rehearse, fractal, order)))
    result = await (_dream_within(fractal, run_context, order) if run_context else dream(fractal, order))
    return Result(f"{result.output or result.reason}\n(dream {result.run})", result.exit == Exit.ACCEPTED)


async def _dream_within(fractal: Fractal, run_context: RunContext, order: Order) -> RunResult:
    """A dream on what is left of a run's budget, which is charged what the dream has cost."""
    left = run_context.limit - Amount.of(run_context.log.spent())
    limits = {
        "calls": left.calls - CHECKS,
        "tokens": left.tokens,
        "usd": None if left.usd == inf else left.usd,
    }
    if left.calls <= CHECKS or left.tokens <= 0:
        raise OperationFailed("a dream needs a part of the run's budget, and nothing is left of it")
    id = fractal.workspace.new_run()
    try:
        return await dream(fractal, order, id=id, within=run_context.id, limits=limits)
    finally:
        cost = ReplyLog(fractal.workspace.runs / id / "calls.jsonl").spent()
        used = Usage(cost.prompt_tokens, cost.completion_tokens, cost.usd, cost.calls)
        run_context.log.acted(f"{root_id(run_context.id)}/0/{KIND}/0/0/-", f"{KIND} {id}", used)


async def _stage(fractal: Fractal, run_context: RunContext, stage: str, args: Mapping[str, Any]) -> Result:
    """One stage; if it fails it changes nothing, and the next ones still run."""
    id = str(args.get("dream") or "")
    if not id:
        raise UsageError("a stage belongs to a dream; leave `stage` out to start one")
    dreamer = fractal.memory.dreamer
    dreamer.asking = asking(fractal, run_context, id)
    try:
        result = await asyncio.to_thread(dreamer.do, id, stage, str(args.get("since") or ""))
    except UsageError:
        raise
    except Exception as error:  # a bug in one stage must not stop the others
        message = str(error) if isinstance(error, FractalError) else f"{type(error).__name__}: {error}"
        return Result(f"failed, and nothing of it is kept: {message}", True, {"failed": True})
    evidence = {"rows and files": result.changed, "form": result.form, "seconds": result.seconds}
    return Result(shown(result), True, evidence | ({"asked": result.asked} if result.asked else {}))


def asking(fractal: Fractal, run_context: RunContext, id: str) -> Asking | None:
    """Asks the configured models, at the cost of the dream's own run; None if there are none."""
    try:
        rungs = list(fractal.ladder)
    except FractalError:
        return None
    found = Asking(
        rungs,
        fractal.systems,
        run_context.log,
        run_context.bounds,
        id,
        keep_prompt=partial(run_context.hooks.keep_prompt, run_context),
    )
    return found or None


def summary(result: StageRecord) -> str:
    """A stage in one line."""
    counts = ", ".join(f"{_number(value)} {name}" for name, value in result.counts.items() if value)
    if not counts:
        return "nothing to do"
    return counts + {"extractive": " (without a model)", "model": " (by a model)"}.get(result.form, "")


def shown(result: StageRecord) -> str:
    """A stage as the result of its step."""
    lines = [summary(result), *(f"- {each}" for each in result.did)]
    lines += [f"- no model was used: {each}" for each in result.trouble]
    if result.asked:
        lines.append("- asked: " + ", ".join(f"{value} {name}" for name, value in result.asked.items()))
    return "\n".join(lines)


def rehearsed(stages: Sequence[RehearsedStage]) -> str:
    """A rehearsal, stage by stage."""
    lines: list[str] = []
    for stage in stages:
        lines += [f"{stage.stage.name}: {summary(stage.done)}", *(f"- {line}" for line in stage.done.did)]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
