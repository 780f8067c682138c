"""Checks a SQLite store, rebuilds its indexes, and saves what can be read of a broken file."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import StorageError
from runtime.memory.store.record import FORMAT, Fault, text_of, unkey
from runtime.memory.store.words import plain

if TYPE_CHECKING:
    from runtime.memory.store.sqlite import SqliteKeeper

RANGE = 1_024
"""Rows that are read at once from a broken file."""
ROWS = 32
"""Assumed rows per page, where the end of a table cannot be read."""
LARGEST = 2**36
"""Bytes up to which a truncated file is padded to its former length."""
TABLES = {
    "records": "number, kind, id, body",
    "vectors": "number, embedder, kind, change, vector",
    "counters": "name, value",
}
DAMAGED = "length(vector) % 4 != 0 OR length(vector) = 0"
_STRAY = "number NOT IN (SELECT number FROM records)"


def faults(keeper: SqliteKeeper) -> list[Fault]:
    """What is wrong with the file, each row, and each index against the rows."""
    base, place = keeper.base, keeper.place
    try:
        found = [Fault(place, line) for line in _damages(base)]
        for kind in keeper.kinds():
            found += _faults_of(keeper, kind)
        query = f"SELECT count(*) FROM vectors WHERE vector NOTNULL AND {_STRAY}"
        if stray := base.execute(query).fetchone()[0]:
            found.append(Fault(place, f"{stray} vectors belong to no record"))
        damaged = base.execute(f"SELECT number FROM vectors WHERE {DAMAGED} LIMIT 20").fetchall()
    except (sqlite3.DatabaseError, StorageError) as error:
        return [Fault(place, str(error))]
    return found + [Fault(place, f"a damaged vector of record {number}") for (number,) in damaged]


def _damages(base: sqlite3.Connection) -> list[str]:
    """What SQLite reports about the file itself; nothing when it is intact."""
    try:
        said = [line for (line,) in base.execute("PRAGMA integrity_check(20)")]
        names = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    except sqlite3.DatabaseError as error:
        return [str(error)]
    missing = [f"the table {name} is missing" for name in TABLES if name not in names]
    return [line for line in said if line != "ok"] + missing


def _faults_of(keeper: SqliteKeeper, kind: str) -> Iterator[Fault]:
    if not keeper.words.whole(kind):
        yield Fault(keeper.place, f"the index of words of {kind} is damaged")
    indexed = dict(keeper.words.texts(kind))
    query = "SELECT number, id, body FROM records WHERE kind = ?"
    for number, id, body in keeper.base.execute(query, (kind,)):
        words = indexed.pop(number, "")
        wrong = wrong_with(id, body)
        if not wrong and words != plain(text_of(body)):
            wrong = "its words are not in the index"
        if wrong:
            yield Fault(f"{keeper.place}: {kind} {unkey(id)}", wrong)
    for _ in indexed:
        yield Fault(keeper.place, f"words of a {kind} that does not exist")


def wrong_with(id: Any, body: Any) -> str:
    """What is wrong with a row, or ""."""
    try:
        body.encode("utf-8")
        fields = json.loads(body)
        if not isinstance(fields, dict) or fields.get("id") != unkey(id):
            return "its body is of another record"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"its body is not JSON: {error}"
    return ""


def rebuild(keeper: SqliteKeeper, create: Callable[[Path], None]) -> list[Fault]:
    """Rebuild words and vectors; returns what was lost. `create` makes an empty store."""
    lost: list[Fault] = []
    if _damages(keeper.base):
        keeper.base.close()
        lost = salvage(keeper.path, create)
        keeper.open()
    lost += reindex(keeper)
    with keeper.errors():
        keeper.base.execute("VACUUM")
        keeper.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return lost


def reindex(keeper: SqliteKeeper) -> list[Fault]:
    """Put aside rows that cannot be read, and rebuild words and vectors; returns what was put aside."""
    base = keeper.base
    keeper.begin()
    try:
        lost = _put_aside(keeper)
        for kind in {*keeper.words.kinds(), *keeper.kinds()}:
            keeper.words.forget(kind)
            query = "SELECT number, body FROM records WHERE kind = ?"
            for number, body in base.execute(query, (kind,)).fetchall():
                keeper.words.put(kind, number, text_of(body))
        base.execute(f"DELETE FROM vectors WHERE vector IS NULL OR {DAMAGED} OR {_STRAY}")
        base.execute("UPDATE counters SET value = value + 1 WHERE name = 'epoch'")
        keeper.commit()
    except BaseException:
        keeper.rollback()
        raise
    keeper.forget()
    return lost


def _put_aside(keeper: SqliteKeeper) -> list[Fault]:
    """Move rows that cannot be read into a file beside the store."""
    lost: list[Fault] = []
    aside = keeper.path.with_name(f"{keeper.path.name}.quarantine")
    for number, kind, id, body in keeper.base.execute(
        "SELECT number, kind, id, body FROM records"
    ).fetchall():
        if wrong := wrong_with(id, body):
            with aside.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps({"kind": kind, "id": repr(id), "body": repr(body)}) + "\n")
            keeper.base.execute("DELETE FROM records WHERE number = ?", (number,))
            lost.append(Fault(f"{keeper.place}: {kind} {unkey(id)}", f"{wrong}; moved to {aside.name}"))
    return lost


def salvage(path: Path, create: Callable[[Path], None]) -> list[Fault]:
    """Rename the file and its log to a name with the time, and save its rows; returns what was lost."""
    aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
    for ending in ("", "-wal", "-shm"):
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(aside.with_name(aside.name + ending))
    create(path)
    saved = 0
    holes: list[str] = []
    with closing(sqlite3.connect(_padded(aside))) as old, closing(sqlite3.connect(path)) as new:
        old.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for table, columns in TABLES.items():
            marks = ", ".join("?" * (columns.count(",") + 1))
            for row in _readable(old, table, columns, aside.stat().st_size, holes):
                with suppress(sqlite3.IntegrityError):  # a row of another form
                    new.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", row)
                    saved += table == "records"
        new.commit()
        new.execute(f"PRAGMA user_version = {_version(aside)}")
    lost = f"; lost: {', '.join(holes)}" if holes else ""
    return [Fault(str(path), f"was broken; {saved} records were saved from it{lost}; it is {aside.name} now")]


def _version(path: Path) -> int:
    """The format in the header of a broken file; the first one if it is none, as migrating twice is safe."""
    with path.open("rb") as file:
        number = int.from_bytes(file.read(64)[60:], "big")
    return number if 1 <= number <= FORMAT else 1


def _padded(path: Path) -> Path:
    """The file, padded to the length in its header: SQLite reads nothing of a truncated one."""
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
    """Every row that can be read: an unreadable range is halved until the broken rows are alone."""
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
