"""Splits a text into words, punctuation and values: numbers with units, quoted texts, paths, addresses.

`words` gives plain words, `tokens` gives words and values with their places.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

DIGITS = 400
"""A longer number is read as a text: Python limits the length of integers."""
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()  # noqa: SIM905
_ONES += ["fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS_WORDS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TOKEN = re.compile(
    r"""
      (?P<plain>[A-Za-z]+(?=[\s,;!?]|$))  # a shortcut: most words
    | (?P<fraction>(?<![\w/.])\d+/\d+(?![\w/]|\.\d))
    | (?P<quoted>"[^"\n]*"|“[^”\n]*”|`[^`\n]*`|(?<![\w])'[^'\n]*'(?!\w))
    | (?P<url>[a-z][a-z0-9+.-]*://[^\s"'<>]*[\w/])
    | (?P<path>
        (?!(?:km|m|mi|ft)/[hs]\b(?!\.[a-z]|/)|(?:and/or|his/her|he/she)\b)
        (?!\w+/(?:second|minute|hour|day|week|month|year|person|mile|km|kg|pound|piece|box)s?\b(?!\.[a-z]|/))
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
_WORD = re.compile(r"\w+")
_NUMBERS = {word: value for value, word in enumerate(_ONES)}
_TENS = {word: 20 + 10 * at for at, word in enumerate(_TENS_WORDS)}
_LARGE = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_UNITS = {"%": "%", "percent": "%", "¢": "¢", "cent": "¢", "cents": "¢", "€": "€", "euro": "€", "euros": "€"}
_UNITS |= {"dollar": "$", "dollars": "$", "usd": "$", "bucks": "$"}
_SIGNS = frozenset("$€£")
_HUNDREDTHS = frozenset("%¢")
_PRONOUN = frozenset("no each every any some this that which the another other only".split())  # noqa: SIM905
"""After these words, `one` is a pronoun."""
_TITLES = frozenset("mr mrs ms dr st jr sr prof vs".split())  # noqa: SIM905
_ENDS = frozenset(".?!:")


class Token(NamedTuple):
    """One token; `kind` is word, mark, number, quoted, path or url."""

    kind: str
    text: str
    low: str
    start: int
    end: int
    first: bool = False  # the first of its sentence
    value: Fraction | str = ""  # of a leaf
    unit: str = ""  # of a number: $, €, £, %, ¢
    scale: int = 1  # the value may also be written divided by this: 20% as 0.2, 3 million as 3
    parts: tuple[int, int] | None = None  # numerator and denominator of a fraction

    @property
    def leaf(self) -> bool:
        """Whether it is a value, not a word or a mark."""
        return self.kind not in ("word", "mark")


_Piece = tuple[str, str, int]
_COUNTING = frozenset({"number", "fraction"})
_BEGINS = frozenset({*_NUMBERS, *_TENS, *_SIGNS, "a"})
"""Texts other than digits that a number may begin with."""


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.casefold())


def tokens(text: str) -> list[Token]:
    """The tokens of a text; numbers are read with their units."""
    pieces = _pieces(text)
    found: list[Token] = []
    first = True
    at = 0
    while at < len(pieces):
        counts = pieces[at][0] in _COUNTING or pieces[at][1].lower() in _BEGINS
        token, used = (counts and _number(pieces, at, first)) or (_plain(*pieces[at], first), 1)
        titled = token.text == "." and bool(found) and found[-1].low in _TITLES
        first = token.kind == "mark" and token.text in _ENDS and not titled
        if not titled:
            found.append(token)
        at += used
    return found


def _pieces(text: str) -> list[_Piece]:
    """Kind, text and start of each piece, without hyphens inside words: `5-year-old` is `5 year old`."""
    found = [
        ("word" if hit.lastgroup == "plain" else hit.lastgroup or "", hit[0], hit.start())
        for hit in _TOKEN.finditer(text)
    ]
    return [piece for piece in found if piece[1] not in "-‐‑" or not _joins(text, piece[2])]


def _joins(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return before.isalnum() and after.isalnum() and not (before.isdigit() and after.isdigit())


def _plain(kind: str, text: str, start: int, first: bool) -> Token:
    low = text.lower().replace("’", "'")
    if kind in ("number", "fraction") and len(text) > DIGITS:
        return Token("quoted", text, low, start, start + len(text), first, text)
    kind = "mark" if kind == "fraction" else kind  # x/0
    value = text[1:-1] if kind == "quoted" else text if kind in ("path", "url") else ""
    return Token(kind, text, low, start, start + len(text), first, value)


def _number(pieces: list[_Piece], at: int, first: bool) -> tuple[Token, int] | None:
    """A number with its unit, and how many pieces it takes; None where there is none."""
    begin = at
    kind, sign, start = pieces[at]
    money = sign in _SIGNS and at + 1 < len(pieces) and pieces[at + 1][0] == "number"
    if not money and kind not in ("number", "word", "fraction"):
        return None
    at += money
    read = _value(pieces, at)
    if read is None:
        return None
    value, used, scale, parts = read
    at += used
    unit = sign if money else ""
    if not unit and at < len(pieces):
        behind = pieces[at][1].lower()
        if behind in _UNITS:
            unit = _UNITS[behind]
            at += 1
            if rest := _cut_off(pieces, at, value, scale):
                value, at = Fraction(f"{value}{rest}"), at + 1
        elif behind == "per" and at + 1 < len(pieces) and pieces[at + 1][1].lower() == "cent":
            unit = "%"
            at += 2
    end = pieces[at - 1][2] + len(pieces[at - 1][1])
    text = " ".join(piece[1] for piece in pieces[begin:at])
    scale = 100 if unit in _HUNDREDTHS else scale
    return Token("number", text, text.lower(), start, end, first, value, unit, scale, parts), at - begin


def _cut_off(pieces: list[_Piece], at: int, value: Fraction, scale: int) -> str:
    """The digits directly after a unit: a replacement can turn $26,060 into `two dollars6,060`."""
    if not 0 < at < len(pieces) or pieces[at][0] != "number" or value.denominator != 1 or scale != 1:
        return ""
    _, unit, start = pieces[at - 1]
    digits = pieces[at][1].replace(",", "")
    return digits if start + len(unit) == pieces[at][2] and digits.isdigit() and len(digits) <= 12 else ""


def _value(pieces: list[_Piece], at: int) -> tuple[Fraction, int, int, tuple[int, int] | None] | None:
    """A value, how many pieces it takes, its scale, and the parts of a fraction."""
    kind, text, _ = pieces[at]
    if len(text) > DIGITS:
        return None  # read as a text
    if kind == "fraction":
        over, _, under = text.partition("/")
        return (Fraction(int(over), int(under)), 1, 1, (int(over), int(under))) if int(under) else None
    if kind == "number":
        value = Fraction(text.replace(",", ""))
        part = _kind(pieces, at + 1) == "fraction" and len(pieces[at + 1][1]) <= DIGITS
        if part and value.denominator == 1:
            over, _, under = pieces[at + 1][1].partition("/")
            if 0 < int(over) < int(under):
                return value + Fraction(int(over), int(under)), 2, 1, None
        used = 1
    else:
        read = _in_words(pieces, at)
        if read is None:
            return None
        value, used = Fraction(read[0]), read[1]
    scale = 1
    large = _low(pieces, at + used)
    if large in _LARGE and kind == "number":
        scale = _LARGE[large]
        value, used = value * scale, used + 1
    if [_low(pieces, at + used + n) for n in range(3)] == ["and", "a", "half"]:
        value, used = value + Fraction(scale, 2), used + 3
    return value, used, scale, None


def _in_words(pieces: list[_Piece], at: int) -> tuple[int, int] | None:
    """A whole number in words, and how many pieces it takes: `two hundred and five`, `a thousand`."""
    low = _low(pieces, at)
    begin = at
    if low == "one" and _low(pieces, at - 1) in _PRONOUN and _low(pieces, at + 1) not in {"hundred", *_LARGE}:
        return None
    if low == "a" and _low(pieces, at + 1) in {"hundred", *_LARGE}:
        total, part, at = 0, 1, at + 1
    else:
        small = _small(pieces, at)
        if small is None:
            return None
        total, (part, at) = 0, small
    while True:
        low = _low(pieces, at)
        if low == "hundred" and 0 < part < 100:
            part, at = part * 100, at + 1
        elif low in _LARGE and part:
            total, part, at = total + part * _LARGE[low], 0, at + 1
        else:
            return total + part, at - begin
        ahead = at + (_low(pieces, at) == "and")
        rest = _small(pieces, ahead)
        if rest is not None and rest[0]:
            part, at = part + rest[0], rest[1]


def _small(pieces: list[_Piece], at: int) -> tuple[int, int] | None:
    """A number below a hundred in words, and the index after it."""
    low = _low(pieces, at)
    if low in _NUMBERS:
        return _NUMBERS[low], at + 1
    if low not in _TENS:
        return None
    ones = _NUMBERS.get(_low(pieces, at + 1), 0)
    return (_TENS[low] + ones, at + 2) if 0 < ones < 10 else (_TENS[low], at + 1)


def _low(pieces: list[_Piece], at: int) -> str:
    return pieces[at][1].lower() if 0 <= at < len(pieces) else ""


def _kind(pieces: list[_Piece], at: int) -> str:
    return pieces[at][0] if at < len(pieces) else ""
