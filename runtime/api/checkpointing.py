"""Checkpoints of a workspace's memory: made on demand, before dreams and every few hours; restored."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from kernel.errors import FractalError, UsageError
from runtime import found_files
from runtime.workspace.workspace import POSTGRES, is_locked

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal
    from runtime.memory.checkpoints import Checkpoint
    from runtime.memory.store.moving import Moved

KEPT = 5
"""Checkpoints that are kept where the setting says that none are made by themselves."""


def listed(fractal: Fractal) -> list[Checkpoint]:
    """The checkpoints of this memory, the oldest first."""
    from runtime.memory.checkpoints import all_of

    return all_of(fractal.memory.folder)


def make(fractal: Fractal, why: str) -> Checkpoint:
    """Copy the memory to `state/checkpoints/`. Raises `UsageError` if nothing is remembered."""
    from runtime.memory.checkpoints import make

    memory = fractal.memory
    if not memory.there:
        raise UsageError("nothing is remembered here yet, so there is nothing to copy")
    return make(memory.brain, memory.clock(), why, fractal.config.checkpoints or KEPT)


def make_if_due(fractal: Fractal, why: str) -> Checkpoint | None:
    """The same, if the settings want checkpoints and memory has changed since the last one."""
    if not (fractal.config.checkpoints and fractal.memory.there and _has_changed(fractal)):
        return None
    return make(fractal, why)


def _has_changed(fractal: Fractal) -> bool:
    memory, made = fractal.memory, listed(fractal)
    if not made or memory.config.store.startswith(POSTGRES):  # no file says what has changed there
        return True
    files = (f"{place}/{name}" for place, _, names in os.walk(memory.folder) for name in names)
    versions = (found_files.version(path) for path in files if not path.endswith(("-shm", ".lock")))
    since = made[-1].path.stat().st_mtime_ns
    return any(each and each[0] > since for each in versions)


def restore(fractal: Fractal, name: str) -> tuple[Checkpoint, Moved, int]:
    """Make the memory what it was at a checkpoint, after a checkpoint of what it is now.

    Returns that one, what changed, and how many records were removed. Raises `UsageError` while a run or a
    dream is at work.
    """
    from runtime.memory import checkpoints

    memory = fractal.memory
    wanted = checkpoints.find(memory.folder, name)
    runs = fractal.workspace.runs
    if busy := [each.name for each in runs.iterdir() if is_locked(each)] if runs.is_dir() else []:
        raise UsageError(
            f"runs are at work ({', '.join(busy[:3])}); wait for them or cancel them, then retry"
        )
    memory.dreamer.hold("restore")
    try:
        why = f"before {wanted.name} was restored"
        kept = len(listed(fractal)) + 1  # or the wanted one could be removed
        now = checkpoints.make(memory.brain, memory.clock(), why, kept)
        return (now, *checkpoints.restore(memory.brain, wanted))
    finally:
        memory.dreamer.release("restore")


async def keep_making(fractal: Fractal) -> None:
    """Make a checkpoint every few hours, as the settings say, until cancelled."""
    while fractal.config.checkpoint_hours:
        await asyncio.sleep(fractal.config.checkpoint_hours * 3600)
        try:
            await asyncio.to_thread(make_if_due, fractal, "by time")
        except FractalError as error:
            logging.getLogger(__name__).warning("no checkpoint was made: %s", error)
