"""Finds processes of this machine by an argument."""

from __future__ import annotations

import time
from pathlib import Path


def alive(mark: str) -> list[str]:
    """The ids of the running processes that have the mark among their arguments."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in words and state != "Z":
            found.append(process.name)
    return found


def gone(mark: str, seconds: float = 3) -> bool:
    """Whether these processes end in time."""
    end = time.monotonic() + seconds
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(mark)
