"""Where a workspace's memory lies: told without loading what opens it."""

from __future__ import annotations

from pathlib import Path

_NAMES = {"sqlite": "brain.sqlite3", "files": "brain"}


def brain_place(store: str, folder: Path) -> Path:
    """The file or folder of a store in `folder`; the one that lies in memory alone is never there."""
    return folder / _NAMES.get(store, "-")
