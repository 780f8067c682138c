"""What a command takes of the machine as a whole: processes, memory, room on the disk.

The system's own limits hold for one process each, and for root some do not hold at all. So who runs a command
looks, a few times a second, at all that it has started. Between two looks it can take a little more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

FIRST_LOOK = 0.05
"""Seconds after the start: most commands end sooner, and cost no look."""
EVERY = 0.2
"""Seconds between two looks."""
SHARE_OF_MEMORY = 0.8
"""Largest share of the machine's memory that a command gets, even if its limit is higher."""
SPARE_MEMORY = 0.1
"""Of the machine's memory: with less left, a command that has used up more than its limit is stopped."""
MB = 1_000_000
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """Limits of one command with its child processes; each has a setting of this name."""

    process_mb: int = 2_048  # memory of one process
    memory_mb: int = 8_192  # of all together
    processes: int = 1_000
    file_mb: int = 1_024  # the largest file
    disk_mb: int = 10_240  # more on the folder's disk than at its start
    files: int = 1_000_000  # and so many files more
    scratch_mb: int = 1_024  # in each folder in memory, such as /tmp


_GROUP = Path("/proc/self/autogroup")
FIRST = "-20"
"""The priority of a session that is served first."""
_looking: list[str] = []
"""For each command that is watched now: the priority that the session gets back after the last of them."""


@contextmanager
def first_served() -> Iterator[None]:
    """Give this session the highest priority while a command is watched. Only root may do so.

    The system's limit of processes does not hold for root, and the processors are shared out by session. So
    thousands of sessions that a command starts would keep this process from looking at them. The first
    session of a machine has no priority, and nothing changes there. Source: sched(7), the autogroup feature.
    """
    if os.geteuid() or not os.access(_GROUP, os.W_OK):
        yield
        return
    before = _looking[0] if _looking else _text(str(_GROUP)).rpartition(" ")[2].strip()
    before = before if before != FIRST else "0"  # another process of the session serves itself first
    _looking.append(before)
    with suppress(OSError):
        _GROUP.write_text(FIRST)
    try:
        yield
    finally:
        _looking.pop()
        if not _looking:
            with suppress(OSError):
                _GROUP.write_text(before)


class Watch:
    """Watches one command; `exceeded` names the limit that it exceeded, "" for none."""

    def __init__(self, limits: Limits, folder: Path) -> None:
        self.limits = limits
        self.exceeded = ""
        self._folder = folder
        self._room = _room(folder)
        self._memory = _available()

    async def until_exceeded(self, process: int) -> None:
        """Return when the process tree exceeds a limit; run until cancelled otherwise."""
        import asyncio

        await asyncio.sleep(FIRST_LOOK)
        while not (why := self.look(process)):  # noqa: ASYNC110 (no event reports an exceeded limit)
            await asyncio.sleep(EVERY)
        self.exceeded = why

    def look(self, process: int) -> str:
        """The limit that is exceeded now, "" for none."""
        return self._processes(process) or self._disk()

    def _processes(self, process: int) -> str:
        limits = self.limits
        found: list[int] = []
        for member in process_tree(process):
            found.append(member)
            if len(found) > limits.processes:
                return f"more than {limits.processes} processes at once"
        total, available = self._memory
        most = min(limits.memory_mb * MB, SHARE_OF_MEMORY * total) if total else limits.memory_mb * MB
        if sum(map(_resident, found)) > most and sum(map(_exactly, found)) > most:
            return f"more than {most / MB:.0f} MB of memory"
        left = _available()[1]
        if available - left > most and left < SPARE_MEMORY * total:
            return (
                f"the machine has {left / MB:.0f} MB of memory left, and it had {available / MB:.0f} before"
            )
        return ""

    def _disk(self) -> str:
        room, files = _room(self._folder)
        if self._room[0] - room > self.limits.disk_mb * MB:
            return f"more than {self.limits.disk_mb} MB added to the disk"
        if self._room[1] - files > self.limits.files:
            return f"more than {self.limits.files} files added to the disk"
        return ""


def process_tree(process: int) -> Iterator[int]:
    """The process and all that it has started: in a process namespace none of them can leave the tree."""
    pending = [process]
    while pending:
        each = pending.pop()
        yield each
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{each}/task"):  # noqa: PTH208 (a string for each of thousands)
                with suppress(OSError, ValueError):
                    pending += map(int, _text(f"/proc/{each}/task/{thread}/children").split())


def _resident(process: int) -> int:
    """Bytes of a process in memory; what it shares, such as files, is counted for each that shares it."""
    try:
        return int(_text(f"/proc/{process}/statm").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _exactly(process: int) -> int:
    """Bytes that are not files', with its part of what it shares; takes longer, and a kernel from 5.4 on."""
    try:
        lines = _text(f"/proc/{process}/smaps_rollup").splitlines()
    except OSError:
        return _resident(process)
    parts = [line.split() for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))]
    return sum(int(part[1]) for part in parts) * 1024 if parts else _resident(process)


def _available() -> tuple[int, int]:
    """Bytes of memory of the machine: in total, and available."""
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in _text("/proc/meminfo").splitlines())
        sizes = {line[0]: int(line[1]) * 1024 for line in lines if len(line) > 1}
        return sizes["MemTotal:"], sizes["MemAvailable:"]
    return 0, 0


def _room(folder: Path) -> tuple[int, int]:
    """Bytes and files for which there is room on the folder's disk."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return 0, 0
    return facts.f_bavail * facts.f_frsize, facts.f_favail


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 (thousands of them)
        return file.read()
