"""Slots that are about tables and JSON documents: columns, conditions on rows, keys.

Where the task names a table or document of the folder, only what this has is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime.reflexes.names import one, read_value
from runtime.reflexes.slots import Read, Reader, Scan, choice_of
from runtime.reflexes.templates import for_csv
from runtime.reflexes.values import number_at
from runtime.text.inflection import singular

MOST_WORDS = 4
"""Of a name of a column or a cell without quotes, how many words one may take."""
_COLUMN = one(r"[^\W\d][\w.%$#/-]*|#\d+", 2)
_JSON_PATH = one(r"[^\W\d][\w-]*(?:\.[\w-]+|\[\d+\])*", 2)
_WHERE = ("where", "whose", "having", "with")
"""Words before a condition that say nothing more."""


def _texts(scan: Scan, at: int) -> Iterator[tuple[int, str]]:
    """The next few words, each time in lower case."""
    for end in range(at + 1, min(at + MOST_WORDS, len(scan.tokens)) + 1):
        yield end, scan.tokens[at].text.lower() if end == at + 1 else scan.raw(at, end).lower()


def _column(scan: Scan, at: int) -> Iterator[Read]:
    """A column: one of the table that the task names; of an unknown table, any plain word."""
    if not scan.tables:
        yield from _COLUMN(scan, at)
    for end, text in _texts(scan, at):
        for table in scan.tables:
            exact = next((each for each in table.columns if each.lower() == text), None)
            if found := exact or table.column_like.get(singular(text)):
                yield end, found, 0


def _known_column(scan: Scan, at: int) -> Iterator[Read]:
    """A column of the table that the task names."""
    return _column(scan, at) if any(each.columns for each in scan.tables) else iter(())


def _known_number(scan: Scan, at: int) -> Iterator[Read]:
    """A column of numbers of the table that the task names."""
    numbers = {column for table in scan.tables for column in table.numeric}
    return (each for each in _known_column(scan, at) if each[1] in numbers)


def _json_path(scan: Scan, at: int) -> Iterator[Read]:
    """A path in JSON: one of the document that the task names; of an unknown document, any plain path."""
    if not scan.tables:
        yield from _JSON_PATH(scan, at)
    for end, text in _texts(scan, at):
        for document in scan.tables:
            if document.keys and (end == at + 1 and "." in text):
                yield end, scan.tokens[at].text, 1
            elif found := document.keys.get(text.replace(" ", "_")) or document.keys.get(text):
                yield end, found, 0


def _known_key(scan: Scan, at: int) -> Iterator[Read]:
    """A key of the JSON document that the task names."""
    return _json_path(scan, at) if any(each.keys for each in scan.tables) else iter(())


def _condition(scan: Scan, at: int) -> Iterator[Read]:
    """What rows of a table are asked for: `units > 3`, `more than 3 units`, `city is Oslo`, `Oslo`."""
    at += scan.word(at) in _WHERE
    yield from _compared(scan, at)
    yield from _cells(scan, at)


def _compared(scan: Scan, at: int) -> Iterator[Read]:
    """A column compared with a value; without its name if it is the only one with numbers."""
    comparison = choice_of(scan.language.choices.get("comparison", {}))
    for middle, column, vague in _column(scan, at):
        for after, sign, _ in comparison(scan, middle):
            for end, value, more in read_value(scan, after):
                yield end, _where(column, sign, _spelled(scan, value)), vague + min(more, 1)
    numeric = [column for table in scan.tables for column in table.numeric]
    for middle, sign, _ in comparison(scan, at):
        if value := number_at(scan, middle):
            for end, column, _ in _known_column(scan, middle + 1):
                yield end, _where(column, sign, value), 0
            if len(numeric) == 1:
                yield middle + 1, _where(numeric[0], sign, value), 1


def _cells(scan: Scan, at: int) -> Iterator[Read]:
    """A cell of the table: `region North`, `South as region`, `the North region`, `Oslo`."""
    for middle, column, _ in _known_column(scan, at):
        for end, text in _texts(scan, middle):
            if any(column in table.cells.get(text, ()) for table in scan.tables):
                yield end, _where(column, "=", _spelled(scan, text)), 0
    for end, text in _texts(scan, at):
        spelled = _spelled(scan, text)
        if scan.word(end) == "as":
            for after, column, _ in _known_column(scan, end + 1):
                yield after, _where(column, "=", spelled), 0
        found = [each for table in scan.tables for each in (table.cells.get(text) or table.cell_like(text))]
        if len({*found}) == 1 and not number_at(scan, at):
            said = scan.word(end) == found[0].lower()
            yield end + said, _where(found[0], "=", spelled), 0
            if said:
                yield end, _where(found[0], "=", spelled), 0


def _where(column: str, sign: str, value: str) -> str:
    return f"where {for_csv(column)} {sign} {for_csv(value)}"


def _spelled(scan: Scan, text: str) -> str:
    """A cell as the table spells it."""
    low = text.lower()
    known = (each.spelled.get(low) or each.singular.get(singular(low)) for each in scan.tables)
    return next(filter(None, known), text)


KINDS: Mapping[str, Reader] = {
    "column": _column,
    "known column": _known_column,
    "known number": _known_number,
    "condition": _condition,
    "json path": _json_path,
    "known key": _known_key,
}
"""By their names in markdown files."""
