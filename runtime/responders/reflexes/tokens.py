"""A task as tokens: words, punctuation and quoted text, each with its place in what the person wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_TASK = 4_000
"""Characters; a longer task is no short order that a phrasing could cover, so no reflex looks at it."""

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
class Token:
    """One piece of a task. Quoted text is one token, whatever it holds, and never a word of a phrasing."""

    text: str  # of quoted text, what stands between the quotes
    start: int
    end: int
    quoted: bool = False

    @property
    def word(self) -> str:
        """In lower case, as phrasings are compared; "" for quoted text."""
        return "" if self.quoted else self.text.lower()


def tokens(task: str) -> tuple[Token, ...] | None:
    """The tokens of a task; None when it is too long, or when a quote is opened and never closed."""
    if len(task) > LONGEST_TASK:
        return None
    text = task.translate(_TYPOGRAPHIC)
    found: list[Token] = []
    at = 0
    for piece in _PIECE.finditer(text):
        if text[at : piece.start()].strip():
            return None
        at = piece.end()
        if piece.lastindex is None:
            found += _split(piece[0], piece.start())
        elif piece.lastindex == 6:
            found.append(Token("\n", piece.start(), piece.end()))
        else:
            found.append(_quoted(task, piece))
    return None if text[at:].strip() else tuple(found)


def _quoted(task: str, piece: re.Match[str]) -> Token:
    start, end = piece.span(piece.lastindex or 0)
    return Token(task[start:end], piece.start(), piece.end(), quoted=True)


def _split(chunk: str, start: int) -> list[Token]:
    """A run without blanks, as its words and the punctuation at their ends."""
    if "://" in chunk or _THOUSANDS.fullmatch(chunk.rstrip(_ENDS)) or "{" in chunk or "(" in chunk:
        return _ended(chunk, start)
    found: list[Token] = []
    at = 0
    for part in re.split(r"([,;])", chunk):
        if part in (",", ";"):
            found.append(Token(part, start + at, start + at + 1))
        elif part:
            found += _ended(part, start + at)
        at += len(part)
    return found


def _ended(chunk: str, start: int) -> list[Token]:
    word = chunk.rstrip(_ENDS)
    if chunk in (".", ".."):
        word = chunk  # a folder
    found = [Token(word, start, start + len(word))] if word else []
    return found + [
        Token(mark, start + at, start + at + 1) for at, mark in enumerate(chunk) if at >= len(word)
    ]
