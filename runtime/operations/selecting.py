"""A SELECT of plain SQL from a table, by SQLite in memory; it can read that table and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from kernel.errors import OperationFailed
from runtime.operations.cells import Table
from runtime.operations.databases import cell, guard, plain_names, refuse_sql, why
from runtime.operations.walking import Deadline

MOST_ROWS = 1_000_000


def selected(table: Table, query: str, name: str, deadline: Deadline) -> Table:
    """The rows of a SELECT from the table `data`, which has the name of the file as well."""
    refuse_sql("query", query)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        try:
            _load(database, table, name)
            guard(database, deadline)
            cursor = database.execute(plain_names(query))
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise OperationFailed(f"query: {why(database, error, deadline)}") from None
    if len(rows) > MOST_ROWS:
        raise OperationFailed(f"query: gives more than {MOST_ROWS:,} rows; count or sum in it, or add LIMIT")
    return Table([each[0] for each in cursor.description], [[cell(value) for value in row] for row in rows])


def _load(database: sqlite3.Connection, table: Table, name: str) -> None:
    """All columns under their names, numbers as numbers and empty cells as NULL."""
    lows = [each.lower() for each in table.header]
    typed: list[str] = []
    values: list[Sequence[Any]] = []
    for at, each in enumerate(table.header):
        column = table.column(at)
        own = each if each and lows.count(lows[at]) == 1 else f"{each} ({at + 1})".strip()
        try:
            table.refuse_unordered(at)
        except OperationFailed:
            own += " (text)"  # so that nobody takes its order or sum for one of numbers
        typed.append(f"{_quoted(own)} {'NUMERIC' if column.numeric else 'TEXT'}")
        values.append(column.numbers if column.numeric else [row[at] or None for row in table.rows])
    database.execute(f"CREATE TABLE data ({', '.join(typed)})")
    holes = ", ".join("?" * len(values))
    database.executemany(f"INSERT INTO data VALUES ({holes})", zip(*values, strict=True))
    if name and name.lower() != "data":
        database.execute(f"CREATE VIEW {_quoted(name)} AS SELECT * FROM data")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
