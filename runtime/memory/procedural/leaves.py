"""A task as tokens with their places: words, punctuation, and the leaves that a variation may change.

A leaf is a number (with its unit: 5 dollars is $5), a quoted text, a path, or an address.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from runtime.memory.procedural.words import Words

LONGEST = 400
"""Tokens of a task; a longer one is not aligned."""
DIGITS = 400
"""Of a number; Python refuses to read very long ones, and none of these is counted with."""
_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()  # noqa: SIM905
_ONES += ["fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS_WORDS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TOKEN = re.compile(
    r"""
      (?P<plain>[A-Za-z]+(?=[\s,;!?]|$))  # which nothing below would read in another way
    | (?P<fraction>(?<![\w/.])\d+/\d+(?![\w/]|\.\d))
    | (?P<quoted>"[^"\n]*"|“[^”\n]*”|`[^`\n]*`|(?<![\w])'[^'\n]*'(?!\w))
    | (?P<url>[a-z][a-z0-9+.-]*://[^\s"'<>]*[\w/])
    | (?P<path>
        (?!(?:km|m|mi|ft)/[hs]\b|(?:and/or|his/her|he/she)\b)
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
_LARGE = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_UNITS = {"%": "%", "percent": "%", "¢": "¢", "cent": "¢", "cents": "¢", "€": "€", "euro": "€", "euros": "€"}
_UNITS |= {"dollar": "$", "dollars": "$", "usd": "$", "bucks": "$"}
_SIGNS = frozenset("$€£")
_HUNDREDTHS = frozenset("%¢")
_PRONOUN = frozenset("no each every any some this that which the another other only".split())  # noqa: SIM905
"""Words behind which `one` counts nothing."""
_TITLES = frozenset("mr mrs ms dr st jr sr prof vs".split())  # noqa: SIM905
_ENDS = frozenset(".?!:")


class Token(NamedTuple):
    """One piece: `kind` is word, mark, number, quoted, path or url; `value` what a leaf stands for."""

    kind: str
    text: str
    low: str
    start: int
    end: int
    first: bool = False  # of a sentence
    value: Fraction | str = ""
    unit: str = ""
    scale: int = 1  # a step may hold the value divided by this: 20% as 0.2, 3 million as 3
    parts: tuple[int, int] | None = None  # of a fraction

    @property
    def leaf(self) -> bool:
        """Whether it is a value that may differ from task to task."""
        return self.kind not in ("word", "mark")


_Piece = tuple[str, str, int]
_COUNTING = frozenset({"number", "fraction"})
_BEGINS = frozenset({*_NUMBERS, *_TENS, *_SIGNS, "a"})
"""What a number may begin with, but for digits."""


def tokens(text: str) -> list[Token]:
    """The tokens of a task, numbers read with their units."""
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
    """Kind, text and place of each piece, without hyphens inside words: `5-year-old` is `5 year old`."""
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
    kind = "mark" if kind == "fraction" else kind  # one below zero parts
    value = text[1:-1] if kind == "quoted" else text if kind in ("path", "url") else ""
    return Token(kind, text, low, start, start + len(text), first, value)


def _number(pieces: list[_Piece], at: int, first: bool) -> tuple[Token, int] | None:
    """A number in digits or words, with `$` before it or its unit behind it, and the pieces that it takes."""
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
    """The digits that stand right behind a unit: `two dollars6,060` is what replacing left of $26,060."""
    if not 0 < at < len(pieces) or pieces[at][0] != "number" or value.denominator != 1 or scale != 1:
        return ""
    _, unit, start = pieces[at - 1]
    digits = pieces[at][1].replace(",", "")
    return digits if start + len(unit) == pieces[at][2] and digits.isdigit() and len(digits) <= 12 else ""


def _value(pieces: list[_Piece], at: int) -> tuple[Fraction, int, int, tuple[int, int] | None] | None:
    """A value with the pieces that it takes, its scale, and its parts if it is a fraction."""
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
    """A whole number in words and how many it takes: `two hundred and five`, `a thousand`, `forty-two`."""
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
    """A number below a hundred in words, and the place behind it."""
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
