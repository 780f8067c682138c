"""Locks between processes: one at a time holds a file, or changes a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kernel import disk


@contextmanager
def alone(path: Path, patience: float, busy: Callable[[], Exception]) -> Generator[None]:
    """Nobody else holds this lock file meanwhile; it is made where it is missing, let go with its process.

    A folder can be held as well: the lock is on the folder itself, so it leaves nothing behind. After
    `patience` seconds of waiting for another process, what `busy` makes is raised.
    """
    end = time.monotonic() + patience
    with opened(path) as handle:
        while not taken(handle):
            if time.monotonic() > end:
                raise busy()
            time.sleep(0.01)
        yield


@contextmanager
def opened(path: Path) -> Generator[int]:
    """An open lock file, which is made where it is missing; `taken` locks it until it is closed."""
    with ExitStack() as stack:
        with disk.of_the_state(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
            handle = stack.enter_context(disk.handle_of(path, flags))
        yield handle


def taken(handle: int) -> bool:
    """Lock an open file unless somebody else holds it; whether that worked."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
