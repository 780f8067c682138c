"""Putting old runs away."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.escaping import to_json
from kernel.document.model import ENDED
from kernel.errors import ConfigurationError, RunLocked, UsageError
from runtime.workspace.runs import RunSummary
from runtime.workspace.workspace import moment, run_lock

FIGURES = "figures.jsonl"
"""The file in `state/archive/` with a line for each archived run: what is counted of it."""


def put_away(state: Path, runs: Iterable[RunSummary], keep_days: float, *, dry_run: bool) -> list[str]:
    """Move runs that ended more than `keep_days` ago into `state/archive/`.

    Each becomes `<run>.tar.gz`; `tar -xzf` in `state/runs/` brings it back. Returns the ids.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    ended = ((each, moment(each.updated)) for each in runs if each.status in ENDED)
    old = [each for each, time in ended if time and time < before]
    if old and not dry_run:
        _note(state, old)
        old = [each for each in old if _put_away(state, each.run)]
    return [each.run for each in old]


def _note(state: Path, runs: Iterable[RunSummary]) -> None:
    """Note the figures of runs before they are put away, so that totals never fall."""
    names = ("run", "status", "type", "spent")
    lines = [to_json({name: getattr(each, name) for name in names}) + "\n" for each in runs]
    path = state / "archive" / FIGURES
    with disk.writing_state(path):
        path.parent.mkdir(exist_ok=True)
        disk.append(path, "".join(lines).encode(), make=True)


def figures_of_archived(state: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The figures of archived runs: run, status, type and spent; from a byte of the file, and its end.

    A run may occur twice. A line that is not complete yet is left for the next time.
    """
    path = state / "archive" / FIGURES
    if not path.is_file():
        return [], 0
    with disk.reading_state(path), path.open("rb") as file:
        file.seek(start)
        whole = file.read().rpartition(b"\n")[0]
    found: list[dict[str, Any]] = []
    for line in whole.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found, start + len(whole) + bool(whole)


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
        disk.remove_all(going)
    except (RunLocked, UsageError):
        return False
    return True
