"""Builds the kernel's world of one run from the settings: its store, sandbox, tools, guard and clock."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.drafts import Drafts
from kernel.engine import Clock
from kernel.replies import ReplyLog
from kernel.responder import Ladder
from kernel.sandbox import Sandbox
from kernel.screening import redactor, value_redactor
from kernel.store import FileStore
from kernel.world import World
from runtime.mcp.servers import Servers
from runtime.nervous.guard import Guard
from runtime.remembering.tools import runner

if TYPE_CHECKING:
    from runtime.fractal import Fractal


def world_of(
    fractal: Fractal,
    run: str,
    ladder: Ladder,
    *,
    earlier: float = 0.0,
    seconds: float | None = None,
) -> tuple[World, Clock, Servers]:
    """The world of a run, its clock, and the MCP servers of its tools.

    `earlier`: seconds of activity before this session. `seconds`: the limit, else that of the settings.
    """
    config, workspace = fractal.config, fractal.workspace
    folder = workspace.runs / run
    clock = Clock(earlier)
    servers = Servers(workspace, lambda message: fractal.warn(run, message))
    bounds = replace(config.bounds(), **({} if seconds is None else {"seconds": seconds}))
    world = World(
        run,
        workspace.folder,
        FileStore(folder, fsync=config.fsync),
        ReplyLog(folder / "calls.jsonl", fsync=config.fsync),
        fractal.catalogue(folder / "drafts", servers.tools),
        ladder,
        Sandbox(config.sandbox, config.network, config.limits()),
        folder / "artifacts",
        bounds,
        config.policy(),
        workspace.protected,
        workspace.private,
        Drafts(folder / "drafts", fractal.systems),
        listener=fractal.listener,
        redact=redactor(os.environ),
        redact_values=value_redactor(os.environ),
        seconds=clock.seconds,
        patient=clock.patient,
    )
    world.runners = {"mcp": servers.run, "memory": runner(fractal, world)}
    world.known = fractal.memory.known
    move_to(fractal, world, workspace.folder)
    left = bounds.seconds - earlier
    world.deadline = (datetime.now(UTC) + timedelta(seconds=max(left, 0))).isoformat(timespec="seconds")
    return world, clock, servers


def move_to(fractal: Fractal, world: World, folder: Path) -> None:
    """Let the run act in `folder`: its snapshots and danger rules are about that folder.

    The rules take into account what the sandbox holds and what undo can bring back.
    """
    config = fractal.config
    snapshots = fractal.snapshots(folder)
    world.folder, world.snapshots = folder, snapshots
    world.guard = Guard(
        fractal.workspace.systems,
        folder,
        fractal.workspace.protected,
        undoable=lambda: not snapshots.why_not(),
        enclosed=config.sandbox != "off" and not config.network,
    )
