"""Checkpoints: complete copies of a memory in `state/checkpoints/`, to go back to.

`forget` removes them, as it removes every copy of what it forgets.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import StorageError, UsageError
from runtime import locks
from runtime.memory.brain import Brain
from runtime.memory.dream.archive import FILES
from runtime.memory.store import Shelf
from runtime.memory.store.files import FilesKeeper
from runtime.memory.store.moving import Moved, lines, source, take
from runtime.memory.store.sqlite import SqliteKeeper
from runtime.memory.tasks.types import Stamp
from runtime.workspace.workspace import state_of

FOLDER = "checkpoints"
ABOUT = "checkpoint.json"
_COPIES = {"sqlite": "brain.sqlite3", "files": "brain"}
_EXPORT = "brain.jsonl"


@dataclass(frozen=True)
class Checkpoint:
    """A copy in the folder `path`: `why` it was made, and how many records of each kind it has."""

    path: Path
    at: str
    why: str
    records: Mapping[str, int]

    @property
    def name(self) -> str:
        """Its name: when it was made."""
        return self.path.name


def all_of(memory: Path) -> list[Checkpoint]:
    """The checkpoints of a memory, the oldest first; unfinished ones are none."""
    found: list[Checkpoint] = []
    for path in sorted(_folder(memory).glob("[0-9]*")):
        about = path / _place(memory) / ABOUT
        if not about.is_file():
            continue  # of another space
        with disk.reading_state(about):
            try:
                read = json.loads(about.read_bytes())
                found.append(Checkpoint(path, read["at"], read["why"], read["records"]))
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(f"{about}: cannot be read: {error}; remove {path}") from None
    return found


def make(brain: Brain, at: datetime, why: str, keep: int) -> Checkpoint:
    """Copy the memory; of more than `keep` checkpoints the oldest are removed. Raises `StorageError`."""
    memory = brain.settings.folder
    folder = _folder(memory)
    part = folder / ".unfinished"
    with disk.writing_state(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locks.lock(folder / ".lock", 60, lambda: StorageError(f"{folder}: another process is copying")):
            if part.exists():
                disk.remove_all(part)
            inside = part / _place(memory)
            inside.mkdir(mode=0o700, parents=True)
            brain.shelf.keeper.back_up(inside / _COPIES.get(brain.config.store, _EXPORT))
            for name in FILES:
                if (memory / name).is_dir():
                    shutil.copytree(memory / name, inside / name)
            about = {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "why": why, "records": dict(brain.shelf.kinds())}
            disk.put(inside / ABOUT, json.dumps(about).encode())
            disk.move(part, target := _free(folder, f"{at:%Y%m%d-%H%M%S}"))
            for old in all_of(memory)[: -max(keep, 1)]:
                disk.remove_all(old.path)
    return Checkpoint(target, about["at"], why, about["records"])


def _free(folder: Path, name: str) -> Path:
    names = (folder / f"{name}{number}" for number in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(each for each in names if not each.exists())


def find(memory: Path, name: str) -> Checkpoint:
    """The checkpoint with that name, or the beginning of it. Raises `UsageError`."""
    found = [each for each in all_of(memory) if each.name.startswith(name)]
    exact = [each for each in found if each.name == name] or found
    if len(exact) != 1:
        known = ", ".join(each.name for each in (found or all_of(memory))[-6:]) or "none yet"
        raise UsageError(f"{len(exact) or 'no'} checkpoints begin with {name}; there are {known}")
    return exact[0]


def restore(brain: Brain, checkpoint: Checkpoint) -> tuple[Moved, int]:
    """Make the memory what it was; returns what changed, and how many records were removed.

    Records change in one transaction, in the store that is in use now. Raises `StorageError`, and then no
    record has changed.
    """
    memory, shelf = brain.settings.folder, brain.shelf
    inside = checkpoint.path / _place(memory)
    kept: set[tuple[str, str]] = set()
    with shelf.transaction():
        moved = take(shelf, _noted(_records(inside), kept))
        if moved.refused:
            raise StorageError(f"{checkpoint.path}: {moved.refused[0]}; nothing is restored")
        removed = 0
        for kind in list(shelf.kinds()):
            gone = [row.id for row in shelf.rows(kind) if (kind, row.id) not in kept]
            removed += shelf.keeper.erase(kind, gone)
        shelf.put(Stamp.another())  # every process rebuilds its gate
    brain.refresh()
    for name in FILES:
        with disk.writing_state(memory / name):
            if (memory / name).is_dir():
                disk.remove_all(memory / name)
            if (inside / name).is_dir():
                shutil.copytree(inside / name, memory / name)
    return moved, removed


def _records(inside: Path) -> Iterator[tuple[str, bytes]]:
    """The records of a copy, each with its place."""
    if (export := inside / _EXPORT).is_file():
        yield from source(export)
        return
    if (base := inside / _COPIES["sqlite"]).is_file():
        keeper: Any = SqliteKeeper(base, fsync=False)
    elif (base := inside / _COPIES["files"]).is_dir():
        keeper = FilesKeeper(base)
    else:
        raise StorageError(f"{inside}: the copy of the store is missing; choose another checkpoint")
    with closing(Shelf(keeper)) as copy:
        for line in lines(copy):
            yield str(base), line.encode()
        if copy.faults:
            raise StorageError(f"{next(iter(copy.faults.values()))}; choose another checkpoint")


def _noted(records: Iterator[tuple[str, bytes]], kept: set[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    for where, raw in records:
        try:
            row = json.loads(raw)
            kept.add((row["kind"], row["id"]))
        except (ValueError, KeyError, TypeError):
            pass  # `take` refuses it
        yield where, raw


def _folder(memory: Path) -> Path:
    return state_of(memory) / FOLDER


def _place(memory: Path) -> Path:
    """Where a memory is below `state/`: `memory`, or `spaces/NAME/memory`."""
    return memory.relative_to(state_of(memory))
