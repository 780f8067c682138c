"""What is known of files unread: which version of one is there, and which folders are skipped."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SKIPPED = frozenset(
    {".git", ".fractal", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".nox", ".cache"}
    | {".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis", ".ipynb_checkpoints"}
)
"""Folders that snapshots, listings and searches skip: histories, caches, installed packages."""


def version(path: Path | str) -> tuple[int, int] | None:
    """Modification time in ns and size of a file, as a cache key; None if there is no file."""
    try:
        info = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return (info.st_mtime_ns, info.st_size) if stat.S_ISREG(info.st_mode) else None
