"""The operation sqlite: a question to an SQLite file, in SQL that can only read."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kernel import disk
from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations.texts import regular, trouble
from runtime.operations.walking import Deadline

MOST_ROWS = 10_000
MOST_CHARACTERS = 1_000_000
LONGEST_VALUE = 20_000_000
"""Bytes of a value that a query may make: it could ask for a text that fills the memory."""
LONGEST_SQL = 100_000
_STEPS = 20_000  # of SQLite's machine between two looks at the clock
_TABLES = 100
HEADER = b"SQLite format 3\0"
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_PRAGMAS = frozenset(
    "table_info table_xinfo table_list index_list index_info foreign_key_list user_version encoding".split()  # noqa: SIM905
)
WAL = 2  # in byte 18 of the file


@operation()
def query_sqlite(ctx: OperationContext, path: str, query: str = "", limit: int = 200) -> Result:
    """The rows that a SELECT gives, as CSV; without a query, the tables with their columns."""
    refuse_sql("query", query, limit)
    target = regular(ctx, path)
    deadline = Deadline(ctx.timeout * 0.9)
    with opened(target, path, deadline) as database:
        try:
            return rows(database, query, limit) if query.strip() else tables(database)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise OperationFailed(f"{path}: {why(database, error, deadline)}") from None


def refuse_sql(argument: str, sql: str, limit: int = 1) -> None:
    """Raise `OperationFailed` for SQL that is too long, or a limit that is none."""
    if not 1 <= limit <= MOST_ROWS:
        raise OperationFailed(f"limit: {limit} is not between 1 and {MOST_ROWS:,}")
    if len(sql) > LONGEST_SQL or "\0" in sql:
        raise OperationFailed(
            f"{argument}: longer than {LONGEST_SQL:,} characters, or with the character NUL"
        )


def head_of(target: Path, name: str) -> bytes:
    """The first bytes of an SQLite file; refuses any other."""
    try:
        with disk.opened(target) as handle:
            head = handle.read(100)
    except OSError as error:
        raise trouble(name, error) from None
    if head and not head.startswith(HEADER):
        raise OperationFailed(f"{name}: this is not an SQLite database")
    return head


def keeps_a_log(head: bytes) -> bool:
    """Whether the database writes ahead into a file beside it."""
    return len(head) > 18 and head[18] == WAL


@contextlib.contextmanager
def opened(
    target: Path, name: str, deadline: Deadline, *, writing: bool = False
) -> Iterator[sqlite3.Connection]:
    """The file with a clock and a doorkeeper, opened so that nothing in it or beside it is changed.

    `writing`: opened to be changed; letting that in is for the caller, who has the doorkeeper replaced.
    """
    head = head_of(target, name)
    # a database with a write-ahead log would get files beside it even when it is only read
    quiet = keeps_a_log(head) and not _filled(target, "-wal")
    mode = "mode=rw" if writing else f"mode=ro{'&immutable=1' if quiet else ''}"
    database = sqlite3.connect(
        f"file:{quote(str(target))}?{mode}",
        uri=True,
        timeout=min(5, deadline.left / 2),
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        guard(database, deadline)
        yield database
    finally:
        database.close()


def guard(database: sqlite3.Connection, deadline: Deadline) -> None:
    """From here on the connection only reads, stops when the time is over, and attaches nothing."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.text_factory = _text
    database.set_progress_handler(lambda: int(deadline.over), _STEPS)
    database.set_authorizer(may_read)


_LITERAL = re.compile(
    r"""\[[^\]]*\]|`(?:[^`]|``)*`|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)\"""", re.DOTALL
)


def plain_names(sql: str) -> str:
    """The same SQL with names in backticks: SQLite takes an unknown name in double quotes for a text."""

    def name(hit: re.Match[str]) -> str:
        if hit[1] is None:
            return hit[0]
        return "`" + hit[1].replace('""', '"').replace("`", "``") + "`"

    return _LITERAL.sub(name, sql)


def _filled(target: Path, suffix: str) -> bool:
    beside = target.with_name(target.name + suffix)
    return beside.is_file() and beside.stat().st_size > 0


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def rows(database: sqlite3.Connection, query: str, limit: int, params: Any = ()) -> Result:
    """What one statement gives, as CSV with a header; says where there is more than `limit` rows."""
    cursor = database.execute(plain_names(query), params)
    if cursor.description is None:
        raise OperationFailed("query: this statement gives no rows; give one SELECT")
    return table(cursor, limit)


def table(cursor: sqlite3.Cursor, limit: int) -> Result:
    """The rows of a statement that gives some."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column[0] for column in cursor.description])
    count = 0
    more = False
    for row in cursor:
        if count == limit or out.tell() > MOST_CHARACTERS:
            more = True
            break
        writer.writerow([cell(value) for value in row])
        count += 1
    text = out.getvalue().removesuffix("\n")
    if more:
        text += f"\n… only the first {count:,} rows; count or sum in the query, or raise limit"
    return Result(text, evidence={"rows": count, "more": more})


def cell(value: Any) -> str:
    """A value as a cell of CSV; NULL is an empty one."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"x'{value[:32].hex()}'" if len(value) <= 32 else f"({len(value)} bytes)"
    if isinstance(value, float):  # as the program sqlite3 shows it: 0.1 + 0.2 is 0.3
        shown = f"{value:.15g}"
        return shown if re.search(r"[.en]", shown) else f"{shown}.0"
    return str(value)


def may_read(action: int, first: str | None, second: str | None, *_: Any) -> int:
    """The doorkeeper of those that only read."""
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() == "load_extension" else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
        # only user_version and encoding would take a new value
        writes = second is not None and (first or "").lower() in ("user_version", "encoding")
        return sqlite3.SQLITE_DENY if writes else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def tables(database: sqlite3.Connection) -> Result:
    """The tables and views with their columns and how many rows they have."""
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


def why(database: sqlite3.Connection, error: Exception, deadline: Deadline) -> str:
    """What went wrong, with the mend."""
    said = str(error)
    if deadline.over or said == "interrupted":
        return f"the query took longer than {deadline.seconds:.0f} s and was stopped; make it narrower"
    if "not authorized" in said or "denied" in said or "prohibited" in said or "readonly" in said:
        return "only SELECT can be run here (also WITH … SELECT); nothing can be changed or attached"
    if "one statement" in said:
        return "one statement at a time; make a step of each"
    if "no such table" in said or "no such column" in said:
        with contextlib.suppress(sqlite3.Error):
            return f"{said}; there are {'; '.join(tables(database).text.splitlines()[:8])}"
    if "locked" in said or "unable to open" in said:
        return f"{said}: another program holds it, or stopped while it wrote; copy the file and ask the copy"
    if "malformed" in said or "not a database" in said:
        return f"{said}: the file is damaged; `sqlite3 FILE .recover` in bash saves what can be read"
    return said
