"""Runs that memory has yet to take in: an empty file `noted/RUN` each, for which a run loads nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kernel import disk

FOLDER = "noted"
TAKING = ".taking"
"""Behind the name of a run that is being taken in."""
RUN = re.compile(r"[a-z0-9]{4,12}")


def note(memory: Path, run: str) -> None:
    """Remember to take a run in."""
    folder = memory / FOLDER
    with disk.of_the_state(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(folder / run, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def waiting(memory: Path) -> list[str]:
    """The runs that were noted and not taken in."""
    folder = memory / FOLDER
    names = [path.name.removesuffix(TAKING) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted({name for name in names if RUN.fullmatch(name)})
