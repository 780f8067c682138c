"""Builds the `RunContext` of a run from the settings: store, sandbox, tools, guard and clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.asking.responder import Ladder
from kernel.loop.clock import Clock
from kernel.loop.run_context import RunContext
from kernel.store.call_log import ReplyLog
from kernel.store.files import FileStore
from runtime import pinned
from runtime.api.memory_tools import runner
from runtime.api.run_hooks import RunHooks
from runtime.evolution.drafts import Drafts
from runtime.mcp.client.servers import Servers
from runtime.operations.running import caller
from runtime.safety.guard import Guard
from runtime.sandbox.context import context_of
from runtime.sandbox.hooks import hooked
from runtime.workspace.inbox import Inbox
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
) -> tuple[RunContext, Servers]:
    """The context of a run, and the MCP servers of its tools. Raises `Untrusted`.

    `earlier` is seconds of activity before this session; `seconds` is the limit (default: the setting).
    """
    fractal.refuse_untrusted(again=True)
    config, workspace = fractal.config, fractal.workspace
    folder = workspace.runs / run
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
        listener=fractal.listener,
        clock=Clock(earlier),
        inbox=Inbox(folder),
        contexts=context_of,
    )
    call = caller(mcp=servers.run, memory=runner(fractal, run_context))
    hooks = config.hooks_of_run()
    run_context.call = hooked(call, hooks, run, run_context.warn) if hooks else call
    move_to(fractal, run_context, workspace.folder)
    rest = bounds.seconds - earlier
    run_context.deadline = (datetime.now(UTC) + timedelta(seconds=max(rest, 0))).isoformat(timespec="seconds")
    return run_context, servers


def move_to(fractal: Fractal, run_context: RunContext, folder: Path, made: Worktree | None = None) -> None:
    """Let the run act in `folder`, which may be a worktree, with snapshots and danger rules for it.

    The rules depend on what the sandbox prevents and what undo can restore.
    """
    config = fractal.config
    fractal.refuse_other_hooks(folder, made.of if made else folder)
    snapshots = made.snapshots(fractal.workspace) if made else fractal.snapshots(folder)
    run_context.folder, run_context.snapshots = folder, snapshots
    if made:
        skills = [each for each in run_context.protected if each not in fractal.workspace.protected]
        run_context.protected = (*made.protected(fractal.workspace), *skills)
        run_context.places = made.repository
    run_context.protected = (*run_context.protected, *config.hooks_of_run().files(folder.resolve()))
    guard = Guard(
        fractal.workspace.systems,
        folder,
        run_context.protected,
        undoable=lambda: not snapshots.why_not(),
        enclosed=config.sandbox != "off" and not config.network,
    )
    run_context.hooks = RunHooks(fractal, guard)
