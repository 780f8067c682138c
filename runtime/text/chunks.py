"""Splits an order at blanks: words, the punctuation at their ends, and quoted texts, with their places.

Unlike `tokens`, a chunk keeps what a person typed as one: `a.txt`, `5km`, `--all`, `10-20`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

LONGEST_TASK = 4_000
"""Characters; a longer text is no order that a phrasing could cover."""

_PIECE = re.compile(
    r"""
      "([^"]*)" | “([^”]*)” | «([^»]*)» | `([^`]*)`
    | (?<![^\s(=,])'([^'\n]*)'(?![\w])
    | (\n)
    | [^\s"“”«»`]+
    """,
    re.VERBOSE,
)
_ENDS = ",;:!?…."
_THOUSANDS = re.compile(r"[-+]?[^\w]?\d{1,3}(?:,\d{3})+(?:\.\d+)?\D*")
_TYPOGRAPHIC = str.maketrans({"’": "'", "‘": "'", "\u00a0": " ", "\u202f": " ", "\r": "\n"})


@dataclass(frozen=True)
class Chunk:
    """A word, a punctuation mark, a line break, or a whole quoted text."""

    text: str  # without quotes
    start: int
    end: int
    quoted: bool = False

    @cached_property
    def word(self) -> str:
        """The text in lower case; "" for quoted text."""
        return "" if self.quoted else self.text.lower()


def chunks(task: str) -> tuple[Chunk, ...] | None:
    """The chunks of a text; None when it is too long, or when a quote is never closed."""
    if len(task) > LONGEST_TASK:
        return None
    text = task.translate(_TYPOGRAPHIC)
    found: list[Chunk] = []
    at = 0
    for piece in _PIECE.finditer(text):
        if text[at : piece.start()].strip():
            return None
        at = piece.end()
        if piece.lastindex is None:
            found += _split(piece[0], piece.start())
        elif piece.lastindex == 6:
            found.append(Chunk("\n", piece.start(), piece.end()))
        else:
            start, end = piece.span(piece.lastindex)
            found.append(Chunk(task[start:end], piece.start(), piece.end(), quoted=True))
    return None if text[at:].strip() else tuple(found)


def _split(chunk: str, start: int) -> list[Chunk]:
    """The words of a text without blanks, and the punctuation at their ends."""
    if hit := re.fullmatch(r"\(([^()\s]*[^()\s.]\.[A-Za-z]\w{0,8})\)", chunk):  # (notes.md)
        return [Chunk(hit[1], start + 1, start + 1 + len(hit[1]))]
    if "://" in chunk or _THOUSANDS.fullmatch(chunk.rstrip(_ENDS)) or "{" in chunk or "(" in chunk:
        return _ended(chunk, start)
    found: list[Chunk] = []
    at = 0
    for part in re.split(r"([,;])", chunk):
        if part in (",", ";"):
            found.append(Chunk(part, start + at, start + at + 1))
        elif part:
            found += _ended(part, start + at)
        at += len(part)
    return found


def _ended(chunk: str, start: int) -> list[Chunk]:
    word = chunk if chunk in (".", "..") else chunk.rstrip(_ENDS)  # . and .. are folders
    found = [Chunk(word, start, start + len(word))] if word else []
    marks = enumerate(chunk[len(word) :], start + len(word))
    return found + [Chunk(mark, at, at + 1) for at, mark in marks]
