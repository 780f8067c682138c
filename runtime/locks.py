"""Locks between processes, which end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kernel import disk


@contextmanager
def lock(path: Path, patience: float, busy: Callable[[], Exception]) -> Generator[None]:
    """Hold the lock on a file, which is created if missing. The lock ends with the process.

    A folder can be locked as well, which creates no file. If another process holds the lock for more than
    `patience` seconds, the exception that `busy` returns is raised.
    """
    end = time.monotonic() + patience
    with lock_file(path, folder=path.is_dir()) as handle:
        while not try_lock(handle):
            if time.monotonic() > end:
                raise busy()
            time.sleep(0.01)
        yield


@contextmanager
def lock_file(path: Path, *, folder: bool = False) -> Generator[int]:
    """The descriptor of a lock file, created if missing, or of a folder; `try_lock` locks it."""
    with ExitStack() as stack:
        with disk.writing_state(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT
            handle = stack.enter_context(disk.handle_of(path, flags))
        yield handle


def try_lock(handle: int) -> bool:
    """Lock an open file; false if somebody else holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
