"""Builds the `RunContext` of a run from the settings: store, sandbox, tools, guard and clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.asking.responder import Ladder
from kernel.loop.engine import Clock
from kernel.loop.run_context import RunContext, Session, Trial, Trials
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from runtime import pinned
from runtime.api.dreaming import dreamed
from runtime.api.knowledge import remembered
from runtime.api.memory_tools import runner
from runtime.evolution.drafts import Drafts
from runtime.evolution.sample_tests import drafted, trials
from runtime.mcp.client.servers import Servers
from runtime.models.micro.checks import CHECKS
from runtime.proving.proof import prove
from runtime.safety.guard import Guard
from runtime.text.demand import demand
from runtime.text.grounding import grounded
from runtime.text.json_reader import read_reply
from runtime.workspace.offered_context import listing, offered_context, understood
from runtime.workspace.prompts import keep_prompt
from runtime.workspace.standing import hold
from runtime.workspace.worktrees import Worktree

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal


def run_context_of(
    fractal: Fractal,
    run: str,
    ladder: Ladder,
    *,
    earlier: float = 0.0,
    seconds: float | None = None,
) -> tuple[RunContext, Clock, Servers]:
    """The context of a run, its clock, and the MCP servers of its tools. Raises `Untrusted`.

    `earlier` is seconds of activity before this session; `seconds` is the limit (default: the setting).
    """
    fractal.refuse_untrusted(again=True)
    config, workspace = fractal.config, fractal.workspace
    folder = workspace.runs / run
    clock = Clock(earlier)
    servers = fractal.servers(lambda message: fractal.warn(run, message))
    bounds = replace(config.bounds(), **({} if seconds is None else {"seconds": seconds}))
    with pinned.held(fractal.pins):  # `catalogue` adds the skills that it finds
        catalogue = fractal.catalogue(folder / "drafts", servers.tools)
    own = tuple(each.resolve() for each in catalogue.skills)  # their instructions are read in this run
    ladder = replace(ladder, oversees_itself=config.review in ("risky", "always"))
    if any(rung.tier == "oversight" for rung in ladder):
        catalogue.always = (*catalogue.always, "escalate")
    elif config.discovery == "open" and not ladder.oversight:
        catalogue.offers = lambda tool: not tool.oversight
    run_context = RunContext(
        run,
        workspace.folder,
        FileStore(folder, fsync=config.fsync),
        ReplyLog(folder / "calls.jsonl", fsync=config.fsync),
        catalogue,
        ladder,
        servers.sandbox,
        folder / "artifacts",
        bounds,
        config.policy(),
        (*workspace.protected, *own),
        workspace.private,
        Drafts(folder / "drafts", fractal.systems),
        parse=read_reply,
        listener=fractal.listener,
        seconds=clock.seconds,
        patient=clock.patient,
    )
    if config.keep_prompts:
        run_context.keep_prompt = partial(keep_prompt, folder)
    run_context.runners = {"mcp": servers.run, "memory": runner(fractal, run_context)}
    run_context.offered = partial(offered_context, run_context, fractal.notes_for, fractal.guidance)
    run_context.listing = lambda: listing(run_context.folder, run_context.protected)
    run_context.understand = partial(understood, run_context)
    run_context.prove = prove
    run_context.review = fractal.why_review
    run_context.hidden = partial(fractal.hidden, run_context)
    run_context.guide = partial(fractal.guide, run_context)
    run_context.taught = partial(fractal.taught, run_context)
    run_context.checks = {
        **CHECKS,
        "remembered": partial(remembered, fractal),
        "dreamed": partial(dreamed, fractal),
    }
    run_context.demand = partial(demand, systems=fractal.systems)
    run_context.grounded = grounded
    hold(run_context)
    move_to(fractal, run_context, workspace.folder)
    rest = bounds.seconds - earlier
    run_context.deadline = (datetime.now(UTC) + timedelta(seconds=max(rest, 0))).isoformat(timespec="seconds")
    return run_context, clock, servers


async def _trials(fractal: Fractal, trials: Trials, session: Session) -> Sequence[Trial]:
    """The trials of a loop's drafts; those of a design that a worker has requested are a round of it."""
    designs = session.doc.meta.type == "request-design"
    known = fractal.config.remember and (designs or (session.root and fractal.messages_folder.is_dir()))
    if not known or not drafted(session):
        return await trials(session)
    from runtime.nervous import design

    if designs:
        return await design.tested(fractal.nerves.messages, fractal.config.agent, session, trials)
    return await design.left(fractal.nerves.messages, session, trials)


def move_to(fractal: Fractal, run_context: RunContext, folder: Path, made: Worktree | None = None) -> None:
    """Let the run act in `folder`, which may be a worktree, with snapshots and danger rules for it.

    The rules depend on what the sandbox prevents and what undo can restore.
    """
    config = fractal.config
    snapshots = made.snapshots(fractal.workspace) if made else fractal.snapshots(folder)
    run_context.folder, run_context.snapshots = folder, snapshots
    if made:
        skills = [each for each in run_context.protected if each not in fractal.workspace.protected]
        run_context.protected = (*made.protected(fractal.workspace), *skills)
        run_context.places = made.repository
    run_context.guard = guard = Guard(
        fractal.workspace.systems,
        folder,
        run_context.protected,
        undoable=lambda: not snapshots.why_not(),
        enclosed=config.sandbox != "off" and not config.network,
    )
    run_context.kind = guard.kind
    run_context.trials = partial(_trials, fractal, partial(trials, guard.program, guard.connects))
