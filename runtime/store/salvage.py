"""A SQLite file that is broken: what can still be read goes into a new one, the broken one is put aside."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from runtime.store.shelf import Fault

RANGE = 1_024
"""Rows that are read at once."""
ROWS = 32
"""Rows of a page, where the end of a table cannot be read."""
LARGEST = 2**36
"""Bytes up to which a file that was cut off is made as long as it was."""
_TABLES = {
    "records": "number, kind, id, body",
    "vectors": "number, embedder, kind, change, vector",
    "counters": "name, value",
}


def salvage(path: Path) -> list[Fault]:
    """Put the file and its log aside under a name with the time, and save its rows; says what was lost."""
    from runtime.store.sqlite import SqliteKeeper

    aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
    for ending in ("", "-wal", "-shm"):
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    SqliteKeeper(path).close()
    saved = 0
    holes: list[str] = []
    with closing(sqlite3.connect(_padded(aside))) as old, closing(sqlite3.connect(path)) as new:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for table, columns in _TABLES.items():
            marks = ", ".join("?" * (columns.count(",") + 1))
            for row in _readable(old, table, columns, aside.stat().st_size, holes):
                with suppress(sqlite3.IntegrityError):  # a row of another form
                    new.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", row)
                    saved += table == "records"
        new.commit()
    lost = f"; lost: {', '.join(holes)}" if holes else ""
    return [Fault(str(path), f"was broken; {saved} records were saved from it{lost}; it is {aside.name} now")]


def _padded(path: Path) -> Path:
    """The file, as long as its head says: of one that was cut off SQLite reads nothing else."""
    with path.open("r+b") as file:
        head = file.read(100)
        if head.startswith(b"SQLite format 3"):
            page = int.from_bytes(head[16:18], "big")
            wanted = int.from_bytes(head[28:32], "big") * (65_536 if page == 1 else page)
            if path.stat().st_size < wanted <= LARGEST:
                file.truncate(wanted)
    return path


def _readable(
    base: sqlite3.Connection, table: str, columns: str, size: int, holes: list[str]
) -> Iterator[Any]:
    """Every row that can be read: a range of them that cannot is halved until the broken ones are alone."""
    try:
        (last,) = base.execute(f"SELECT max(rowid) FROM {table}").fetchone()
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error) or "not a database" in str(error):
            holes.append(f"all of {table} ({error})")
            return
        last = size // 4096 * ROWS
    query = f"SELECT {columns} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
    pending = [(low, low + RANGE - 1) for low in range((last or 0) // RANGE * RANGE, -1, -RANGE)]
    why = ""
    while pending:
        low, high = pending.pop()
        try:
            yield from base.execute(query, (low, high)).fetchall()
        except sqlite3.DatabaseError as error:
            why = str(error)
            middle = (low + high) // 2
            pending += [(middle + 1, high), (low, middle)] if low < high else []
    if why:
        holes.append(f"a part of {table} ({why})")
