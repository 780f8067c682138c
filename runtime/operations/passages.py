"""A text taken apart into passages that can be found on their own, each with its line and its heading."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from runtime.operations.readable import readable
from runtime.operations.texts import lines_of

LONGEST = 900
"""Characters of a passage; a paragraph below that stays whole."""
_HTML = (".html", ".htm", ".xhtml")
_TABLES = (".csv", ".tsv")
_PROSE = (".md", ".markdown", ".html", ".htm", ".xhtml")
_HEADING = re.compile(r"(#{1,6}) +(.+?)(?: +#+)?$")
_WORD = re.compile(r"\w{4,}")
_WIDE = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Passage:
    """Lines that belong together, where each stands in its file, and the heading or header above them."""

    lines: tuple[int, ...]
    heading: str
    text: str


def decoded(data: bytes) -> str | None:
    """The text of a file, Windows-1252 where it is not UTF-8; None for a binary file."""
    for bom, encoding in _WIDE:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def passages(name: str, text: str) -> Iterator[Passage]:
    """The passages of a file, in order; HTML as its readable text, a table's rows below its header."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _HTML:
        yield from _of_page(text)
    elif suffix in _TABLES:
        yield from _of_table(text)
    else:
        yield from _of_lines(lines_of(text), 1, prose=suffix in _PROSE)


def _of_lines(lines: list[str], first: int, heading: str = "", prose: bool = False) -> Iterator[Passage]:
    """Paragraphs, packed up to the size; a heading begins a new passage, which names those above it."""
    block: list[str] = []
    start = first
    above: list[tuple[int, str]] = []

    def done() -> Iterator[Passage]:
        if any(line.strip() for line in block):
            yield Passage(tuple(range(start, start + len(block))), heading, "\n".join(block).rstrip())

    size = 0
    for number, line in enumerate(lines, first):
        hit = _HEADING.match(line) if prose else None
        full = size + len(line) > LONGEST or (size > LONGEST // 2 and not line.strip())
        if hit or full:
            if not (hit and all(_HEADING.match(each) or not each.strip() for each in block)):
                yield from done()  # headings alone stand above what follows them
            block, size, start = [], 0, number
        if hit:
            above = [each for each in above if each[0] < len(hit[1])] + [(len(hit[1]), hit[2])]
            heading = " › ".join(text for _, text in above)
        if len(line) > LONGEST:
            for at in range(0, len(line), LONGEST):
                yield Passage((number,), heading, line[at : at + LONGEST])
            start = number + 1
            continue
        if not block and not line.strip():
            start = number + 1
            continue
        block.append(line)
        size += len(line) + 1
    yield from done()


def _of_table(text: str) -> Iterator[Passage]:
    lines = lines_of(text)
    header = lines[0][:LONGEST] if lines else ""
    if header and len(lines) == 1:
        yield Passage((1,), "", header)
    yield from _of_lines(lines[1:], 2, header)


def _of_page(source: str) -> Iterator[Passage]:
    """The readable text of a page; each of its lines with the line of the source where its words begin."""
    at, line = 0, 1
    for passage in _of_lines(lines_of(readable(source)), 1, prose=True):
        lines: list[int] = []
        for each in passage.text.split("\n"):
            words = _WORD.findall(re.sub(r"\]\([^)]*\)", " ", each))
            found = source.find(max(words[:8], key=len), at) if words else -1
            if found >= 0:
                line += source.count("\n", at, found)
                at = found
            lines.append(line)
        yield Passage(tuple(lines), passage.heading, passage.text)
