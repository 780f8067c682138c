"""The language of questions about a table: `rows where a > 1 | sort by b desc | columns a, b | top 3 by a`.

Each part between bars takes the table that the part before it gave. Names of columns are matched without
regard to case; one with spaces may be quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from kernel.errors import OperationFailed
from runtime.operations import figures
from runtime.operations.conditions import condition

LONGEST = 2_000
_ZERO = Decimal(0)
HELP = (
    "write header, count, count by COLUMN, sum|average|min|max|median COLUMN [by COLUMN], unique COLUMN, "
    "rows where COLUMN > VALUE, columns A, B, sort by COLUMN [desc], top N by COLUMN, first N; "
    "each may end in `where …`, and | joins several"
)


@dataclass(frozen=True)
class Table:
    """A header and rows of its length; all cells are text."""

    header: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> int:
        """The place of a column; raises with the names that there are."""
        wanted = name.strip().strip("\"'`").strip()
        exact = [at for at, each in enumerate(self.header) if each == wanted]
        loose = [at for at, each in enumerate(self.header) if each.casefold() == wanted.casefold()]
        for found in (exact, loose):
            if len(found) == 1:
                return found[0]
            if found:
                raise OperationFailed(f"{wanted}: {len(found)} columns have this name; rename one")
        raise OperationFailed(f"there is no column {wanted!r}; there are {', '.join(self.header[:50])}")

    def with_rows(self, rows: list[list[str]]) -> Table:
        """The same columns with other rows."""
        return Table(self.header, rows)


@dataclass(frozen=True)
class Answer:
    """What a question gave: a table, or a text; and what was noted beside it."""

    table: Table | None
    text: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])


def answer(table: Table, query: str) -> Answer:
    """Work through the parts of a question; raises when it cannot be read, with how to write it."""
    if len(query) > LONGEST:
        raise OperationFailed(f"the query is longer than {LONGEST:,} characters")
    parts = [part for part in _split(query) if part]
    if not parts:
        raise OperationFailed(f"the query is empty; {HELP}")
    now = Answer(table)
    for part in parts:
        if now.table is None:
            raise OperationFailed(f"{part!r} needs a table, and what stands before it gives none")
        now = _step(now.table, part)
    return now


_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|`[^`]*`")
_KEPT = "\ue000", "\ue001"
"""What spaces and bars within quotes are while a question is taken apart."""


def _split(query: str) -> list[str]:
    """At bars outside of quotes."""
    kept = _QUOTED.sub(lambda hit: hit[0].replace(" ", _KEPT[0]).replace("|", _KEPT[1]), query)
    return [" ".join(piece.split()) for piece in kept.split("|")]


def _step(table: Table, part: str) -> Answer:
    for pattern, act in _COMMANDS:
        if hit := pattern.fullmatch(part):
            groups = {
                name: value.replace(_KEPT[0], " ").replace(_KEPT[1], "|") if value else value
                for name, value in hit.groupdict().items()
            }
            if where := groups.pop("where", None):
                test = condition(table.column, table.header, where)
                table = table.with_rows([row for row in table.rows if test(row)])
            return act(table, groups)
    raise OperationFailed(f"{part!r} cannot be read; {HELP}")


def _rows(table: Table, groups: Mapping[str, str]) -> Answer:
    return Answer(table)


def _header(table: Table, groups: Mapping[str, str]) -> Answer:
    return Answer(None, "\n".join(table.header), {"columns": len(table.header)})


def _count(table: Table, groups: Mapping[str, str]) -> Answer:
    if groups["column"] and not _means_rows(table, groups["column"]):
        full = table.column(groups["column"])
        table = table.with_rows([row for row in table.rows if row[full].strip()])
    if not groups["by"]:
        return Answer(None, str(len(table.rows)))
    at = table.column(groups["by"])
    counted = [[key, str(len(rows))] for key, rows in _groups(table, at)]
    return Answer(Table([table.header[at], "count"], counted))


def _means_rows(table: Table, name: str) -> bool:
    """`count rows`, where no column is called so; of any other column the cells that hold something count."""
    word = name.lower().removeprefix("the ").strip("\"'`")
    return word in ("rows", "records", "entries", "lines") and word not in map(str.lower, table.header)


def _groups(table: Table, at: int) -> list[tuple[str, list[list[str]]]]:
    found: dict[str, list[list[str]]] = {}
    for row in table.rows:
        found.setdefault(row[at].strip(), []).append(row)
    return sorted(found.items(), key=lambda pair: _order(pair[0]))


def _aggregate(table: Table, groups: Mapping[str, str]) -> Answer:
    name = groups["name"].lower()
    at = table.column(groups["column"])
    act = _AGGREGATES[name]
    if not groups["by"]:
        numbers = _numbers(table, at, table.rows)
        value = act(numbers) if numbers or name in ("sum", "total") else None
        if value is None:
            raise OperationFailed(f"there are no numbers in {table.header[at]} to take the {name} of")
        left_out = len(table.rows) - len(numbers)
        evidence = {"numbers": len(numbers), "exact": str(value)} | ({"empty": left_out} if left_out else {})
        return Answer(None, figures.shown(value), evidence)
    by = table.column(groups["by"])
    rows: list[list[str]] = []
    for key, members in _groups(table, by):
        numbers = _numbers(table, at, members)
        rows.append([key, figures.shown(act(numbers)) if numbers else ""])
    return Answer(Table([table.header[by], f"{name} of {table.header[at]}"], rows))


def _numbers(table: Table, at: int, rows: Sequence[Sequence[str]]) -> list[Decimal]:
    found: list[Decimal] = []
    for row in rows:
        cell = row[at].strip()
        if not cell:
            continue
        value = figures.number(cell)
        if value is None:
            raise OperationFailed(
                f"{table.header[at]}: {cell[:60]!r} is not a number; leave it out with "
                f'where {table.header[at]} != "{cell[:60]}"'
            )
        found.append(value)
    return found


def _middle(numbers: Sequence[Decimal]) -> Fraction:
    ranked = sorted(numbers)
    half = len(ranked) // 2
    return _mean(ranked[half : half + 1] if len(ranked) % 2 else ranked[half - 1 : half + 1])


def _mean(numbers: Sequence[Decimal]) -> Fraction:
    return figures.total(numbers) / len(numbers)


_AGGREGATES: Mapping[str, Callable[[Sequence[Decimal]], Fraction]] = {
    "sum": figures.total,
    "total": figures.total,
    "average": _mean,
    "mean": _mean,
    "min": lambda numbers: Fraction(min(numbers)),
    "minimum": lambda numbers: Fraction(min(numbers)),
    "max": lambda numbers: Fraction(max(numbers)),
    "maximum": lambda numbers: Fraction(max(numbers)),
    "median": _middle,
}


def _unique(table: Table, groups: Mapping[str, str]) -> Answer:
    at = table.column(groups["column"])
    return Answer(Table([table.header[at]], [[key] for key, _ in _groups(table, at)]))


def _columns(table: Table, groups: Mapping[str, str]) -> Answer:
    names = re.findall(r"\"[^\"]*\"|'[^']*'|`[^`]*`|[^,]+", groups["names"])
    places = [table.column(name) for name in names if name.strip()]
    return Answer(
        Table([table.header[at] for at in places], [[row[at] for at in places] for row in table.rows])
    )


def _sort(table: Table, groups: Mapping[str, str]) -> Answer:
    return Answer(_sorted(table, groups["column"], (groups["order"] or "").lower().startswith("desc")))


def _sorted(table: Table, column: str, descending: bool) -> Table:
    """By number where cells are numbers, else as words; cells without anything come last."""
    at = table.column(column)
    full = [row for row in table.rows if row[at].strip()]
    empty = [row for row in table.rows if not row[at].strip()]
    full.sort(key=lambda row: _order(row[at].strip()), reverse=descending)
    return table.with_rows([*full, *empty])


def _order(cell: str) -> tuple[int, Decimal, str, str]:
    value = figures.number(cell)
    return (0, value, "", cell) if value is not None else (1, _ZERO, cell.casefold(), cell)


def _top(table: Table, groups: Mapping[str, str]) -> Answer:
    ranked = _sorted(table, groups["column"], groups["end"].lower() == "top")
    return Answer(table.with_rows(ranked.rows[: int(groups["n"] or 1)]))


def _slice(table: Table, groups: Mapping[str, str]) -> Answer:
    n = int(groups["n"] or 1)
    first = groups["end"].lower() == "first"
    return Answer(table.with_rows(table.rows[:n] if first else table.rows[max(0, len(table.rows) - n) :]))


_WHERE = r"(?:\s*\bwhere\s+(?P<where>.+))?"
_N = r"(?:\s+(?P<n>\d{1,9}))?"
_COMMANDS: tuple[tuple[re.Pattern[str], Callable[[Table, Mapping[str, str]], Answer]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), act)
    for pattern, act in (
        (r"header|columns|column names", _header),
        (rf"(?:(?:all|show|select)\s+)?(?:the\s+)?rows{_WHERE}", _rows),
        (r"(?:where|filter)\s+(?P<where>.+)", _rows),
        (rf"count(?:\s+(?P<column>(?!by\b|where\b).+?))?(?:\s+by\s+(?P<by>.+?))?{_WHERE}", _count),
        (
            rf"(?P<name>{'|'.join(_AGGREGATES)})\s+(?:of\s+)?(?P<column>.+?)(?:\s+by\s+(?P<by>.+?))?{_WHERE}",
            _aggregate,
        ),
        (rf"(?:unique|distinct)\s+(?P<column>.+?){_WHERE}", _unique),
        (rf"(?:columns?|select)\s+(?P<names>.+?){_WHERE}", _columns),
        (
            rf"sort(?:ed)?(?:\s+by)?\s+(?P<column>.+?)(?:\s+(?P<order>asc|desc|ascending|descending))?{_WHERE}",
            _sort,
        ),
        (rf"(?P<end>top|bottom){_N}(?:\s+rows)?\s+by\s+(?P<column>.+?){_WHERE}", _top),
        (rf"(?P<end>first|last){_N}(?:\s+rows)?{_WHERE}", _slice),
    )
)
