"""Putting old runs away."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kernel.document.model import ENDED
from kernel.errors import ConfigurationError, RunLocked, UsageError
from runtime.workspace.workspace import moment, run_lock


def put_away(
    state: Path, runs: Iterable[tuple[str, str, str]], keep_days: float, *, dry_run: bool
) -> list[str]:
    """Move runs (id, status, updated) that ended more than `keep_days` ago into `state/archive/`.

    Each becomes `<run>.tar.gz`; `tar -xzf` in `state/runs/` brings it back. Returns the ids.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    ended = ((run, moment(updated)) for run, status, updated in runs if status in ENDED)
    old = [run for run, time in ended if time and time < before]
    if not dry_run:
        old = [run for run in old if _put_away(state, run)]
    return old


def _put_away(state: Path, run: str) -> bool:
    """Whether this process put the run away: another may be at it, or have done so already."""
    folder = state / "runs" / run
    archive = state / "archive"
    archive.mkdir(exist_ok=True)
    try:
        with run_lock(folder):
            target = archive / f"{run}.tar.gz"
            part = target.with_suffix(".part")
            if target.exists():
                raise ConfigurationError(f"{target} exists already; move it, then try again")
            with tarfile.open(part, "w:gz") as tar:
                tar.add(folder, run)
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
            part.rename(target)
            going = archive / f".{run}.removed"
            folder.rename(going)  # atomic: a concurrent reader finds the complete run or nothing
        shutil.rmtree(going)
    except (RunLocked, UsageError):
        return False
    return True
