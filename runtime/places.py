"""Where a workspace's memory lies and the user's own files, told without loading what opens them."""

from __future__ import annotations

import os
from pathlib import Path

_NAMES = {"sqlite": "brain.sqlite3", "files": "brain"}


DEFAULT = "default"
"""The agent and the space of who names none."""


def space_of(state: Path, space: str) -> Path:
    """The folder of a space's memory."""
    return state / "memory" if space == DEFAULT else state / "spaces" / space / "memory"


def state_of(memory: Path) -> Path:
    """The folder `state` that a space's memory lies in."""
    above = memory.parent
    return above.parent.parent if above.parent.name == "spaces" else above


def brain_place(store: str, folder: Path) -> Path:
    """The file or folder of a store in `folder`; the one that lies in memory alone is never there."""
    return folder / _NAMES.get(store, "-")


def user_folder() -> Path:
    """The folder of the user's own files (XDG)."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "fractal"
