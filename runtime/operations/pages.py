"""HTML as text for a person, its links and its tables.

One pass over the text, in time proportional to its length.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urljoin

from kernel.errors import OperationFailed
from runtime.operations.texts import as_csv

_HIDDEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head", "select", "canvas")
_RAW = ("script", "style", "textarea", "title", "noscript", "iframe", "template", "svg")
_IN_HEAD = ("meta", "link", "base", "title", "script", "style", "noscript", "template")
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure footer "
        "form header hr html main nav ol p section summary table tbody tfoot thead tr ul caption",
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40})")
_ATTRIBUTE = re.compile(r"(?<![\w:-])([a-zA-Z_:-]{1,40})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_LONGEST_TAG = 20_000


def readable(page: str, address: str = "") -> str:
    """The readable text of a page; links become [text](address) with absolute addresses."""
    writer = _Writer(address)
    for kind, name, value in pieces(page):
        if kind == "text":
            writer.text(html.unescape(value))
        elif kind == "open":
            writer.open(name, value)
        else:
            writer.close(name)
    return writer.done()


def pieces(page: str) -> Iterator[tuple[str, str, str]]:
    """Text, opening tags with their attributes and closing tags, in order."""
    at, end = 0, len(page)
    ends: dict[str, int] = {}  # where the search for the end of a raw element last failed
    while at < end:
        mark = page.find("<", at)
        if mark < 0:
            yield "text", "", page[at:]
            return
        if mark > at:
            yield "text", "", page[at:mark]
        if page.startswith("<!--", mark):
            at = _after(page, "-->", mark + 4, ends)
            continue
        if page.startswith(("<!", "<?"), mark):
            at = _after(page, ">", mark, ends)
            continue
        hit = _TAG.match(page, mark)
        close = _tag_end(page, hit.end()) if hit else -1
        if hit is None or close < 0:
            yield "text", "", "<"
            at = mark + 1
            continue
        name = hit[2].lower()
        at = close + 1
        if hit[1]:
            yield "close", name, ""
            continue
        yield "open", name, page[hit.end() : close]
        if name in _RAW and not page[hit.end() : close].endswith("/"):
            stop = _raw_end(page, name, at, ends)
            if name in ("title", "textarea"):
                yield "text", "", page[at:stop]
            at = stop


def _after(page: str, wanted: str, start: int, ends: dict[str, int]) -> int:
    """The position after the next `wanted`, or the end of the page; a failed search is not repeated."""
    if ends.get(wanted) is not None:
        return len(page)
    hit = page.find(wanted, start)
    if hit < 0:
        ends[wanted] = start
        return len(page)
    return hit + len(wanted)


def _raw_end(page: str, name: str, start: int, ends: dict[str, int]) -> int:
    if name not in ends:
        hit = re.compile(f"</{name}", re.IGNORECASE).search(page, start)
        if hit:
            return hit.start()
        ends[name] = start
    return len(page) if name in ("script", "style") else start


def _tag_end(page: str, start: int) -> int:
    """The position of the > of a tag, outside quotes; -1 if the tag does not end soon."""
    at, limit = start, min(len(page), start + _LONGEST_TAG)
    plain = page.find(">", at, limit)
    if plain < 0:
        return -1
    while at < limit:
        hit = re.compile(r"[>\"']").search(page, at, limit)
        if hit is None:
            return limit - 1
        if hit[0] == ">":
            return hit.start()
        closing = page.find(hit[0], hit.end(), limit)
        if closing < 0:
            return max(plain, at - 1)  # a stray quote
        at = closing + 1
    return limit - 1


class _Writer:
    """Writes the text: blocks on lines of their own, spaces collapsed except in pre."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: list[str] = []
        self._line: list[str] = []
        self._hidden: list[str] = []
        self._pre = 0
        self._lists: list[int] = []  # -1 for a bulleted list, else the number of the last item
        self._link = ""
        self._link_from = 0
        self._title: list[str] | None = None
        self._titled = ""

    def text(self, text: str) -> None:
        if self._title is not None:
            self._title.append(text)
        elif self._hidden:
            return
        elif self._pre:
            first, *rest = text.split("\n")
            self._line.append(first)
            for part in rest:
                self._break(keep=True)
                self._line.append(part)
        else:
            text = re.sub(r"\s+", " ", text)
            if self._line or text != " ":
                self._line.append(text)

    def open(self, name: str, tag: str) -> None:
        if self._hidden == ["head"] and name not in _IN_HEAD:
            self._hidden.clear()  # the end tag is missing
        if name == "title" and not self._titled:
            self._title = []
        elif name == "body":
            self._hidden.clear()
        elif name in _HIDDEN:
            if not tag.endswith("/") and name not in ("script", "style", "noscript", "iframe"):
                self._hidden[50:] = [name]
        elif self._hidden:
            return
        elif name == "br":
            self._break(keep=True)
        elif name in ("ul", "ol"):
            self._break()
            self._lists.append(-1 if name == "ul" else 0)
        elif name == "li":
            self._item()
        elif name in _HEADINGS:
            self._paragraph()
            self._line.append(f"{_HEADINGS[name]} ")
        elif name == "pre":
            self._paragraph()
            self._pre += 1
        elif name in ("td", "th"):
            if self._line:
                self._line.append(" | ")
        elif name == "a":
            self._open_link(tag)
        elif name == "img":
            if words := attributes(tag).get("alt", "").strip():
                self._line.append(f"[image: {words}]")
        elif name in ("p", "hr", "table", "blockquote"):
            self._paragraph()
        elif name in _BLOCKS:
            self._break()

    def close(self, name: str) -> None:
        if name == "title" and self._title is not None:
            self._titled = " ".join("".join(self._title).split())
            self._title = None
        elif name in self._hidden:
            while self._hidden.pop() != name:
                pass
        elif self._hidden:
            return
        elif name in ("ul", "ol"):
            self._break()
            if self._lists:
                self._lists.pop()
            if not self._lists:
                self._paragraph()
        elif name in _HEADINGS or name in ("p", "table", "blockquote"):
            self._paragraph()
        elif name == "pre":
            self._paragraph()
            self._pre = max(0, self._pre - 1)
        elif name == "a":
            self._close_link()
        elif name in _BLOCKS or name == "li":
            self._break()

    def done(self) -> str:
        self.close("title")
        self._close_link()
        self._break()
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip("\n")
        if self._titled and not body.lstrip("# ").startswith(self._titled):
            return f"{self._titled}\n\n{body}".strip()
        return body.strip()

    def _item(self) -> None:
        self._break()
        indent = "  " * max(0, min(len(self._lists), 10) - 1)
        mark = "-"
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            mark = f"{self._lists[-1]}."
        self._line.append(f"{indent}{mark} ")

    def _open_link(self, tag: str) -> None:
        self._close_link()
        target = attributes(tag).get("href", "").strip()
        if target and not target.startswith(("#", "javascript:", "data:")):
            self._link, self._link_from = _joined(self._address, target), len(self._line)

    def _close_link(self) -> None:
        if not self._link:
            return
        inner = "".join(self._line[self._link_from :])
        words = inner.strip()
        del self._line[self._link_from :]
        if words:
            lead = inner[: len(inner) - len(inner.lstrip())]
            trail = inner[len(inner.rstrip()) :]
            self._line.append(f"{lead}{words if words == self._link else f'[{words}]({self._link})'}{trail}")
        self._link = ""

    def _break(self, keep: bool = False) -> None:
        """End the line, and a link that is open."""
        self._close_link()
        line = "".join(self._line)
        if not self._pre:
            lead = line[: len(line) - len(line.lstrip())] if re.match(r"\s*(?:-|\d+\.) ", line) else ""
            line = lead + re.sub(r" +", " ", line.strip())
        self._line = []
        if line.strip() or keep:
            self._lines.append(line.rstrip())

    def _paragraph(self) -> None:
        self._break()
        self._lines.append("")


def attributes(text: str) -> dict[str, str]:
    """The attributes of an opening tag, names in lower case."""
    return {
        hit[1].lower(): html.unescape(hit[2] or hit[3] or hit[4] or "")
        for hit in _ATTRIBUTE.finditer(text[:_LONGEST_TAG])
    }


MOST_COLUMNS = 200


def links(page: str, address: str) -> list[tuple[str, str]]:
    """The words and the absolute address of each link, in order, each address once."""
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
    """Keep the first words of an address; the link of an image often comes before the named one."""
    if target and not found.get(target):
        found[target] = " ".join("".join(words).split())


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return ""


@dataclass
class _Table:
    """A table that is being read."""

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
    """The tables of a page that have cells, each as rows of one length; nested tables are separate."""
    done: list[list[list[str]]] = []
    open_: list[_Table] = []
    for kind, name, value in pieces(page):
        if kind == "open" and name == "table":
            open_.append(_Table())
        elif open_:
            _take(open_[-1], kind, name, value)
            if kind == "close" and name == "table":
                done.append(open_.pop().rows)
    for table in reversed(open_):  # without an end tag
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
    """Table `number`, counted from 1, as CSV; 0 means the table with the most cells."""
    found = tables(page)
    if not found:
        raise OperationFailed(f"{where}: there is no table on this page")
    if number > len(found):
        raise OperationFailed(f"{where}: there are {len(found)} tables on this page, no table {number}")
    rows = found[number - 1] if number else max(found, key=lambda each: len(each) * len(each[0]))
    return as_csv(rows).removesuffix("\n")
