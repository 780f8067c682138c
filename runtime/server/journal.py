"""The journal of reported outcomes, which is on disk before a client is told that one is accepted.

It is in `outcomes/` of the memory: `accepted.jsonl` grows, `taking.jsonl` is being taken in, and
`unreadable.jsonl` keeps lines that are no outcome. Several servers may share it. What is taken in again after
a crash changes nothing, because an outcome has an id.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from kernel import disk
from kernel.errors import StorageError
from runtime import locks
from runtime.memory.learning.outcomes import Outcome

LARGEST = 64_000_000
"""Bytes of outcomes that wait, at most."""
PATIENCE = 10.0
"""Seconds to wait for another server that writes the journal."""


class Journal:
    """The outcomes of one memory that are accepted and not taken in. Its methods block."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder, self.fsync = folder, fsync
        self.accepted, self.taking = folder / "accepted.jsonl", folder / "taking.jsonl"

    def append(self, lines: Sequence[str]) -> None:
        """Put lines on disk. Raises `StorageError`."""
        with self._lock(), disk.writing_state(self.accepted):
            size = self.accepted.stat().st_size if self.accepted.exists() else 0
            if size > LARGEST:
                raise StorageError(
                    f"{self.accepted}: {size:,} bytes of outcomes wait to be taken in; try later"
                )
            raw = "".join(f"{line}\n" for line in lines).encode("utf-8")
            if size and not self._ends_well():
                raw = b"\n" + raw  # a killed process left half a line
            disk.append(self.accepted, raw, fsync=self.fsync, make=True)
            if not size:
                disk.sync(self.folder)

    def _ends_well(self) -> bool:
        with disk.opened(self.accepted) as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    @contextmanager
    def taken(self) -> Generator[list[Outcome] | None]:
        """Outcomes that were accepted; they are removed after the block, unless that raises an error.

        None if there are none, or if another process is taking them.
        """
        if not (self.accepted.exists() or self.taking.exists()):
            yield None
            return
        with locks.lock_file(self.folder / ".taking") as handle:
            if not locks.try_lock(handle):
                yield None
                return
            with self._lock(), disk.writing_state(self.taking):
                if not self.taking.exists() and self.accepted.exists():
                    disk.move(self.accepted, self.taking)
                raw = disk.read(self.taking) if self.taking.exists() else b""
            if not raw:
                yield None
                return
            outcomes, unreadable = _parsed(raw.decode("utf-8", "replace").split("\n"))
            yield outcomes
            with disk.writing_state(self.taking):
                if unreadable:
                    raw = "".join(f"{line}\n" for line in unreadable).encode("utf-8")
                    disk.append(self.folder / "unreadable.jsonl", raw, make=True)
                disk.remove(self.taking)

    def count(self) -> int:
        """The number of outcomes that wait."""
        waiting = 0
        for path in (self.accepted, self.taking):
            with suppress(OSError):
                waiting += disk.read(path).count(b"\n")
        return waiting

    def _lock(self) -> AbstractContextManager[None]:
        busy = StorageError(
            f"{self.folder}: another process has been writing for {PATIENCE:.0f} seconds; try again"
        )
        return locks.lock(self.folder / ".lock", PATIENCE, lambda: busy)


def _parsed(lines: Sequence[str]) -> tuple[list[Outcome], list[str]]:
    outcomes: list[Outcome] = []
    unreadable: list[str] = []
    for line in filter(None, lines):
        try:
            outcomes.append(Outcome.model_validate_json(line))
        except ValidationError:
            unreadable.append(line)
    return outcomes, unreadable
