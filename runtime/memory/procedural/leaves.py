"""A task as tokens with their places: words, punctuation, and the leaves that a variation may change.

A leaf is a number (with its unit: 5 dollars is $5), a quoted text, a path, or an address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from runtime.memory.procedural.words import Words

LONGEST = 400
"""Tokens of a task; a longer one is not aligned."""
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()  # noqa: SIM905
_ONES += ["fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS_WORDS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TOKEN = re.compile(
    r"""
      (?P<quoted>"[^"\n]*"|“[^”\n]*”|`[^`\n]*`|(?<![\w])'[^'\n]*'(?!\w))
    | (?P<url>[a-z][a-z0-9+.-]*://[^\s"'<>]*[\w/])
    | (?P<path>
        (?!\w+/(?:second|minute|hour|day|week|month|year|person|mile|km|kg|pound|piece|box)s?\b)
        (?: (?:~|\.{1,2})?(?<!\w)(?:/[\w.@+-]+)+/?
          | [\w@+-][\w.@+-]*/(?:[\w.@+-]+/?)*
          | [\w@+-]+(?:\.[\w@+-]+)*\.[A-Za-z]\w{0,5} )
        (?![\w/]) )
    | (?P<number>\d+(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+)
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)?)
    | (?P<mark>\S)
    """,
    re.VERBOSE,
)
_NUMBERS = {word: value for value, word in enumerate(_ONES)}
_TENS = {word: 20 + 10 * at for at, word in enumerate(_TENS_WORDS)}
_UNITS = {"dollar": "$", "dollars": "$", "%": "%", "percent": "%"}
_ENDS = frozenset(".?!:")


@dataclass(frozen=True)
class Token:
    """One piece: `kind` is word, mark, number, quoted, path or url; `value` what a leaf stands for."""

    kind: str
    text: str
    low: str
    start: int
    end: int
    first: bool = False  # of a sentence
    value: Fraction | str = ""
    unit: str = ""

    @property
    def leaf(self) -> bool:
        """Whether it is a value that may differ from task to task."""
        return self.kind not in ("word", "mark")


def tokens(text: str) -> list[Token]:
    """The tokens of a task, numbers read with their units."""
    pieces = [(str(hit.lastgroup), hit[0], hit.start()) for hit in _TOKEN.finditer(text)]
    found: list[Token] = []
    first = True
    at = 0
    while at < len(pieces):
        token, used = _number(pieces, at, first) or (_plain(*pieces[at], first), 1)
        found.append(token)
        first = token.kind == "mark" and token.text in _ENDS
        at += used
    return found


def _plain(kind: str, text: str, start: int, first: bool) -> Token:
    low = text.lower().replace("’", "'")
    value = text[1:-1] if kind == "quoted" else text if kind in ("path", "url") else ""
    return Token(kind, text, low, start, start + len(text), first, value)


def _number(pieces: list[tuple[str, str, int]], at: int, first: bool) -> tuple[Token, int] | None:
    """A number in digits or words, with `$` before it or its unit behind it, and the pieces that it takes."""
    begin = at
    money = pieces[at][1] == "$" and at + 1 < len(pieces) and pieces[at + 1][0] == "number"
    at += money
    value, used = _value(pieces, at)
    if value is None:
        return None
    at += used
    unit = "$" if money else ""
    if not unit and at < len(pieces) and pieces[at][1].lower() in _UNITS:
        unit = _UNITS[pieces[at][1].lower()]
        at += 1
    end = pieces[at - 1][2] + len(pieces[at - 1][1])
    text = " ".join(piece[1] for piece in pieces[begin:at])
    return Token("number", text, text.lower(), pieces[begin][2], end, first, value, unit), at - begin


def _value(pieces: list[tuple[str, str, int]], at: int) -> tuple[Fraction | None, int]:
    kind, text, _ = pieces[at]
    if kind == "number":
        return Fraction(text.replace(",", "")), 1
    low = text.lower()
    if low in _NUMBERS:
        return Fraction(_NUMBERS[low]), 1
    if low not in _TENS:
        return None, 0
    used = 2 if pieces[at + 1 : at + 2] and pieces[at + 1][1] == "-" else 1
    ones = _NUMBERS.get(pieces[at + used][1].lower(), 0) if at + used < len(pieces) else 0
    if not 0 < ones < 10:
        return Fraction(_TENS[low]), 1
    return Fraction(_TENS[low] + ones), used + 1


def without_courtesies(found: list[Token], words: Words) -> list[Token]:
    """The tokens but for what asks for nothing: `Quick question.`, `Thanks!`, `please`, a last mark."""
    while (end := _sentence(found)) and end < len(found) and _polite(found[:end], words):
        found = found[end:]
    while (begin := _last_sentence(found)) and _polite(found[begin:], words):
        found = found[:begin]
    while len(found) > 1 and (took := _order(found, words)) and took < len(found):
        found = found[took:]
    while len(found) > 1 and found[-1].kind == "mark" and found[-1].text in _ENDS:
        found = found[:-1]
    return found


def _order(found: list[Token], words: Words) -> int:
    """How many of the first tokens only introduce an order."""
    lows = tuple(token.low for token in found[:3])
    return next((took for took in (3, 2, 1) if lows[:took] in words.orders), 0)


def _sentence(found: list[Token]) -> int:
    ends = (at + 1 for at, token in enumerate(found) if token.kind == "mark" and token.text in _ENDS)
    return next(ends, 0)


def _last_sentence(found: list[Token]) -> int:
    ends = [at + 1 for at, token in enumerate(found[:-1]) if token.kind == "mark" and token.text in _ENDS]
    return ends[-1] if ends else 0


def _polite(part: list[Token], words: Words) -> bool:
    return all(token.kind == "mark" or token.low in words.courtesies for token in part)
