"""HTML as text that a person can read: headings, lists, tables, links with their addresses.

One pass over the text, in time proportional to its length whatever the page does.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin

_HIDDEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head", "select", "canvas")
_RAW = ("script", "style", "textarea", "title", "noscript", "iframe", "template", "svg")
_IN_HEAD = ("meta", "link", "base", "title", "script", "style", "noscript", "template")
_BLOCKS = frozenset(
    (
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "main",
        "nav",
        "ol",
        "p",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
        "caption",
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9:-]{0,40})")
_ATTRIBUTE = re.compile(r"(?<![\w:-])([a-zA-Z_:-]{1,40})\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_LONGEST_TAG = 20_000


def readable(page: str, address: str = "") -> str:
    """The readable text of a page; links become [text](address), made absolute with the page's address."""
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
    """The place after the next `wanted`; the page's end when there is none, which is found out once."""
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
    """Where the > of a tag is, outside of quotes; -1 when the tag does not end soon."""
    at, limit = start, min(len(page), start + _LONGEST_TAG)
    plain = page.find(">", at, limit)
    if plain < 0:
        return -1
    # whatever was looked at is passed, so that no page is looked at twice
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
    """Puts the pieces together: blocks on lines of their own, spaces squeezed but in pre."""

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
            self._hidden.clear()  # its end was left out
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
            self._image(tag)
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
        if self._title is not None and not self._titled:
            self._titled = " ".join("".join(self._title).split())
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
            try:
                self._link = urljoin(self._address, target)
            except ValueError:
                return
            self._link_from = len(self._line)

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

    def _image(self, tag: str) -> None:
        if words := attributes(tag).get("alt", "").strip():
            self._line.append(f"[image: {words}]")

    def _break(self, keep: bool = False) -> None:
        """End the line; a link that goes on over the end is closed with it."""
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
