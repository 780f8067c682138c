"""Discovers the files of tools, operations and skills; listings of folders are cached by modification time.

Paths are strings here: creating a `Path` for each would take longer than the search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernel.tools import tool

TOOLS = ("tools", "tools/specialists")
"""The folders whose folders are tools."""
SETTLED_NS = 2_000_000_000
"""A folder that changed more recently is listed again: two changes may have the same time."""
_listed: dict[str, tuple[int, tuple[str, ...]]] = {}


def entries_of(folder: str) -> tuple[str, ...]:
    """The sorted names in a folder, cached by its modification time; () for anything else."""
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116
        cached = _listed.get(folder)
        if cached and cached[0] == changed:
            return cached[1]
        names = tuple(sorted(os.listdir(folder)))  # noqa: PTH208
    except OSError:  # no folder, or closed to us
        return ()
    if time.time_ns() - changed > SETTLED_NS:
        _listed[folder] = changed, names
    return names


def system_files(folders: Sequence[Path]) -> Iterator[str]:
    """The files of system folders; of two with the same path in them the first one's."""
    seen: set[str] = set()
    for folder in map(str, folders):
        for kind in ("kernel", "operations"):
            for name in entries_of(f"{folder}/{kind}"):
                if name.endswith(".md") and f"{kind}/{name}" not in seen:
                    seen.add(f"{kind}/{name}")
                    yield f"{folder}/{kind}/{name}"
        for place in TOOLS:
            for name in entries_of(f"{folder}/{place}"):
                if name[0] == "." or f"{place}/{name}" in seen:
                    continue
                if file := _pattern(f"{folder}/{place}/{name}"):
                    seen.add(f"{place}/{name}")
                    yield file


def _pattern(folder: str) -> str:
    names = entries_of(folder)
    if "pattern.md" in names:
        return f"{folder}/pattern.md"
    name = tool.skill_in(names)
    return f"{folder}/{name}" if name else ""


def skill_files(folder: str) -> list[str]:
    """The skills of a folder, with the listings that are kept here."""
    return tool.skill_files(folder, entries_of)
