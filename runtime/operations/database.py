"""The operation database: an SQLite file that is connected, asked, changed and disconnected, in this order.

What is connected is kept by the kernel between the calls. Each call opens the file, acts in one transaction
and closes it: nothing is held open that a crash could lose.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, Touch, operation
from runtime.operations.databases import (
    head_of,
    keeps_a_log,
    may_read,
    opened,
    refuse_sql,
    rows,
    table,
    tables,
    why,
)
from runtime.operations.texts import regular
from runtime.operations.walking import Deadline

LARGEST = 2_000_000_000
"""Bytes that a database may grow to."""
_CHANGES = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ALTER_TABLE", "REINDEX", "ANALYZE", "SAVEPOINT"),
        *("CREATE_TABLE", "CREATE_INDEX", "CREATE_VIEW", "CREATE_TRIGGER"),
        *("DROP_TABLE", "DROP_INDEX", "DROP_VIEW", "DROP_TRIGGER", "DROP_VTABLE"),
    )
)
_MODULES = frozenset({"fts3", "fts4", "fts5", "rtree", "geopoly"})
"""Virtual tables that keep all they have inside the database."""
_CAN_ATTACH = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
Params = Sequence[Any] | Mapping[str, Any]


def _touches(ctx: OperationContext, action: str, path: str = "", **args: Any) -> tuple[Touch, ...]:
    """The files that a call may change: the database, and its log where it keeps one."""
    if action not in ("connect", "execute"):
        return ()
    name = path if action == "connect" else str(ctx.kept.get("path", ""))
    if action == "connect" and (args.get("mode") == "read" or not args.get("create")):
        return ()
    if not name or (action == "execute" and ctx.kept.get("mode") == "read"):
        return ()
    target = ctx.writable(name)
    log = target.is_file() and keeps_a_log(head_of(target, name))
    return tuple(Touch(each) for each in (target, *([_beside(target, "-wal")] if log else [])))


def _settle(ctx: OperationContext, action: str, **_: Any) -> None:
    """After a crash: SQLite itself takes back what an interrupted transaction had begun to write."""
    name = str(ctx.kept.get("path", ""))
    if action == "execute" and name and _beside(ctx.writable(name), "-journal").exists():
        with contextlib.suppress(OperationFailed), _transaction(ctx, name, Deadline(5)):
            pass


@operation(prepare=_touches, settle=_settle)
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
    refuse_sql("sql", sql, limit)
    if action == "query":
        return _query(ctx, name, sql, params, limit)
    if ctx.kept.get("mode") == "read":
        raise OperationFailed(f"{name} is connected with mode read; disconnect, then connect with mode write")
    return _execute(ctx, name, sql, params, limit)


def _connect(ctx: OperationContext, path: str, mode: str, create: bool) -> Result:
    if not path:
        raise OperationFailed("connect needs path: the database file")
    deadline = Deadline(ctx.timeout * 0.9)
    if mode == "write":
        target = ctx.writable(path)
        if create and not target.exists():
            disk.put(target, b"")
        if not target.exists():
            raise OperationFailed(f"{path}: there is no such file; create: true makes an empty database")
        with _transaction(ctx, path, deadline) as there:  # it can be written, and is whole
            found = tables(there)
    else:
        with _told(ctx, path, deadline) as there:
            found = tables(there)
    may = "to read it" if mode == "read" else "to read and change it"
    kept = {"path": path, "mode": mode}
    return Result(f"connected to {path}, {may}\n{found.text}", evidence=found.evidence, keep=kept)


def _query(ctx: OperationContext, name: str, sql: str, params: Any, limit: int) -> Result:
    with _told(ctx, name, Deadline(ctx.timeout * 0.9)) as there:
        return rows(there, sql, limit, _bound(params))


def _execute(ctx: OperationContext, name: str, sql: str, params: Any, limit: int) -> Result:
    statements = list(_statements(sql))
    if params and len(statements) != 1:
        raise OperationFailed("params: with more than one statement they cannot be told apart")
    with _transaction(ctx, name, Deadline(ctx.timeout * 0.9)) as there:
        before = there.total_changes
        given = None
        for statement in statements:
            if _many(params):
                there.executemany(statement, [_bound(each) for each in params])
                continue
            cursor = there.execute(statement, _bound(params))
            if cursor.description is not None:  # RETURNING, or a SELECT
                given = table(cursor, limit)
                cursor.fetchall()
        changed = there.total_changes - before
    told = f"{changed} row{'' if changed == 1 else 's'} changed"
    if len(statements) > 1:
        told = f"{len(statements)} statements, {told}"
    evidence = {"changed": changed, "statements": len(statements)}
    return Result(f"{told}\n{given.text}" if given else told, evidence=evidence)


@contextlib.contextmanager
def _told(ctx: OperationContext, name: str, deadline: Deadline) -> Iterator[sqlite3.Connection]:
    """The database, to be read; what goes wrong is told with the mend."""
    with opened(regular(ctx, name), name, deadline) as there:
        try:
            yield there
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise OperationFailed(f"{name}: {why(there, error, deadline)}") from None


@contextlib.contextmanager
def _transaction(ctx: OperationContext, name: str, deadline: Deadline) -> Iterator[sqlite3.Connection]:
    """The database in a transaction that is committed as a whole, or not at all."""
    ctx.writable(name)
    keeper = _Doorkeeper()
    with opened(regular(ctx, name), name, deadline, writing=True) as there:
        try:
            there.set_authorizer(None)
            there.execute("PRAGMA trusted_schema = OFF")
            there.execute("PRAGMA temp_store = MEMORY")
            (size,) = there.execute("PRAGMA page_size").fetchone()
            there.execute(f"PRAGMA max_page_count = {LARGEST // size}")
            there.execute("BEGIN IMMEDIATE")
            there.set_authorizer(keeper)
            yield there
            there.set_authorizer(None)
            there.set_progress_handler(None, 0)  # what is done is not given up half-way through its end
            there.execute("COMMIT")
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            there.set_authorizer(None)
            told = keeper.denied if "authorized" in str(error) or "prohibited" in str(error) else ""
            raise OperationFailed(f"{name}: {told or _why(there, error, deadline)}") from None


class _Doorkeeper:
    """Says which parts of a statement may run, and remembers why one may not."""

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
        elif action == sqlite3.SQLITE_TRANSACTION:
            self.denied = "a call is one transaction already; leave out BEGIN, COMMIT and ROLLBACK"
        elif action in _CAN_ATTACH:
            self.denied = "no other file can be attached or written, and VACUUM is not possible"
        elif action == sqlite3.SQLITE_PRAGMA:
            self.denied = f"PRAGMA {first} can be read at most, not set"
        else:
            self.denied = "this statement is not allowed here"
        return sqlite3.SQLITE_DENY


def _why(there: sqlite3.Connection, error: Exception, deadline: Deadline) -> str:
    said = str(error)
    if "readonly" in said:
        return "the file or its folder cannot be written; connect with mode read"
    if "locked" in said:
        return f"{said}: another program is writing; nothing was changed, try again"
    if "VACUUM" in said:
        return "VACUUM is not possible: a call is one transaction"
    if "is full" in said:
        return f"the disk is full, or it would grow above {LARGEST // 1_000_000:,} MB; nothing was changed"
    return why(there, error, deadline)


def _statements(sql: str) -> Iterator[str]:
    """The statements of a script, each as SQLite itself ends it."""
    whole = ""
    for part in sql.split(";"):
        whole += part + ";"
        if sqlite3.complete_statement(whole):
            if _says_something(whole):
                yield whole
            whole = ""
    if _says_something(whole.removesuffix(";")):
        yield whole.removesuffix(";")


def _says_something(statement: str) -> bool:
    lines = (line.strip().strip(";") for line in statement.splitlines())
    return any(line and not line.startswith("--") for line in lines)


def _many(params: Any) -> bool:
    """Whether the parameters are those of many rows."""
    each = cast(list[Any], params) if isinstance(params, list) else []
    return bool(each) and all(isinstance(one, list | dict) for one in each)


def _bound(params: Any) -> Params:
    """Parameters as SQLite takes them; a list or an object of its own is kept as JSON."""
    import json

    def plain(value: Any) -> Any:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value

    if isinstance(params, dict):
        return {name: plain(value) for name, value in cast(dict[str, Any], params).items()}
    return [plain(value) for value in cast(Sequence[Any], params)]


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)
