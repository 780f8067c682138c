"""The lifeforce of an agent: a pool on disk that time restores, and from which each run reserves a part.

A run gives back what it has not used. What it has used is read from its log of calls, so the reservation of a
killed run is settled by whoever next opens the pool and finds the run's lock free. Reading writes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Any

from kernel import disk
from kernel.document.escaping import to_json
from kernel.errors import DocumentError, StorageError
from kernel.store.call_log import ReplyLog
from runtime import locks
from runtime.workspace.settings import Pool
from runtime.workspace.workspace import Workspace, is_locked

PATIENCE = 10.0
"""Seconds to wait for another process that writes the pool."""


@dataclass(frozen=True)
class Level:
    """What a pool has: `free` lifeforce at a time (Unix seconds), and reservations by run."""

    free: float
    at: float
    held: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """`amount` is reserved; `before` is what the run had used earlier."""

    @property
    def reserved(self) -> float:
        """The sum of the reservations."""
        return sum(each["amount"] for each in self.held.values())


class Lifeforce:
    """The pool of one agent of a workspace. `clock` returns Unix seconds."""

    def __init__(
        self, workspace: Workspace, agent: str, pool: Pool, clock: Callable[[], float] = time.time
    ) -> None:
        self.workspace, self.agent, self.pool, self.clock = workspace, agent, pool, clock
        self.path = workspace.state / "lifeforce" / f"{agent}.json"

    def level(self) -> Level:
        """What there is now, with the reservations of killed runs settled."""
        return self._settled(self._read())

    def reserve(self, run: str) -> float:
        """Reserve for a run whose lock this process holds; the lifeforce that it may use in all."""
        with self._lock():
            level = self._settled(self._read(), run)
            before = self._spent(run) or 0.0
            own = inf if self.pool.per_run is None else self.pool.per_run - before  # in all its sessions
            amount = floor(max(0.0, min(level.free, own)) * 1000) / 1000
            held = {**level.held, run: {"amount": amount, "before": before}}
            self._write(replace(level, free=level.free - amount, held=held))
        return before + amount

    def give_back(self, run: str) -> None:
        """Give back what a run has not used of its reservation."""
        with self._lock():
            self._write(self._settled(self._read(), run))

    def _settled(self, level: Level, ended: str = "") -> Level:
        """The level now: time has restored some, and runs that are not at work hold nothing any more."""
        now = self.clock()
        restored = self.pool.per_hour * max(0.0, now - level.at) / 3600
        free = min(level.free + restored, max(level.free, self.pool.capacity - level.reserved))
        held = dict(level.held)
        for run, part in level.held.items():
            if run == ended or not is_locked(self.workspace.runs / run):
                del held[run]
                spent = self._spent(run)
                used = part["amount"] if spent is None else spent - part["before"]
                free += part["amount"] - used
        return Level(min(free, self.pool.capacity), now, held)

    def _spent(self, run: str) -> float | None:
        """What a run has used in all its sessions; None if it is gone."""
        folder = self.workspace.runs / run
        return ReplyLog(folder / "calls.jsonl").spent().lifeforce if folder.is_dir() else None

    def _read(self) -> Level:
        with disk.reading_state(self.path):
            raw = self.path.read_bytes() if self.path.exists() else b""
        if not raw:
            return Level(self.pool.capacity, self.clock())
        try:
            data: dict[str, Any] = json.loads(raw)
            held = {
                run: {key: float(part[key]) for key in ("amount", "before")}
                for run, part in data["held"].items()
            }
            return Level(float(data["free"]), float(data["at"]), held)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DocumentError(
                "no pool of lifeforce; remove it to begin with a full one", str(self.path)
            ) from None

    def _write(self, level: Level) -> None:
        with disk.writing_state(self.path):
            disk.put(self.path, (to_json({**vars(level)}) + "\n").encode(), mode=0o600)

    @contextmanager
    def _lock(self) -> Generator[None]:
        def busy() -> Exception:
            return StorageError(f"{self.path}: another process holds its lock; try again")

        with locks.lock(self.path.with_suffix(".lock"), PATIENCE, busy):
            yield
