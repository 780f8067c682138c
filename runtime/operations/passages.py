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
_HEADING = re.compile(r"#{1,6} +(.+?)(?: +#+)?$")
_WORD = re.compile(r"\w{4,}")
_WIDE = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Passage:
    """Lines that belong together, where they begin, and the heading (or the table's header) above them."""

    line: int
    heading: str
    text: str
    exact: bool = True  # whether each of its lines is a line of the file


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
    """Paragraphs, packed together up to the size; a heading begins a new passage."""
    block: list[str] = []
    start = first

    def done() -> Iterator[Passage]:
        if any(line.strip() for line in block):
            yield Passage(start, heading, "\n".join(block).rstrip())

    size = 0
    for number, line in enumerate(lines, first):
        hit = _HEADING.match(line) if prose else None
        full = size + len(line) > LONGEST or (size > LONGEST // 2 and not line.strip())
        if hit or full:
            yield from done()
            block, size, start = [], 0, number
        if hit:
            heading = hit[1]
        if len(line) > LONGEST:
            for at in range(0, len(line), LONGEST):
                yield Passage(number, heading, line[at : at + LONGEST], exact=False)
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
    if header:
        yield Passage(1, "", header)
    yield from _of_lines(lines[1:], 2, header)


def _of_page(source: str) -> Iterator[Passage]:
    """The readable text of a page; each passage has the line of the source where its words begin."""
    at, line = 0, 1
    for passage in _of_lines(lines_of(readable(source)), 1, prose=True):
        words = _WORD.findall(re.sub(r"\]\([^)]*\)", " ", passage.text))
        found = source.find(max(words[:8], key=len), at) if words else -1
        if found >= 0:
            line += source.count("\n", at, found)
            at = found
        yield Passage(line, passage.heading, passage.text, exact=False)
