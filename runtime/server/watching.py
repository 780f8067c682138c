"""Notices what other processes, and people with an editor, do to the documents of runs.

It asks for modification times. Watching by the operating system would need a watch for each of thousands of
folders.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from kernel.document.model import root_id
from kernel.errors import FractalError
from kernel.events import VERSION, now
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.api.run_view import status_of
from runtime.server.hub import Hub
from runtime.workspace.workspace import is_locked

TICK = 1.0
"""Seconds between two looks at the runs that are at work."""
SHARES = 5
"""Looks after which each of the other runs was looked at once."""

CLOCK = 100_000_000
"""Nanoseconds: more than a step of the clock of a file system on this machine."""

Shape = tuple[bool, int, int, int]


class Watcher:
    """What the folders of runs looked like last. One thread at a time may call it."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._turn = 0
        self._folder_time = -1
        self._seen: dict[str, int] = {}  # by run, when names in its folder last changed
        self._at_work: dict[str, Shape] = {}  # by run that a process works on
        self._told: dict[str, int] = {}  # as `_seen`, for runs whose changes are known by other ways

    def begin(self) -> None:
        """Take what is there as known."""
        self._names()
        for run in list(self._seen):
            self._seen[run] = self._time(run)
            if (shape := self._shape(run))[0]:
                self._at_work[run] = shape

    def know(self, run: str) -> None:
        """Take what the folder of a run holds now as known. Any thread may call this."""
        self._told[run] = self._time(run)

    def look(self) -> list[str]:
        """The runs that changed since they were last looked at: new, other documents, started, stopped."""
        while self._told:
            run, time = self._told.popitem()
            self._seen[run] = time
            self._at_work.pop(run, None)
        changed = self._names()
        for run in changed:
            if run in self._seen:
                self._at_work[run] = self._shape(run)
        self._turn = (self._turn + 1) % SHARES
        for run in list(self._seen)[self._turn :: SHARES]:
            if (time := self._time(run)) != self._seen[run]:
                self._seen[run] = time
                if run not in self._at_work:
                    changed.append(run)
                    self._at_work[run] = self._shape(run)
        for run, before in list(self._at_work.items()):
            time, shape = self._time(run), self._shape(run)
            if shape != before:
                changed.append(run)
            if shape[0] or not shape[1]:  # a process works on it, or has not written its first document
                self._at_work[run] = shape
            else:
                self._seen[run] = time
                del self._at_work[run]
        return list(dict.fromkeys(changed))

    def _names(self) -> list[str]:
        """Take note of new and removed runs; returns both."""
        try:
            time = self.runs.stat().st_mtime_ns
            if time == self._folder_time:
                return []
            names = {name for name in os.listdir(self.runs) if name.isalnum()}  # noqa: PTH208 (thousands)
        except OSError:
            time, names = -1, set[str]()
        # of a time this young there may be another change, which cannot be told from this one
        self._folder_time = time if time_ns() - time > CLOCK else -1
        gone = self._seen.keys() - names
        for run in gone:
            del self._seen[run]
            self._at_work.pop(run, None)
        new = names - self._seen.keys()
        for run in new:
            self._seen[run] = -1
        return [*gone, *new]

    def _time(self, run: str) -> int:
        with suppress(OSError):
            return os.stat(f"{self.runs}/{run}").st_mtime_ns  # noqa: PTH116 (thousands of them)
        return -1

    def _shape(self, run: str) -> Shape:
        """Whether a process works on a run; the number, newest time and size of its documents."""
        locked, count, newest, size = False, 0, 0, 0
        with suppress(OSError, FractalError):
            locked = is_locked(self.runs / run)
            with os.scandir(self.runs / run) as entries:
                for entry in entries:
                    if entry.name.endswith(".md"):
                        stat = entry.stat()
                        count, newest, size = count + 1, max(newest, stat.st_mtime_ns), size + stat.st_size
        return locked, count, newest, size


async def watch(watcher: Watcher, runs: Runs, hub: Hub) -> None:
    """Publish `run_changed` for runs that this process does not work on, while somebody follows.

    What changes while nobody follows is published to the next client.
    """
    while True:
        await hub.listened.wait()
        own = runs.at_work
        for run in await asyncio.to_thread(watcher.look):
            if run not in own | runs.at_work:
                hub.publish(await asyncio.to_thread(_changed, runs.reading, run))
        await asyncio.sleep(TICK)


def _changed(reader: Fractal, run: str) -> dict[str, Any]:
    """The event that a run has changed, with the status that its root has now."""
    found = reader.runs([run])
    status = status_of(reader, run, found[0].status) if found else "removed"
    event = {"v": VERSION, "ts": now(), "kind": "run_changed", "run": run, "loop_id": root_id(run)}
    return {**event, "data": {"status": status}}
