"""The files of Agent Skills, and the names in folders, which are kept by the folders' modification times.

Paths are strings here: creating a `Path` for each would take longer than the search.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

BESIDE = 40
"""Maximum files of a skill that its loop sees by name."""
MOST_BESIDE = 1000
"""Maximum further files that are counted."""
DEEP = 4
"""Levels of folders in which skills are searched."""
PASSED_OVER = frozenset({"node_modules", "__pycache__"})
"""Folders in which no skills are looked for, and whose files a skill's loop does not see."""
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


def is_skill(name: str) -> bool:
    """Whether this is the file name of a skill."""
    return name.upper() == "SKILL.MD"


def skill_in(names: Sequence[str]) -> str:
    """The file of a skill among the names in a folder; "" if there is none."""
    return "SKILL.md" if "SKILL.md" in names else next(filter(is_skill, names), "")


def skill_files(folder: str) -> list[str]:
    """The files of the skills of a folder: it is one, or has some below it, also behind links.

    What lies in a skill's folder is its own. Each folder is entered once, by its shortest path: of two links
    to a skill that are equally deep the first counts.
    """
    entered: set[tuple[int, int]] = set()  # links may lead in circles
    found: list[tuple[str, ...]] = []
    level: list[tuple[str, ...]] = [()]
    for _ in range(DEEP + 1):  # level by level: a link deep down must not hide what lies below its target
        below: list[tuple[str, ...]] = []
        for inside in level:
            place = "/".join((folder, *inside))
            try:
                info = os.stat(place)  # noqa: PTH116 (a `Path` for each would take longer than the search)
            except OSError:  # no folder, or closed to us
                continue
            if not stat.S_ISDIR(info.st_mode) or (info.st_dev, info.st_ino) in entered:
                continue
            entered.add((info.st_dev, info.st_ino))
            names = entries_of(place)
            if name := skill_in(names):
                found.append((*inside, name))
            else:
                below += [(*inside, each) for each in names if each[0] != "." and each not in PASSED_OVER]
        level = below
    return ["/".join((folder, *inside)) for inside in sorted(found)]


def resources(name: str, folder: Path) -> str:
    """A line that lists the files of a skill, for reading or running on demand; "" if there are none."""
    found = list(islice(_resources(folder), BESIDE + MOST_BESIDE))
    if not found:
        return ""
    more = len(found) - BESIDE
    count = f" and {'more than ' if more == MOST_BESIDE else ''}{more} more"
    named = ", ".join(found[:BESIDE]) + (count if more > 0 else "")
    return f"Files of {name}, in {folder.absolute()} (only to read or run): {named}"


def _resources(folder: Path) -> Iterator[str]:
    """The files of a skill except its text: those of each folder before those of its subfolders."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in PASSED_OVER)
        inside = Path(where).relative_to(folder)
        yield from (
            (inside / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and not (where == str(folder) and is_skill(name))
        )
