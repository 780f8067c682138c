"""Where the catalogue's files lie: told by stat, so that a look at five hundred takes milliseconds.

Paths are text here, and the calls those of `os`: a `Path` for each would cost more than the look itself.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernel.tools.tool import is_skill

DEEP = 4
"""Folders below each other in which a collection of skills is looked through."""
SETTLED_NS = 2_000_000_000
"""A folder that changed less long ago is listed again: two changes may have the same time."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})
_listed: dict[str, tuple[int, tuple[str, ...]]] = {}


def entries_of(folder: str) -> tuple[str, ...]:
    """The names in a folder, sorted, none of what is no folder; read again when its time has changed."""
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return ()
    if not stat.S_ISDIR(found.st_mode):
        return ()
    changed = found.st_mtime_ns
    known = _listed.get(folder)
    if known and known[0] == changed:
        return known[1]
    try:
        names = tuple(sorted(os.listdir(folder)))  # noqa: PTH208
    except OSError:  # closed to us
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
        for name in entries_of(f"{folder}/tools"):
            if (
                name[0] != "."
                and f"tools/{name}" not in seen
                and (file := _pattern(f"{folder}/tools/{name}"))
            ):
                seen.add(f"tools/{name}")
                yield file


def _pattern(folder: str) -> str:
    names = entries_of(folder)
    if "pattern.md" in names:
        return f"{folder}/pattern.md"
    return _skill(folder, names)


def _skill(folder: str, names: Sequence[str]) -> str:
    name = "SKILL.md" if "SKILL.md" in names else next((each for each in names if is_skill(each)), "")
    return f"{folder}/{name}" if name else ""


def skill_files(folder: str, deep: int = DEEP) -> Iterator[str]:
    """The skills of a folder: it is one, or has some below it. What lies in a skill's folder is its own."""
    names = entries_of(folder)
    if file := _skill(folder, names):
        yield file
        return
    for name in names if deep else ():
        if name[0] != "." and name not in _PASSED_OVER:
            yield from skill_files(f"{folder}/{name}", deep - 1)
