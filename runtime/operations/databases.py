"""The operation sqlite: a question to an SQLite file, in SQL that can only read."""

from __future__ import annotations

import contextlib
import csv
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations.texts import regular, trouble
from runtime.operations.walking import Deadline

MOST_ROWS = 10_000
MOST_CHARACTERS = 1_000_000
LONGEST_VALUE = 20_000_000
"""Bytes of a value that a query may make: it could ask for a text that fills the memory."""
_LONGEST_QUERY = 20_000
_STEPS = 20_000  # of SQLite's machine between two looks at the clock
_TABLES = 100
_HEADER = b"SQLite format 3\0"
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_PRAGMAS = frozenset(
    "table_info table_xinfo table_list index_list index_info foreign_key_list user_version encoding".split()  # noqa: SIM905
)
_WAL = 2  # in byte 18 of the file


@operation()
def query_sqlite(ctx: OperationContext, path: str, query: str = "", limit: int = 200) -> Result:
    """The rows that a SELECT gives, as CSV; without a query, the tables with their columns."""
    if not 1 <= limit <= MOST_ROWS:
        raise OperationFailed(f"limit: {limit} is not between 1 and {MOST_ROWS:,}")
    if len(query) > _LONGEST_QUERY or "\0" in query:
        raise OperationFailed(f"query: longer than {_LONGEST_QUERY:,} characters, or with the character NUL")
    target = regular(ctx, path)
    deadline = Deadline(ctx.timeout * 0.9)
    with _opened(target, path, deadline) as database:
        try:
            return _rows(database, query, limit) if query.strip() else _tables(database)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise OperationFailed(f"{path}: {_why(database, error, deadline)}") from None


@contextlib.contextmanager
def _opened(target: Path, name: str, deadline: Deadline) -> Iterator[sqlite3.Connection]:
    """The file, opened so that nothing in it or beside it is changed, with a clock and a doorkeeper."""
    try:
        with target.open("rb") as handle:
            head = handle.read(100)
    except OSError as error:
        raise trouble(name, error) from None
    if head and not head.startswith(_HEADER):
        raise OperationFailed(f"{name}: this is not an SQLite database")
    # a database with a write-ahead log would get files beside it even when it is only read
    quiet = len(head) > 18 and head[18] == _WAL and not _filled(target, "-wal")
    database = sqlite3.connect(
        f"file:{quote(str(target))}?mode=ro{'&immutable=1' if quiet else ''}",
        uri=True,
        timeout=5,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        database.text_factory = _text
        database.set_progress_handler(lambda: int(deadline.over), _STEPS)
        database.set_authorizer(_may)
        yield database
    finally:
        database.close()


def _filled(target: Path, suffix: str) -> bool:
    beside = target.with_name(target.name + suffix)
    return beside.is_file() and beside.stat().st_size > 0


def _may(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() == "load_extension" else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        # only user_version and encoding would take a new value
        writes = second is not None and (first or "").lower() in ("user_version", "encoding")
        return sqlite3.SQLITE_DENY if writes else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _rows(database: sqlite3.Connection, query: str, limit: int) -> Result:
    cursor = database.execute(query)
    if cursor.description is None:
        raise OperationFailed("query: this statement gives no rows; give one SELECT")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column[0] for column in cursor.description])
    count = 0
    more = False
    for row in cursor:
        if count == limit or out.tell() > MOST_CHARACTERS:
            more = True
            break
        writer.writerow([_cell(value) for value in row])
        count += 1
    text = out.getvalue().removesuffix("\n")
    if more:
        text += f"\n… only the first {count:,} rows; count or sum in the query, or raise limit"
    return Result(text, evidence={"rows": count, "more": more})


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"x'{value[:32].hex()}'" if len(value) <= 32 else f"({len(value)} bytes)"
    return str(value)


def _tables(database: sqlite3.Connection) -> Result:
    found = database.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' "
        "ESCAPE '~' ORDER BY name"
    ).fetchall()
    lines: list[str] = []
    for name, kind in found[:_TABLES]:
        quoted = '"' + name.replace('"', '""') + '"'
        columns = database.execute(f"PRAGMA table_info({quoted})").fetchall()
        told = ", ".join(f"{column[1]} {column[2]}".strip() for column in columns)
        if kind == "view":
            lines.append(f"{name} (view: {told})")
        else:
            count = database.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
            lines.append(f"{name} ({told}): {count} row{'' if count == 1 else 's'}")
    if len(found) > _TABLES:
        lines.append(f"… and {len(found) - _TABLES} more tables; their names are in sqlite_master")
    return Result(
        "\n".join(lines) or "there is no table", evidence={"tables": [name for name, _ in found][:500]}
    )


def _why(database: sqlite3.Connection, error: Exception, deadline: Deadline) -> str:
    said = str(error)
    if deadline.over or said == "interrupted":
        return f"the query took longer than {deadline.seconds:.0f} s and was stopped; make it narrower"
    if "not authorized" in said or "denied" in said or "prohibited" in said or "readonly" in said:
        return "only SELECT can be run here (also WITH … SELECT); nothing can be changed or attached"
    if "one statement" in said:
        return "one statement at a time; make a step of each"
    if "no such table" in said or "no such column" in said:
        with contextlib.suppress(sqlite3.Error):
            return f"{said}; there are {'; '.join(_tables(database).text.splitlines()[:8])}"
    if "locked" in said or "unable to open" in said:
        return f"{said}: another program holds it, or stopped while it wrote; copy the file and ask the copy"
    return said
