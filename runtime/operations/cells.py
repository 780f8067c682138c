"""A table of text cells from CSV, loaded into SQLite in memory to be queried.

A column is numeric only if each cell that is not empty is a number with the same mark of money or percent.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from kernel.errors import OperationFailed
from runtime.operations.database import cell, error_text, guard, plain_names, refuse_sql
from runtime.operations.walking import Deadline

DELIMITERS = ",;\t|"
LONGEST_FIELD = 10_000_000
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,8})(?P<part>\.[0-9]{1,6})?")
_NUMBER = re.compile(
    r"(?P<sign>[-+−]?)(?P<before>[$€£¥]?) ?"
    r"(?P<digits>(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?P<power>[eE][-+]?[0-9]{1,3})? ?(?P<after>[$€£¥%]?)"
)
_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}\b")
_STARTS_IN_DIGITS = re.compile(r"[-+−$€£¥ ]*\d")
_ENOUGH_DIGITS = 800  # for an exact sum of the largest and the smallest number that SQLite holds


def number(text: str, grouped: bool = True) -> tuple[int | float, str] | None:
    """The number of a cell ("1,234.50", "$12", "15%") and its mark; None if it is no number.

    Also None for a number that SQLite cannot hold exactly, for a code such as 007, and for commas unless
    `grouped`.
    """
    if hit := _PLAIN.fullmatch(text):
        return (float(text) if hit["part"] else int(text)), ""
    hit = _NUMBER.fullmatch(text.strip()) if len(text) <= 100 else None
    if hit is None or (hit["before"] and hit["after"]) or ("," in hit["digits"] and not grouped):
        return None
    sign = "-" if hit["sign"] in ("-", "−") else ""
    exact = Decimal(f"{sign}{hit['digits'].replace(',', '')}{hit['power'] or ''}")
    mark = hit["before"] or hit["after"]
    if abs(exact) < 2**63 and exact == int(exact):
        return int(exact), mark
    real = float(exact)
    return (real, mark) if Decimal(repr(real)) == exact else None


class Column:
    """The cells of a column as numbers, None for other cells."""

    def __init__(self, cells: Sequence[str], grouped: bool) -> None:
        read = [number(cell, grouped) for cell in cells]
        marks = {each[1] for each in read if each}
        self.numbers = [each[0] if each else None for each in read]
        self.mark = next(iter(marks), "")
        self.mixed = len(marks) > 1
        words = any(value is None and cell.strip() for value, cell in zip(read, cells, strict=True))
        self.numeric = len(marks) == 1 and not words


@dataclass(frozen=True)
class Table:
    """A header and rows of the same length; cells are text. `grouped`: a comma may group thousands."""

    header: list[str]
    rows: list[list[str]]
    grouped: bool = True

    def place(self, name: str) -> int:
        """The index of a column by name, ignoring case; raises with the names that exist."""
        exact = [at for at, each in enumerate(self.header) if each == name]
        found = exact or [at for at, each in enumerate(self.header) if each.casefold() == name.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            raise OperationFailed(f"{name}: {len(found)} columns have this name; rename one")
        raise OperationFailed(f"there is no column {name!r}; there are {', '.join(self.header[:50])}")

    @cached_property
    def _columns(self) -> dict[int, Column]:
        return {}

    def column(self, at: int) -> Column:
        """The numbers of a column."""
        if at not in self._columns:
            self._columns[at] = Column([row[at] for row in self.rows], self.grouped)
        return self._columns[at]

    def ask(self, places: Iterable[int], sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT on the table `cells`.

        Column 3 is `t3` as text without blanks around it, `f3` the same in lower case, and `n3` as a number.
        """
        columns: dict[str, Iterable[Any]] = {"row INTEGER PRIMARY KEY": range(len(self.rows))}
        for at in sorted(set(places)):
            columns[f"t{at} TEXT"] = texts = [row[at].strip() for row in self.rows]
            columns[f"f{at} TEXT"] = [text.casefold() for text in texts]
            columns[f"n{at}"] = self.column(at).numbers
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            _create(database, "cells", columns)
            return database.execute(sql, params).fetchall()

    def refuse_unordered(self, at: int, *more: str) -> None:
        """Raise unless a column (and `more`) holds only numbers, or texts with an obvious order."""
        if self.column(at).numeric and not more:
            return
        cells = [*(cell for row in self.rows if (cell := row[at].strip())), *more]
        begins = [cell for cell in cells if _STARTS_IN_DIGITS.match(cell)]
        if dated := next((cell for cell in begins if _DATE.match(cell)), ""):
            raise OperationFailed(
                f"{self.header[at]}: dates such as {dated[:30]} have no order as text; write 2024-03-01"
            )
        lengths = {tuple(map(len, re.findall(r"\d+", cell))) for cell in begins}
        codes = all(cell.isdigit() for cell in cells) and len(lengths) == 1
        plain = len(lengths) < 2 and not any(cell[0] in "-−" or number(cell, self.grouped) for cell in begins)
        if not (plain or codes):
            odd = next((cell for cell in cells if not number(cell, self.grouped)), cells[-1])
            raise OperationFailed(
                f"{self.header[at]}: {odd[:60]!r} is not a number like the others, so there is no order; "
                f'leave it out first: rows where {self.header[at]} != "{odd[:60]}" | …'
            )


def _create(database: sqlite3.Connection, name: str, columns: Mapping[str, Iterable[Any]]) -> None:
    """Create a table of these columns, with the cells of each."""
    database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    holes = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {name} VALUES ({holes})", zip(*columns.values(), strict=True))


AGGREGATES: Mapping[str, Callable[[list[Decimal]], Decimal | Fraction | int]] = {
    "sum": sum,
    "average": lambda numbers: Fraction(sum(numbers)) / len(numbers),
    "min": min,
    "max": max,
    "median": statistics.median,
}


def aggregated(name: str, numbers: Iterable[float]) -> Fraction:
    """The exact sum, average, … of at least one number."""
    with localcontext(prec=_ENOUGH_DIGITS):
        return Fraction(AGGREGATES[name]([Decimal(repr(each)) for each in numbers]))


def read_table(text: str, name: str) -> Table:
    """A table from CSV text, whose first row is the header, or from a JSON list of objects."""
    if not text.strip():
        raise OperationFailed(f"{name}: there is no table, the file is empty")
    if text.lstrip()[0] in "[{" and (objects := objects_of(text)):
        return _from_objects(objects)
    csv.field_size_limit(LONGEST_FIELD)
    widest = delimiters(text)
    found: list[Table] = []
    faults: list[OperationFailed] = []
    for delimiter in widest:
        try:
            found.append(_parsed(text, name, delimiter))
        except OperationFailed as error:
            faults.append(error)
    if len(found) > 1:
        raise OperationFailed(f"{name}: the cells may be separated by {' or by '.join(widest)}; use one only")
    if not found:
        raise faults[0]
    return found[0]


def objects_of(text: str) -> list[dict[str, Any]]:
    """The objects of a JSON list, or of the only list inside an object; none for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(found, dict):
        lists = [each for each in cast(dict[str, Any], found).values() if isinstance(each, list)]
        found = lists[0] if len(lists) == 1 else []
    rows = cast(list[Any], found) if isinstance(found, list) else []
    return rows if all(isinstance(row, dict) for row in rows) else []


def _from_objects(objects: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each object; a column for each key. Lists and objects inside stay JSON."""
    header = list(dict.fromkeys(key for each in objects for key in each))
    rows = [["" if each.get(key) is None else _json_cell(each[key]) for key in header] for each in objects]
    return Table(header, rows, grouped=False)


def _json_cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def delimiters(text: str) -> list[str]:
    """Those that divide the header of CSV text into the most cells; a comma if none does."""
    widths = {each: _width(text, each) for each in DELIMITERS}
    return [each for each in DELIMITERS if widths[each] == max(widths.values()) > 1] or [","]


def _width(text: str, delimiter: str) -> int:
    """The cells of the header with this delimiter; 0 if it cannot be read."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return len(next(filter(None, reader), ()))
    except csv.Error:
        return 0


def _parsed(text: str, name: str, delimiter: str) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    try:
        for row in filter(None, reader):  # without empty lines
            rows.append(row)
            if len(row) != len(rows[0]):
                raise OperationFailed(
                    f"{name}: line {reader.line_num} has {len(row)} cells, the header {len(rows[0])}; "
                    "quote cells that hold the delimiter"
                )
    except csv.Error as error:
        raise OperationFailed(f"{name}: line {reader.line_num}: {error}") from None
    return Table([cell.strip() for cell in rows[0]], rows[1:], grouped=delimiter != ";")


MOST_ROWS = 1_000_000


def selected(
    table: Table, query: str, name: str, deadline: Deadline, more: Mapping[str, Table] | None = None
) -> Table:
    """The rows of a SELECT from the table `data`, which is also named as the file, and from `more` tables."""
    refuse_sql("query", query)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        try:
            _load(database, table, "data")
            if name and name.lower() != "data":
                database.execute(f"CREATE VIEW {_quoted(name)} AS SELECT * FROM data")
            for each, other in (more or {}).items():
                _load(database, other, _quoted(each))
            guard(database, deadline)
            cursor = database.execute(plain_names(query))
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise OperationFailed(f"query: {error_text(database, error, deadline)}") from None
    if len(rows) > MOST_ROWS:
        raise OperationFailed(f"query: gives more than {MOST_ROWS:,} rows; count or sum in it, or add LIMIT")
    return Table([each[0] for each in cursor.description], [[cell(value) for value in row] for row in rows])


def _load(database: sqlite3.Connection, table: Table, name: str) -> None:
    """Create a table with all columns under their names, numbers as numbers and empty cells as NULL."""
    lows = [each.lower() for each in table.header]
    columns: dict[str, Iterable[Any]] = {}
    for at, title in enumerate(table.header):
        column = table.column(at)
        own = title if title and lows.count(lows[at]) == 1 else f"{title} ({at + 1})".strip()
        try:
            table.refuse_unordered(at)
        except OperationFailed:
            own += " (text)"  # its order and sum are not those of numbers
        typed = f"{_quoted(own)} {'NUMERIC' if column.numeric else 'TEXT'}"
        columns[typed] = column.numbers if column.numeric else [row[at] or None for row in table.rows]
    _create(database, name, columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
