"""Runs that memory has yet to take in: an empty file `noted/RUN` each, for which a run loads nothing.

`noted/RUN.untaught` is a run whose solved tasks could not be kept when it ended.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kernel import disk

FOLDER = "noted"
TAKING = ".taking"
"""Behind the name of a run that is being taken in."""
UNTAUGHT = ".untaught"
RUN = re.compile(r"[a-z0-9]{4,12}")


def note(memory: Path, run: str) -> None:
    """Remember to take a run in."""
    _touch(memory / FOLDER, run)


def put_off(memory: Path, run: str) -> None:
    """Remember to keep what a run solved, when the store can be written again."""
    _touch(memory / FOLDER, f"{run}{UNTAUGHT}")


def taught(memory: Path, run: str) -> None:
    """What it solved is kept, or there is nothing any more."""
    (memory / FOLDER / f"{run}{UNTAUGHT}").unlink(missing_ok=True)


def forget(memory: Path, run: str) -> None:
    """Nothing is to be done for a run any more."""
    for ending in ("", TAKING, UNTAUGHT):
        (memory / FOLDER / f"{run}{ending}").unlink(missing_ok=True)


def _touch(folder: Path, name: str) -> None:
    with disk.of_the_state(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def waiting(memory: Path) -> list[str]:
    """The runs that were noted and not taken in."""
    return _runs(memory, TAKING, "")


def untaught(memory: Path) -> list[str]:
    """The runs that were put off."""
    return _runs(memory, UNTAUGHT)


def _runs(memory: Path, *endings: str) -> list[str]:
    folder = memory / FOLDER
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    cut = {name.removesuffix(end) for end in endings for name in found if name.endswith(end)}
    return sorted(name for name in cut if RUN.fullmatch(name))
