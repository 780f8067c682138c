"""SQLite files: the operation sqlite only reads, the operation database connects, reads and changes.

Each call opens the file, acts in one transaction and closes it, so a crash loses nothing.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch
from runtime import found_files
from runtime.operations.texts import as_csv, counted, os_errors, regular
from runtime.operations.walking import Deadline
from runtime.sandbox.context import OperationContext, operation

MOST_CHARACTERS = 1_000_000
LONGEST_VALUE = 20_000_000
"""Bytes of the largest value that a query may make."""
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
    """The rows of a SELECT as CSV; without a query, the tables with their columns."""
    refuse_sql("query", query)
    with _reading(ctx, path) as there:
        return rows(there, query, limit) if query.strip() else tables(there)


def refuse_sql(argument: str, sql: str) -> None:
    """Raise `OperationFailed` for SQL that is too long."""
    if len(sql) > LONGEST_SQL or "\0" in sql:
        raise OperationFailed(
            f"{argument}: longer than {LONGEST_SQL:,} characters, or with the character NUL"
        )


def head_of(target: Path, name: str) -> bytes:
    """The first bytes of an SQLite file; refuses any other."""
    with os_errors(name), disk.opened(target) as handle:
        head = handle.read(100)
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
    """Open a file with a time limit so that neither it nor a file beside it is changed.

    `writing`: the caller replaces the authorizer to allow changes.
    """
    head = head_of(target, name)
    # reading a database with a write-ahead log would create files beside it
    quiet = keeps_a_log(head) and not (found_files.version(_beside(target, "-wal")) or (0, 0))[1]
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
    """Restrict a connection: it only reads, stops at the deadline, and attaches nothing."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    database.set_progress_handler(lambda: int(deadline.over), _STEPS)
    database.set_authorizer(may_read)


_LITERAL = re.compile(
    r"""\[[^\]]*\]|`(?:[^`]|``)*`|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"((?:[^"]|"")*)\"""", re.DOTALL
)


def plain_names(sql: str) -> str:
    """The SQL with names in backticks; SQLite reads an unknown name in double quotes as a text."""

    def name(hit: re.Match[str]) -> str:
        if hit[1] is None:
            return hit[0]
        return "`" + hit[1].replace('""', '"').replace("`", "``") + "`"

    return _LITERAL.sub(name, sql)


def rows(database: sqlite3.Connection, query: str, limit: int, params: Any = ()) -> Result:
    """The rows of one statement as CSV with a header, at most `limit`."""
    cursor = database.execute(plain_names(query), params)
    if cursor.description is None:
        raise OperationFailed("query: this statement gives no rows; give one SELECT")
    return table(cursor, limit)


def table(cursor: sqlite3.Cursor, limit: int) -> Result:
    """The rows of a cursor as CSV with a header, at most `limit`."""
    found: list[str] = []
    size, more = 0, False
    for row in cursor:
        more = len(found) == limit or size > MOST_CHARACTERS
        if more:
            break
        found.append(as_csv([[cell(value) for value in row]]))
        size += len(found[-1])
    text = (as_csv([[column[0] for column in cursor.description]]) + "".join(found)).removesuffix("\n")
    if more:
        text += f"\n… only the first {len(found):,} rows; count or sum in the query, or raise limit"
    return Result(text, evidence={"rows": len(found), "more": more})


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
    """The authorizer of connections that only read."""
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
    """The tables and views with their columns and number of rows."""
    found = database.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' "
        "ESCAPE '~' ORDER BY name"
    ).fetchall()
    lines: list[str] = []
    for name, kind in found[:_TABLES]:
        quoted = '"' + name.replace('"', '""') + '"'
        columns = database.execute(f"PRAGMA table_info({quoted})").fetchall()
        listed = ", ".join(f"{column[1]} {column[2]}".strip() for column in columns)
        if kind == "view":
            lines.append(f"{name} (view: {listed})")
        else:
            count = database.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
            lines.append(f"{name} ({listed}): {counted(count, 'row')}")
    if len(found) > _TABLES:
        lines.append(f"… and {len(found) - _TABLES} more tables; their names are in sqlite_master")
    return Result(
        "\n".join(lines) or "there is no table", evidence={"tables": [name for name, _ in found][:500]}
    )


def error_text(database: sqlite3.Connection, error: Exception, deadline: Deadline) -> str:
    """The error with its remedy."""
    text = str(error)
    if deadline.over or text == "interrupted":
        return f"the query took longer than {deadline.seconds:.0f} s and was stopped; make it narrower"
    if re.search("not authorized|denied|prohibited|readonly", text):
        return "only SELECT can be run here (also WITH … SELECT); nothing can be changed or attached"
    if "one statement" in text:
        return "one statement at a time; make a step of each"
    if "no such table" in text or "no such column" in text:
        with contextlib.suppress(sqlite3.Error):
            return f"{text}; there are {'; '.join(tables(database).text.splitlines()[:8])}"
    if "locked" in text or "unable to open" in text:
        return f"{text}: another program holds it, or stopped while it wrote; copy the file and ask the copy"
    if "malformed" in text or "not a database" in text:
        return f"{text}: the file is damaged; `sqlite3 FILE .recover` in bash saves what can be read"
    return text


LARGEST = 2_000_000_000
"""Bytes of the largest database."""
_CHANGES = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ALTER_TABLE", "REINDEX", "ANALYZE", "SAVEPOINT"),
        *("CREATE_TABLE", "CREATE_INDEX", "CREATE_VIEW", "CREATE_TRIGGER"),
        *("DROP_TABLE", "DROP_INDEX", "DROP_VIEW", "DROP_TRIGGER", "DROP_VTABLE"),
    )
)
_MODULES = frozenset({"fts3", "fts4", "fts5", "rtree", "geopoly"})
"""Modules of virtual tables that store everything inside the database."""
_ATTACHED = "no other file can be attached or written, and VACUUM is not possible"
_DENIED = {
    sqlite3.SQLITE_TRANSACTION: "a call is one transaction already; leave out BEGIN, COMMIT and ROLLBACK",
    sqlite3.SQLITE_ATTACH: _ATTACHED,
    sqlite3.SQLITE_DETACH: _ATTACHED,
}
Params = Sequence[Any] | Mapping[str, Any]


def _changed_files(ctx: OperationContext, action: str, path: str = "", **args: Any) -> tuple[Touch, ...]:
    """The files that a call may change: the database, and its log where it keeps one."""
    connected = "" if ctx.kept.get("mode") == "read" else str(ctx.kept.get("path", ""))
    created = path if args.get("create") and args.get("mode") != "read" else ""
    name = {"connect": created, "execute": connected}.get(action, "")
    if not name:
        return ()
    target = ctx.writable(name)
    log = target.is_file() and keeps_a_log(head_of(target, name))
    return tuple(Touch(each) for each in (target, *([_beside(target, "-wal")] if log else [])))


def _settle(ctx: OperationContext, action: str, **_: Any) -> None:
    """After a crash: open the database, so that SQLite rolls back an interrupted transaction."""
    name = str(ctx.kept.get("path", ""))
    if action == "execute" and name and _beside(ctx.writable(name), "-journal").exists():
        with contextlib.suppress(OperationFailed), _transaction(ctx, name, 5):
            pass


@operation(prepare=_changed_files, settle=_settle)
def database(
    ctx: OperationContext,
    action: str,
    path: str = "",
    mode: str = "write",
    create: bool = False,
    sql: str = "",
    params: Any = (),
    limit: int = 200,
) -> Result:
    """One call: connect (path, mode, create), query (sql, params, limit), execute, or disconnect."""
    if action == "connect":
        return _connect(ctx, path, mode, create)
    name = str(ctx.kept.get("path", ""))
    if action == "disconnect":
        return Result(f"disconnected from {name}", keep={})
    if not sql.strip():
        raise OperationFailed(f"{action} needs sql")
    refuse_sql("sql", sql)
    if action == "query":
        with _reading(ctx, name) as there:
            return rows(there, sql, limit, _bound(params))
    if ctx.kept.get("mode") == "read":
        raise OperationFailed(f"{name} is connected with mode read; disconnect, then connect with mode write")
    return _execute(ctx, name, sql, params, limit)


def _connect(ctx: OperationContext, path: str, mode: str, create: bool) -> Result:
    if not path:
        raise OperationFailed("connect needs path: the database file")
    if mode == "write":
        target = ctx.writable(path)
        if create and not target.exists():
            disk.put(target, b"")
        if not target.exists():
            raise OperationFailed(f"{path}: there is no such file; create: true makes an empty database")
    opens = _transaction if mode == "write" else _reading  # a transaction checks that it can be written
    with opens(ctx, path) as there:
        found = tables(there)
    may = "to read it" if mode == "read" else "to read and change it"
    connection = {"path": path, "mode": mode}
    return Result(f"connected to {path}, {may}\n{found.text}", evidence=found.evidence, keep=connection)


def _execute(ctx: OperationContext, name: str, sql: str, params: Any, limit: int) -> Result:
    statements = [each for each in _statements(sql) if _has_statement(each)]
    if params and len(statements) != 1:
        raise OperationFailed("params: with more than one statement it is unclear which one they belong to")
    with _transaction(ctx, name) as there:
        before = there.total_changes
        result = None
        for statement in statements:
            if _many(params):
                there.executemany(statement, [_bound(each) for each in params])
                continue
            cursor = there.execute(statement, _bound(params))
            if cursor.description is not None:  # RETURNING, or a SELECT
                result = table(cursor, limit)
                cursor.fetchall()
        changed = there.total_changes - before
    text = f"{counted(changed, 'row')} changed"
    if len(statements) > 1:
        text = f"{len(statements)} statements, {text}"
    evidence = {"changed": changed, "statements": len(statements)}
    return Result(f"{text}\n{result.text}" if result else text, evidence=evidence)


@contextlib.contextmanager
def _reading(ctx: OperationContext, name: str) -> Iterator[sqlite3.Connection]:
    """The database opened for reading; errors become `OperationFailed` with a remedy."""
    deadline = Deadline(ctx.timeout * 0.9)
    with opened(regular(ctx, name), name, deadline) as there:
        try:
            yield there
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise OperationFailed(f"{name}: {error_text(there, error, deadline)}") from None


@contextlib.contextmanager
def _transaction(ctx: OperationContext, name: str, seconds: float = 0) -> Iterator[sqlite3.Connection]:
    """The database in one transaction."""
    ctx.writable(name)
    deadline = Deadline(seconds or ctx.timeout * 0.9)
    authorizer = _Authorizer()
    with opened(regular(ctx, name), name, deadline, writing=True) as there:
        try:
            there.set_authorizer(None)
            there.execute("PRAGMA trusted_schema = OFF")
            there.execute("PRAGMA temp_store = MEMORY")
            (size,) = there.execute("PRAGMA page_size").fetchone()
            there.execute(f"PRAGMA max_page_count = {LARGEST // size}")
            there.execute("BEGIN IMMEDIATE")
            there.set_authorizer(authorizer)
            yield there
            there.set_authorizer(None)
            there.set_progress_handler(None, 0)  # do not interrupt the commit
            there.execute("COMMIT")
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            there.set_authorizer(None)
            denied = authorizer.denied if "authorized" in str(error) or "prohibited" in str(error) else ""
            raise OperationFailed(f"{name}: {denied or _change_error(there, error, deadline)}") from None


class _Authorizer:
    """The authorizer of connections that change the database; `denied` is the last reason."""

    def __init__(self) -> None:
        self.denied = ""

    def __call__(
        self, action: int, first: str | None, second: str | None, place: str | None, _: str | None
    ) -> int:
        contained = action == sqlite3.SQLITE_CREATE_VTABLE and (second or "").lower() in _MODULES
        if place == "temp" and action in _CHANGES:
            self.denied = "a temporary table is gone after its call; make an ordinary one, and drop it"
        elif action in _CHANGES or may_read(action, first, second) == sqlite3.SQLITE_OK or contained:
            return sqlite3.SQLITE_OK
        elif action == sqlite3.SQLITE_PRAGMA:
            self.denied = f"PRAGMA {first} can be read at most, not set"
        else:
            self.denied = _DENIED.get(action, "this statement is not allowed here")
        return sqlite3.SQLITE_DENY


def _change_error(there: sqlite3.Connection, error: Exception, deadline: Deadline) -> str:
    message = str(error)
    if "readonly" in message:
        return "the file or its folder cannot be written; connect with mode read"
    if "locked" in message:
        return f"{message}: another program is writing; nothing was changed, try again"
    if "VACUUM" in message:
        return "VACUUM is not possible: a call is one transaction"
    if "is full" in message:
        return f"the disk is full, or it would grow above {LARGEST // 1_000_000:,} MB; nothing was changed"
    return error_text(there, error, deadline)


def _statements(sql: str) -> Iterator[str]:
    """The statements of a script, split as SQLite does."""
    whole = ""
    for part in sql.split(";"):
        whole += part + ";"
        if sqlite3.complete_statement(whole):
            yield whole
            whole = ""
    yield whole.removesuffix(";")


def _has_statement(statement: str) -> bool:
    lines = (line.strip().strip(";") for line in statement.splitlines())
    return any(line and not line.startswith("--") for line in lines)


def _many(params: Any) -> bool:
    """Whether the parameters are a list of rows."""
    return isinstance(params, list) and bool(params) and all(isinstance(row, list | dict) for row in params)


def _bound(params: Any) -> Params:
    """Parameters for SQLite; lists and objects are stored as JSON."""
    if isinstance(params, dict):
        return dict(zip(params, _bound(list(params.values())), strict=True))
    return [
        json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value for value in params
    ]


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)
