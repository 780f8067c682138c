"""Finds processes of this machine by an argument."""

from __future__ import annotations

from pathlib import Path

from lanes import until


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


def gone(mark: str) -> bool:
    """Wait until these processes have ended, long before they would by themselves."""
    return until(lambda: not alive(mark), 30) is True
