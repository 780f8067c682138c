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

_TEXTS = ("textarea", "title")
_RAW = (
    *("script", "style", "noscript", "iframe", "template", "svg", "select", "object", "canvas"),
    *_TEXTS,
)
"""Elements that end only at their own end tag; of `_TEXTS` the content is text, others are not shown."""
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside body dd details dialog div dl dt fieldset figcaption figure footer "
        "form header html li main nav ol section summary tbody tfoot thead tr ul caption",
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_PARAGRAPHS = frozenset({*_HEADINGS, "p", "pre", "hr", "table", "blockquote"})
_PIECE = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*+>?"
    r"|<(?P<end>/?)(?P<name>[a-z][a-z0-9:-]{0,40}+)"
    r"(?P<rest>(?:[^<>\"']++|\"[^\"]{0,20000}+\"|'[^']{0,20000}+')*+|[^<>]*+)>"
    r"|(?P<text>[^<]++|<)",
    re.DOTALL | re.IGNORECASE,
)
"""A comment, a tag or a text. Linear: a tag holds < only in quotes, and nothing is tried in two ways."""
_ATTRIBUTE = re.compile(r"(?<![\w:-])([a-zA-Z_:-]{1,40})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


def readable(page: str, address: str = "") -> str:
    """The readable text of a page; links become [text](address) with absolute addresses."""
    writer = _Writer(address)
    for kind, name, value in pieces(page):
        if kind == "text":
            writer.text(value)
        elif kind == "open":
            writer.open(name, value)
        else:
            writer.close(name)
    return writer.done()


def pieces(page: str) -> Iterator[tuple[str, str, str]]:
    """Text, opening tags with their attributes and closing tags, in order."""
    at = 0
    while hit := _PIECE.match(page, at):
        at = hit.end()
        if hit["text"]:
            yield "text", "", html.unescape(hit["text"])
        elif hit["name"]:
            name = hit["name"].lower()
            yield "close" if hit["end"] else "open", name, hit["rest"]
            if name in _RAW and not hit["end"] and not hit["rest"].endswith("/"):
                end = re.compile(f"</{name}", re.IGNORECASE).search(page, at)
                inside = page[at : end.start() if end else len(page)]
                at += len(inside)
                if name in _TEXTS:
                    yield "text", "", html.unescape(inside)


class _Writer:
    """Writes the text: blocks on lines of their own, spaces collapsed except in pre."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: list[str] = []
        self._line: list[str] = []
        self._pre = 0
        self._lists: list[int] = []  # -1 for a bulleted list, else the number of the last item
        self._link = ""
        self._link_from = 0
        self._in_title = False
        self._title = ""

    def text(self, text: str) -> None:
        if self._in_title:
            self._title += text
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
        self._apart(name)
        if name == "title":
            self._in_title = not self._title
        elif name == "br":
            self._break(keep=True)
        elif name in ("ul", "ol"):
            self._lists.append(-1 if name == "ul" else 0)
        elif name == "li":
            self._line.append(self._item())
        elif name in _HEADINGS:
            self._line.append(f"{_HEADINGS[name]} ")
        elif name == "pre":
            self._pre += 1
        elif name in ("td", "th") and self._line:
            self._line.append(" | ")
        elif name == "a":
            self._open_link(tag)
        elif name == "img" and (words := attributes(tag).get("alt", "").strip()):
            self._line.append(f"[image: {words}]")

    def close(self, name: str) -> None:
        self._apart(name)
        if name == "title":
            self._in_title = False
        elif name in ("ul", "ol"):
            del self._lists[-1:]
            if not self._lists:
                self._paragraph()
        elif name == "pre":
            self._pre = max(0, self._pre - 1)
        elif name == "a":
            self._close_link()

    def done(self) -> str:
        self._break()
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip("\n")
        title = " ".join(self._title.split())
        if title and not body.lstrip("# ").startswith(title):
            return f"{title}\n\n{body}".strip()
        return body.strip()

    def _item(self) -> str:
        """The mark of the next item of a list."""
        indent = "  " * max(0, min(len(self._lists), 10) - 1)
        if not self._lists or self._lists[-1] < 0:
            return f"{indent}- "
        self._lists[-1] += 1
        return f"{indent}{self._lists[-1]}. "

    def _open_link(self, tag: str) -> None:
        self._close_link()
        target = attributes(tag).get("href", "").strip()
        if target and not target.startswith(("#", "javascript:", "data:")):
            self._link, self._link_from = _joined(self._address, target), len(self._line)

    def _close_link(self) -> None:
        if self._link:
            inner = "".join(self._line[self._link_from :])
            words = inner.strip()
            marked = words if words == self._link else f"[{words}]({self._link})"
            self._line[self._link_from :] = [inner.replace(words, marked, 1)] if words else []
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

    def _apart(self, name: str) -> None:
        """Begin a line or a paragraph where an element has its own."""
        if name in _PARAGRAPHS:
            self._paragraph()
        elif name in _BLOCKS:
            self._break()

    def _paragraph(self) -> None:
        self._break()
        self._lines.append("")


def attributes(text: str) -> dict[str, str]:
    """The attributes of an opening tag, names in lower case."""
    return {
        hit[1].lower(): html.unescape(hit[2] or hit[3] or hit[4] or "") for hit in _ATTRIBUTE.finditer(text)
    }


MOST_COLUMNS = 200


def links(page: str, address: str) -> list[tuple[str, str]]:
    """The words and the absolute address of each link, in order, each address once."""
    found: dict[str, str] = {}
    target, words, base = "", list[str](), address
    for kind, name, value in pieces(page):
        if kind == "text" and target:
            words.append(value)
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

    def take(self, kind: str, name: str, value: str) -> None:
        if self.cell is not None and (kind == "text" or name in ("br", "p", "div", "li")):
            self.cell.append(value if kind == "text" else " ")
        elif name in ("td", "th", "tr", "table"):
            self._end_cell()
            if kind == "open" and (name == "tr" or not self.rows):
                self.rows.append([])
            if kind == "open" and name != "tr":
                span = attributes(value).get("colspan", "1")
                self.cell, self.wide = [], int(span) if re.fullmatch(r"\d{1,3}", span) else 1

    def _end_cell(self) -> None:
        if self.cell is not None:
            row = self.rows[-1]
            row.append(" ".join("".join(self.cell).split()))
            row.extend([""] * min(self.wide - 1, MOST_COLUMNS - len(row)))
        self.cell = None

    def squared(self) -> list[list[str]]:
        """The rows that have text, of one length."""
        self._end_cell()
        rows = [row[:MOST_COLUMNS] for row in self.rows if any(row)]
        width = max(map(len, rows), default=0)
        return [row + [""] * (width - len(row)) for row in rows]


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page that have cells, each as rows of one length; nested tables are separate."""
    done: list[_Table] = []
    open_: list[_Table] = []
    for kind, name, value in pieces(page):
        if (kind, name) == ("open", "table"):
            open_.append(_Table())
        elif open_:
            open_[-1].take(kind, name, value)
            if name == "table":
                done.append(open_.pop())
    return [rows for table in (*done, *reversed(open_)) if (rows := table.squared())]


def table_as_csv(page: str, number: int, where: str) -> str:
    """Table `number`, counted from 1, as CSV; 0 means the table with the most cells."""
    found = tables(page)
    if not found:
        raise OperationFailed(f"{where}: there is no table on this page")
    if number > len(found):
        raise OperationFailed(f"{where}: there are {len(found)} tables on this page, no table {number}")
    rows = found[number - 1] if number else max(found, key=lambda each: len(each) * len(each[0]))
    return as_csv(rows).removesuffix("\n")
