"""Runs that memory has not indexed yet: one empty file `noted/RUN` each.

`noted/RUN.untaught` marks a run whose solved tasks could not be stored when it ended. Imports nothing of the
store, so that the end of a run stays fast.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kernel import disk

FOLDER = "noted"
TAKING = ".taking"
"""Suffix of a run that is being indexed."""
POSTPONED = ".untaught"
RUN = re.compile(r"[a-z0-9]{4,12}")


def note(memory: Path, run: str) -> None:
    """Mark a run for indexing."""
    _touch(memory / FOLDER, run)


def postpone(memory: Path, run: str) -> None:
    """Mark a run whose solved tasks must be stored later."""
    _touch(memory / FOLDER, f"{run}{POSTPONED}")


def stored(memory: Path, run: str) -> None:
    """Remove the mark of `postpone`."""
    (memory / FOLDER / f"{run}{POSTPONED}").unlink(missing_ok=True)


def forget(memory: Path, run: str) -> None:
    """Remove all marks of a run."""
    for ending in ("", TAKING, POSTPONED):
        (memory / FOLDER / f"{run}{ending}").unlink(missing_ok=True)


def _touch(folder: Path, name: str) -> None:
    with disk.writing_state(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def waiting(memory: Path) -> list[str]:
    """The runs marked for indexing."""
    return _runs(memory, TAKING, "")


def postponed(memory: Path) -> list[str]:
    """The runs marked by `postpone`."""
    return _runs(memory, POSTPONED)


def _runs(memory: Path, *endings: str) -> list[str]:
    folder = memory / FOLDER
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    runs = {name.removesuffix(end) for end in endings for name in names if name.endswith(end)}
    return sorted(name for name in runs if RUN.fullmatch(name))
