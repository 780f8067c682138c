"""A connection to a SQLite file that several processes have open."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

BUSY = 20.0
"""Seconds that a write waits for another process's."""
JUST_MADE = 60.0
"""Seconds that another process may take to fill the file that it has made."""


def is_emptied(path: Path) -> bool:
    """Whether a file has lost all that it held; one that is just being made has none either, for a moment."""
    with suppress(FileNotFoundError):
        seen = path.stat()
        return seen.st_size == 0 and time.time() - seen.st_mtime > JUST_MADE
    return False


def connect(path: Path, fsync: bool = True) -> sqlite3.Connection:
    """A connection that waits for others, and writes ahead."""
    base = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    until = time.monotonic() + BUSY
    while True:  # to change the mode of a new file no busy timeout is heeded
        try:
            base.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                base.close()
                raise
            time.sleep(0.01)
    base.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
    base.execute("PRAGMA cache_size = -4096")
    base.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # a broken text is told by its row
    base.execute("PRAGMA journal_size_limit = 67108864")
    path.chmod(0o600)
    return base


@contextmanager
def immediate(base: sqlite3.Connection) -> Generator[None]:
    """A transaction that writes."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")
