"""A SQLite file that is broken: what can still be read goes into a new one, the broken one is put aside."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from runtime.store.shelf import Fault

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
    old, new = sqlite3.connect(aside), sqlite3.connect(path, isolation_level=None)
    try:
        new.execute("BEGIN IMMEDIATE")
        for table, columns in _TABLES.items():
            marks = ", ".join("?" * (columns.count(",") + 1))
            for row in _readable(old, table, columns, holes):
                new.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", row)
                saved += table == "records"
        new.execute("COMMIT")
    finally:
        old.close()
        new.close()
    lost = f"; lost: {', '.join(holes)}" if holes else ""
    return [Fault(str(path), f"was broken; {saved} records were saved from it{lost}; it is {aside.name} now")]


def _readable(base: sqlite3.Connection, table: str, columns: str, holes: list[str]) -> list[Any]:
    """Every row that can be read, forwards up to a hole and backwards up to one."""
    rows: dict[Any, Any] = {}
    for order in ("ASC", "DESC"):
        try:
            for row in base.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid {order}"):
                if row[0] in rows:
                    break
                rows[row[0]] = row[1:]
        except sqlite3.DatabaseError as error:
            if order == "ASC":
                holes.append(f"a part of {table} ({error})")
            continue
        break
    return [rows[number] for number in sorted(rows)]
