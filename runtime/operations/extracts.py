"""What a page holds beside its prose: its links, and its tables as rows."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import dataclass, field
from urllib.parse import urljoin

from kernel.errors import OperationFailed
from runtime.operations.readable import attributes, pieces

MOST_COLUMNS = 200


def links(page: str, address: str) -> list[tuple[str, str]]:
    """The words and the whole address of each link, in order, each address once."""
    found: dict[str, str] = {}
    target, words, base = "", list[str](), address
    for kind, name, value in pieces(page):
        if kind == "text" and target:
            words.append(html.unescape(value))
        elif kind == "open" and name == "base":
            base = _joined(address, attributes(value).get("href", ""))
        elif kind == "open" and name == "img" and target:
            words.append(attributes(value).get("alt", ""))
        elif name == "a":
            _keep(found, target, words)
            href = attributes(value).get("href", "").strip() if kind == "open" else ""
            plain = href and not href.lower().startswith(("#", "javascript:", "data:", "mailto:", "tel:"))
            target, words = (_joined(base, href) if plain else ""), []
    _keep(found, target, words)
    return [(words, target) for target, words in found.items()]


def _keep(found: dict[str, str], target: str, words: list[str]) -> None:
    """The first words of an address that has any: an image's link often comes before the named one."""
    if target and not found.get(target):
        found[target] = " ".join("".join(words).split())


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return ""


@dataclass
class _Table:
    """A table while it is read."""

    rows: list[list[str]] = field(default_factory=list[list[str]])
    cell: list[str] | None = None
    wide: int = 1

    def end_cell(self) -> None:
        if self.cell is not None and self.rows:
            row = self.rows[-1]
            row.append(" ".join("".join(self.cell).split()))
            row.extend([""] * min(self.wide - 1, MOST_COLUMNS - len(row)))
        self.cell = None


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page that have cells, each as rows of one length; one in another stands for itself."""
    done: list[list[list[str]]] = []
    open_: list[_Table] = []
    for kind, name, value in pieces(page):
        if kind == "open" and name == "table":
            open_.append(_Table())
        elif open_:
            _take(open_[-1], kind, name, value)
            if kind == "close" and name == "table":
                done.append(open_.pop().rows)
    for table in reversed(open_):  # whose end was left out
        table.end_cell()
        done.append(table.rows)
    return [squared for rows in done if (squared := _squared(rows))]


def _take(table: _Table, kind: str, name: str, value: str) -> None:
    if kind == "text":
        if table.cell is not None:
            table.cell.append(html.unescape(value))
    elif name in ("td", "th"):
        table.end_cell()
        if kind == "open":
            if not table.rows:
                table.rows.append([])
            span = attributes(value).get("colspan", "1")
            table.cell, table.wide = [], int(span) if re.fullmatch(r"\d{1,3}", span) else 1
    elif name == "tr":
        table.end_cell()
        if kind == "open":
            table.rows.append([])
    elif name == "table":
        table.end_cell()
    elif table.cell is not None and name in ("br", "p", "div", "li"):
        table.cell.append(" ")


def _squared(rows: list[list[str]]) -> list[list[str]]:
    kept = [row[:MOST_COLUMNS] for row in rows if any(row)]
    width = max(map(len, kept), default=0)
    return [row + [""] * (width - len(row)) for row in kept]


def table_as_csv(page: str, number: int, where: str) -> str:
    """The table of that number, counted from 1, or with 0 the one with the most cells, as CSV."""
    found = tables(page)
    if not found:
        raise OperationFailed(f"{where}: there is no table on this page")
    if number > len(found):
        raise OperationFailed(f"{where}: there are {len(found)} tables on this page, no table {number}")
    rows = found[number - 1] if number else max(found, key=lambda each: len(each) * len(each[0]))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().removesuffix("\n")
