"""The operation csv: questions about a table, such as `sum amount by region`, or plain SQL.

A question becomes a SELECT for SQLite. A question that is not understood to its last word is refused.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch, bytes_hash
from runtime.operations import quantities
from runtime.operations.cells import AGGREGATES, Column, Table, aggregated, number, read_table, selected
from runtime.operations.texts import as_csv, encoded, file_or_text, save_to
from runtime.operations.walking import Deadline
from runtime.sandbox.context import OperationContext, operation

LONGEST = 2_000
HELP = (
    "write header, rows, count [COLUMN], sum|average|min|max|median COLUMN, unique COLUMN, columns A, B, "
    "without A, sort by COLUMN [desc], top|bottom N by COLUMN, first|last N; "
    "after it `where COLUMN > VALUE and …`, `by COLUMN` to group, `sort by COLUMN`; "
    "a bar joins several; or SELECT … FROM data"
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`)"""
    r"""|(?P<sign><=|>=|!=|<>|==|[=<>(),|])|(?P<word>[^\s()<>=!,"'`|]+))"""
)
_VERBS = {"total": "sum", "mean": "average", "minimum": "min", "maximum": "max", "distinct": "unique"}
_CLAUSES: Mapping[tuple[str, ...], str] = {
    ("where",): "where",
    ("by",): "by",
    **{(verb, "by"): "sort" for verb in ("sort", "sorted", "order", "ordered")},
}
_COMPARISONS: Mapping[tuple[str, ...], str] = {
    tuple(words.split()): sign
    for words, sign in re.findall(
        r"(.+?): (.+?)(?:, |$)",
        "is not empty: not empty, is empty: empty, contains: contains, does not contain: not contains, "
        "not contains: not contains, in: in, not in: not in, starts with: starts, ends with: ends, is: =, "
        "is not: not =, !=: not =, <>: not =, ==: =, =: =, <: <, <=: <=, >: >, >=: >=",
    )
}
"""The words of a comparison, and its sign in SQL."""
_PARTS = {
    "contains": "instr({cell}, ?)",
    "starts": "instr({cell}, ?) = 1",
    "ends": "substr({cell}, -length(?)) = ?",
}
_NOTHING = ("empty", "blank", "null", "missing", "none", "nothing")
"""Words that without quotes more likely mean an empty cell than themselves."""


Answer = Table | Result
"""The answer to a question: a table, or a text with its evidence."""


def answer(
    table: Table, query: str, name: str, deadline: Deadline, more: Mapping[str, Table] | None = None
) -> Answer:
    """The answer to a question; raises with help if it cannot be read. Only a SELECT uses `more` tables."""
    if re.match(r"\s*(?:select|with)\b", query, re.IGNORECASE):
        return selected(table, query, name, deadline, more)
    if more:
        raise OperationFailed("a question about several tables is a SELECT")
    if len(query) > LONGEST:
        raise OperationFailed(f"the query is longer than {LONGEST:,} characters")
    now: Answer = table
    parts: list[list[_Token]] = [[]]
    for token in _tokens(query):
        if (token.kind, token.text) == ("sign", "|"):
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        if isinstance(now, Result):
            raise OperationFailed(f"what follows the bar needs a table, and {now.text[:40]!r} is none")
        now = _Reader(now, part).answered()
    return now


@dataclass(frozen=True)
class _Token:
    kind: str  # quoted, sign or word
    text: str

    @property
    def low(self) -> str:
        """The text in lower case, to compare with the grammar and column names; "" if quoted."""
        return "" if self.kind == "quoted" else self.text.casefold()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while text[at:].strip():
        hit = _TOKEN.match(text, at)
        if hit is None:
            raise OperationFailed(f"cannot read {text[at:].strip()[:40]!r}; {HELP}")
        kind = str(hit.lastgroup)
        raw = hit[kind]
        found.append(_Token(kind, raw[1:-1].replace(raw[0] * 2, raw[0]) if kind == "quoted" else raw))
        at = hit.end()
    return found


def _words(name: str) -> list[str]:
    """The words of a column name in a question; [] if the name must be quoted."""
    try:
        words = [token.low for token in _tokens(name)]
        return words if all(words) else []
    except OperationFailed:
        return []


class _Reader:
    """Reads one part between bars and answers it with one SELECT."""

    def __init__(self, table: Table, tokens: Sequence[_Token]) -> None:
        self._table, self._tokens, self._at = table, tokens, 0
        self._names = [(_words(name), at) for at, name in enumerate(table.header)]
        self._places: set[int] = set()
        self._where = ""
        self._params: list[Any] = []
        self._by: int | None = None
        self._sort: tuple[int, bool] | None = None

    # ---- reading ----

    @property
    def _ended(self) -> bool:
        return self._at == len(self._tokens)

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].low if at < len(self._tokens) else ""

    def _take(self, *words: str) -> str:
        """The next word if it is one of these, and go past it."""
        word = self._word()
        self._at += word in words
        return word if word in words else ""

    def _found(self, choices: Mapping[tuple[str, ...], str]) -> tuple[str, int]:
        """The longest of these that comes next, and its number of words."""
        hits = (words for words in choices if all(self._word(n) == word for n, word in enumerate(words)))
        longest = max(hits, key=len, default=())
        return choices.get(longest, ""), len(longest)

    def _stuck(self) -> OperationFailed:
        rest = " ".join(token.text for token in self._tokens[self._at :])[:60] or "the end"
        return OperationFailed(f"cannot read {rest!r}; quote names and values of several words; {HELP}")

    def _column(self) -> int:
        """The column whose name comes next, the longest if there are several."""
        if self._ended:
            raise self._stuck()
        ahead = [token.low for token in self._tokens[self._at :]]
        longest = max((len(words) for words, _ in self._names if ahead[: len(words)] == words), default=0)
        found = [at for words, at in self._names if words and words == ahead[:longest]]
        if not found:  # quoted, or the name of none
            found = [self._table.place(self._tokens[self._at].text.strip())]
        elif len(found) > 1:
            name = self._table.header[found[0]]
            raise OperationFailed(f"{name}: {len(found)} columns have this name; quote one, or rename it")
        self._at += longest or 1
        self._places.add(found[0])
        return found[0]

    def _amount(self) -> int:
        word = self._word()
        if not (word.isdecimal() and len(word) < 10):
            return 1
        self._at += 1
        return int(word)

    def _clauses(self, *allowed: str) -> None:
        """Read the clauses after the verb, in any order, each once."""
        while not self._ended:
            name, words = self._found(_CLAUSES)
            if name not in allowed:
                raise self._stuck()
            self._at += words
            allowed = tuple(each for each in allowed if each != name)
            if name == "where":
                self._condition()
            elif name == "by":
                self._by = self._column()
            else:
                self._order()

    def _order(self, descending: bool | None = None) -> None:
        at = self._column()
        self._table.refuse_unordered(at)
        if descending is None:
            descending = self._take("asc", "ascending", "desc", "descending").startswith("desc")
        self._sort = at, descending

    def answered(self) -> Answer:
        """The answer; raises if a word is left over."""
        verb = _VERBS.get(self._word(), self._word())
        if verb in ("header", "columns") and len(self._tokens) == 1:
            header = self._table.header
            return Result("\n".join(header), evidence={"columns": len(header)})
        self._at += verb != "where"
        if verb in ("rows", "where"):
            return self._rows()
        if verb == "count":
            return self._count()
        if verb in AGGREGATES:
            return self._aggregate(verb)
        if verb == "unique":
            at = self._column()
            self._clauses("where")
            groups = self._grouped(at, "NULL", "", lambda _: "")
            return Table(groups.header[:1], [row[:1] for row in groups.rows], groups.grouped)
        if verb in ("column", "columns", "without"):
            places = [self._column()]
            while self._take(","):
                places.append(self._column())
            if verb == "without":
                places = [at for at in range(len(self._table.header)) if at not in places]
            return self._rows(places=places)
        if verb == "sort":
            self._take("by")
            self._order()
            return self._rows()
        if verb in ("top", "bottom"):
            n = self._amount()
            if not self._take("by"):
                raise self._stuck()
            self._order(verb == "top")
            return self._rows(slice(n))
        if verb in ("first", "last"):
            n = self._amount()
            return self._rows(slice(n) if verb == "first" else slice(-n, None) if n else slice(0))
        self._at = 0
        raise self._stuck()

    # ---- conditions ----

    def _condition(self) -> None:
        """Read a condition as SQL; SQLite handles brackets, and, or and not."""
        parts: list[str] = []
        while not self._ended and not self._found(_CLAUSES)[0]:
            if self._word() == ")" and parts.count("(") == parts.count(")"):
                raise self._stuck()
            parts.append(self._take("and", "or", "not", "(", ")") or self._comparison())
        self._where = " ".join(parts)
        if not parts:
            raise self._stuck()

    def _comparison(self) -> str:
        at = self._column()
        sign, words = self._found(_COMPARISONS)
        if not sign:
            raise self._stuck()
        self._at += words
        kind = sign.removeprefix("not ")
        if kind == "empty":
            test = f"t{at} = ''"
        elif kind == "in":
            test = " OR ".join(self._compared(at, "=", value) for value in self._list(at))
        else:
            test = self._compared(at, kind, self._value(at))
        return f"(NOT ({test}))" if kind != sign else f"({test})"

    def _compared(self, at: int, sign: str, value: str) -> str:
        """Compare numbers as numbers, other text case-insensitively; empty cells are no number."""
        column, name = self._table.column(at), self._table.header[at]
        found, folded = number(value, self._table.grouped), value.strip().casefold()
        if sign in _PARTS:
            if not folded:
                raise self._stuck()
            test = _PARTS[sign].format(cell=f"f{at}")
            self._params += [folded] * test.count("?")
            return test
        if column.numeric and folded and (not found or found[1] not in ("", column.mark)):
            kind = f"numbers in {column.mark}" if column.mark else "numbers"
            raise OperationFailed(f"where: {name} holds {kind}, and {value[:60]!r} is not such a number")
        if sign == "=":
            self._params += [folded, found[0] if found else None]
            return f"f{at} = ? OR ifnull(n{at} = ?, 0)"
        if column.numeric and found:
            self._params.append(found[0])
            return f"ifnull(n{at} {sign} ?, 0)"
        self._table.refuse_unordered(at, value.strip())
        self._params.append(folded)
        return f"f{at} <> '' AND f{at} {sign} ?"

    def _value(self, at: int) -> str:
        """A quoted text, or the words before the next and, or, clause or bracket."""
        if not self._ended and self._tokens[self._at].kind == "quoted":
            self._at += 1
            return self._tokens[self._at - 1].text
        words: list[str] = []
        while not self._ended and self._tokens[self._at].kind == "word":
            if self._word() in ("and", "or") or self._found(_CLAUSES)[0]:
                break
            words.append(self._tokens[self._at].text)
            self._at += 1
        if not words:
            raise self._stuck()
        if len(words) == 1 and words[0].casefold() in _NOTHING:
            raise OperationFailed(f'where: write `is empty` or `is not empty`, or quote "{words[0]}"')
        value = " ".join(words)
        if len(words) > 1 and not any(
            row[at].strip().casefold() == value.casefold() for row in self._table.rows
        ):
            raise OperationFailed(
                f"where: no {self._table.header[at]} is {value!r}; quote a value of several words"
            )
        return value

    def _list(self, at: int) -> list[str]:
        values: list[str] = []
        if not self._take("("):
            raise self._stuck()
        while not values or self._take(","):
            values.append(self._value(at))
        if not self._take(")"):
            raise self._stuck()
        return values

    # ---- answering ----

    def _ask(self, select: str, rest: str = "") -> list[tuple[Any, ...]]:
        try:
            sql = f"SELECT {select} FROM cells WHERE ({self._where or 'true'}) {rest}"
            return self._table.ask(self._places, sql, self._params)
        except sqlite3.OperationalError:
            query = " ".join(token.text for token in self._tokens)
            raise OperationFailed(f"where: cannot read the condition of {query[:100]!r}; {HELP}") from None

    def _rows(self, part: slice = slice(None), places: Sequence[int] | None = None) -> Answer:
        self._clauses("where", *([] if self._sort or part != slice(None) else ["sort"]))
        order = "row"
        if self._sort:
            at, way = self._sort[0], "DESC" if self._sort[1] else "ASC"
            words = "" if self._table.column(at).numeric else f"f{at} {way}, t{at} {way}, "
            order = f"t{at} = '', n{at} {way}, {words}row"
        rows = [self._table.rows[row] for (row,) in self._ask("row", f"ORDER BY {order}")][part]
        if places is None:
            return Table(self._table.header, rows, self._table.grouped)
        header = [self._table.header[at] for at in places]
        return Table(header, [[row[at] for at in places] for row in rows], self._table.grouped)

    def _count(self) -> Answer:
        """Count rows, or the cells of a column that are not empty."""
        value = "row"
        column_named_rows = "rows" in (name.casefold() for name in self._table.header)
        if (column_named_rows or not self._take("rows")) and not self._ended and not self._found(_CLAUSES)[0]:
            value = f"nullif(t{self._column()}, '')"
        self._clauses("where", "by")
        if self._by is not None:
            return self._grouped(self._by, value, "count", lambda values: str(len(values)))
        return Result(str(self._ask(f"count({value})")[0][0]))

    def _aggregate(self, name: str) -> Answer:
        self._take("of")
        at = self._column()
        self._clauses("where", "by")
        column, title = self._table.column(at), self._table.header[at]
        if odd := self._ask(f"t{at}", f"AND n{at} IS NULL AND t{at} <> '' LIMIT 1"):
            cell = odd[0][0][:60]
            raise OperationFailed(
                f'{title}: {cell!r} is not a number; leave it out with where {title} != "{cell}"'
            )
        if column.mixed:
            raise OperationFailed(f"{title}: its numbers are of several kinds, such as money and percent")
        if self._by is not None:
            return self._grouped(
                self._by,
                f"n{at}",
                f"{name} of {title}",
                lambda numbers: _shown(aggregated(name, numbers), column) if numbers else "",
            )
        cells = [number for (number,) in self._ask(f"n{at}")]
        numbers = [number for number in cells if number is not None]
        if not numbers and name != "sum":
            raise OperationFailed(f"there are no numbers in {title} to take the {name} of")
        exact = aggregated(name, numbers or [0])
        evidence: dict[str, Any] = {"numbers": len(numbers), "exact": str(exact)}
        evidence |= {"empty": len(cells) - len(numbers)} if len(cells) > len(numbers) else {}
        return Result(_shown(exact, column), evidence=evidence)

    def _grouped(self, by: int, value: str, title: str, shown: Callable[[list[Any]], str]) -> Table:
        """A row for each value of a column, with what `shown` makes of the values of its rows but NULL."""
        numeric = self._table.column(by).numeric
        words = "" if numeric else f"f{by}, t{by}, "
        found = self._ask(f"t{by}, n{by}, {value}", f"ORDER BY n{by} IS NULL, n{by}, {words}row")
        rows: list[list[str]] = []
        for _, group in groupby(found, key=itemgetter(1 if numeric else 0)):
            members = list(group)
            rows.append([members[0][0], shown([each[2] for each in members if each[2] is not None])])
        return Table([self._table.header[by], title], rows, self._table.grouped)


def _shown(value: Fraction, column: Column) -> str:
    """An exact result with the mark of its column."""
    text = quantities.shown(value)
    if column.mark in ("", "%"):
        return text + column.mark
    return f"-{column.mark}{text[1:]}" if text.startswith("-") else column.mark + text


def _prepare(ctx: OperationContext, to: str = "", form: str = "", **args: Any) -> tuple[Touch, ...]:
    if not to:
        return ()
    data = _data(_answer_file(ctx, **args), form or _form(to))
    return (Touch(ctx.writable(to), bytes_hash(data)),)


def _form(to: str) -> str:
    """The form of a table in a file of that name."""
    return Path(to).suffix.lower().removeprefix(".")


@operation(_prepare)
def query_csv(
    ctx: OperationContext,
    query: str,
    path: str = "",
    text: str = "",
    to: str = "",
    more: Sequence[str] = (),
    form: str = "",
) -> Result:
    """The answer to a question about the table in a file or a text; a table as CSV, JSON or markdown.

    A SELECT may also use the tables in `more` files, each by its file's name.
    """
    found = _answer_file(ctx, query, path, text, more)
    rows = len(found.rows) if isinstance(found, Table) else None
    evidence = found.evidence if isinstance(found, Result) else {"rows": rows}
    what = "the answer" if rows is None else f"{rows} rows"
    data = _data(found, form or _form(to))
    if to:
        return save_to(ctx, to, data, what, evidence)
    return Result(data.decode().removesuffix("\n"), evidence=evidence)


def _answer_file(
    ctx: OperationContext, query: str, path: str = "", text: str = "", more: Sequence[str] = ()
) -> Answer:
    whole = file_or_text(ctx, path, text, "the file with the table")
    encoded(text, "text")
    encoded(query, "query")
    table = read_table(whole.removeprefix("\ufeff"), path or "the text")
    others = {
        Path(name).stem: read_table(file_or_text(ctx, name, "", name).removeprefix("\ufeff"), name)
        for name in more
    }
    return answer(table, query, Path(path).stem, Deadline(ctx.timeout * 0.9), others)


def _data(found: Answer, form: str) -> bytes:
    """The answer as it is written: as JSON or markdown where that is the form, else as CSV."""
    if isinstance(found, Result):
        return encoded(f"{found.text}\n", "the answer")
    if form in ("markdown", "md"):
        rows = [found.header, ["---"] * len(found.header), *found.rows]
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        return encoded("".join(f"| {' | '.join(row)} |\n" for row in cells), "the table")
    if form == "json":
        columns = [found.column(at).numeric for at in range(len(found.header))]
        items = [
            {
                name: _json_cell(cell, numeric)
                for name, cell, numeric in zip(found.header, row, columns, strict=False)
            }
            for row in found.rows
        ]
        return encoded(f"{json.dumps(items, ensure_ascii=False, indent=2)}\n", "the table")
    return encoded(as_csv([found.header, *found.rows]), "the table")


def _json_cell(cell: str, numeric: bool) -> Any:
    """A cell of a numeric column as the number that it is written as, else as text."""
    if numeric and re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", cell):
        return float(cell) if "." in cell else int(cell)
    return cell
