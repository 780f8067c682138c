"""Takes back the last dream: everything that it changed is as it was, but for what others changed since.

What is to become of each file is written down first, so that a crash in the middle is gone on from; all rows
go back in one transaction, together with the record of the dream.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel.errors import UsageError
from runtime.memory.dream.archive import FOLDER, Archive, Kept, mark
from runtime.memory.dream.dreamer import Dreamer
from runtime.memory.dream.record import Dreamt
from runtime.memory.procedural.recognition import Stamp
from runtime.store import Shelf
from runtime.store.record import Row

PLAN = "undoing.json"


@dataclass(frozen=True)
class Undone:
    """What was taken back, and what was left since others had changed it."""

    dream: str
    rows: int
    files: int
    left: tuple[str, ...] = ()


def undo(dreamer: Dreamer) -> Undone:
    """Take back the last dream. Raises `UsageError` where there is none."""
    dreamer.hold("undo")
    try:
        dreamer.mend()
        found = finish(dreamer)
        if found is None:
            last = dreamer.last()
            if last is None:
                raise UsageError("there is no dream to take back")
            found = take_back(dreamer, last)
        return found
    finally:
        dreamer.let_go("undo")


def take_back(dreamer: Dreamer, dream: Dreamt) -> Undone:
    """Take back one dream, for whoever holds the memory."""
    return _taken_back(dreamer, _plan(dreamer.archive, dream))


def finish(dreamer: Dreamer) -> Undone | None:
    """Go on with what a killed process was taking back; None where there is nothing of that."""
    plan = _planned(dreamer.archive)
    return _taken_back(dreamer, plan) if plan else None


def _taken_back(dreamer: Dreamer, plan: Mapping[str, Any]) -> Undone:
    shelf, archive = dreamer.brain.shelf, dreamer.archive
    try:
        files, left = _put_files(archive, plan["files"])
        known = shelf.get(Dreamt, plan["dream"])
        rows = 0
        if known:
            rows, more = _put_rows(shelf, archive, known)
            left += more
        archive.remove(PLAN)
        return Undone(plan["dream"], rows, files, (*plan["left"], *left))
    finally:
        dreamer.brain.refresh()


def _kept(archive: Archive, dream: Dreamt) -> list[Kept]:
    """What it changed, the last first."""
    return archive.kept(dream.id, [each.part for each in dream.stages.values()])[::-1]


def _planned(archive: Archive) -> dict[str, Any] | None:
    try:
        return json.loads(archive.read(f"{FOLDER}/{PLAN}") or b"null")
    except ValueError:
        return None


def _plan(archive: Archive, dream: Dreamt) -> dict[str, Any]:
    """What each file is, and what it is to be."""
    now: dict[str, str] = {}
    goal: dict[str, bytes | None] = {}
    left: list[str] = []
    for each in _kept(archive, dream):
        if each.file and each.file not in left:
            assert not isinstance(each.before, Row)
            if now.setdefault(each.file, mark(archive.read(each.file))) != each.after:
                left.append(each.file)
            else:
                now[each.file], goal[each.file] = each.was, each.before
    files = [
        [name, mark(archive.read(name)), None if raw is None else b64encode(raw).decode()]
        for name, raw in goal.items()
    ]
    plan = {"dream": dream.id, "files": files, "left": left}
    archive.write(PLAN, json.dumps(plan).encode())
    return plan


def _put_files(archive: Archive, files: Sequence[Sequence[Any]]) -> tuple[int, list[str]]:
    count, left = 0, list[str]()
    for name, expected, raw in files:
        goal = None if raw is None else b64decode(raw)
        now = mark(archive.read(name))
        if now == expected:
            archive.put_back(name, goal)
        elif now != mark(goal):
            left.append(name)
            continue
        count += 1
    return count, left


def _put_rows(shelf: Shelf, archive: Archive, dream: Dreamt) -> tuple[int, list[str]]:
    left: list[str] = []
    done: set[tuple[str, str]] = set()
    with shelf.transaction():
        kept = [each for each in _kept(archive, dream) if each.kind]
        now = _now(shelf, kept)
        goal: dict[tuple[str, str], Row | None] = {}
        for each in kept:
            key = each.kind, each.id
            if now[key] == each.after:
                assert not isinstance(each.before, bytes)
                now[key], goal[key] = each.was, each.before
                done.add(key)
            elif now[key] != each.was:  # else nothing of it is left to take back
                left.append(each.name)
        shelf.keeper.write([row for row in goal.values() if row is not None])
        for kind in dict.fromkeys(kind for kind, _ in goal):
            shelf.keeper.erase(kind, [id for (of, id), row in goal.items() if of == kind and row is None])
        shelf.delete(Dreamt, dream.id)
        if f"{Stamp.KIND} types" in left:  # who has read them since is to read them again
            left.remove(f"{Stamp.KIND} types")
            shelf.put(Stamp.another())
    return len(done), list(dict.fromkeys(left))


def _now(shelf: Shelf, kept: Sequence[Kept]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for kind in dict.fromkeys(each.kind for each in kept):
        ids = list(dict.fromkeys(each.id for each in kept if each.kind == kind))
        rows = shelf.keeper.read(kind, ids)
        found |= {(kind, id): mark(rows.get(id)) for id in ids}
    return found
