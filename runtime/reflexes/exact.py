"""Slots of learned methods: values, names and nouns exactly as recall reads them.

They never read `it`, and only their own unit. A label (a name or noun) is read wherever its word is in the
task, and no other slot or word of the phrasing may have the same word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from runtime.reflexes.slots import Read, Reader, Scan

if TYPE_CHECKING:
    from runtime.reflexes.phrasing import Bound
    from runtime.text.tokens import Token

_PIECES = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NOT_NOUNS = ("ed", "ly", "est")
"""Endings of words that are rarely nouns, as in alignment."""


class Label(str):
    """A name or noun that a slot read."""

    __slots__ = ()


@lru_cache(maxsize=64)
def _leaves(text: str) -> dict[int, Token]:
    from runtime.text.tokens import tokens  # learned methods need them alone

    return {token.start: token for token in tokens(text)}


def _leaf(scan: Scan, at: int) -> tuple[Token, int] | None:
    """The value or word that begins and ends with tokens, and the index after it."""
    if at >= len(scan.tokens):
        return None
    token = scan.tokens[at]
    found = _leaves(scan.text).get(token.start)
    if found is None:
        return None
    end = at
    while end < len(scan.tokens) and scan.tokens[end].end <= found.end:
        end += 1
    exact = end > at and scan.tokens[end - 1].end == found.end
    return (found, end) if exact else None


def _reader(kind: str, unit: str = "") -> Reader:
    def read(scan: Scan, at: int) -> Iterator[Read]:
        hit = _leaf(scan, at)
        if hit and hit[0].kind == kind and hit[0].unit == unit and hit[0].parts is None:
            value = hit[0].value
            yield hit[1], _digits(value) if isinstance(value, Fraction) else value, 0

    return read


def _digits(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else json.dumps(float(value))


def _word(scan: Scan, at: int, *, owner: bool = False) -> str:
    """The plain word at a position, without its 's; "" if it cannot be a label."""
    hit = _leaf(scan, at)
    if hit is None or hit[0].kind != "word" or hit[1] != at + 1 or hit[0].low.endswith("'s") != owner:
        return ""
    return hit[0].text[:-2] if owner else hit[0].text


def _label(fits: Callable[[str, Scan], bool], *, owner: bool = False) -> Reader:
    """A word that fits as a name or noun; with `owner` before `'s`."""

    def read(scan: Scan, at: int) -> Iterator[Read]:
        word = _word(scan, at, owner=owner)
        if word and fits(word, scan):
            yield at + 1, Label(word), 1

    return read


def _proper(word: str, scan: Scan) -> bool:
    """Whether a word is a name: capitalised, and none that decides what to do."""
    from runtime.memory.tasks.words import words_of

    return word[0].isupper() and word.lower() not in words_of(scan.systems).fixed


def _noun(word: str, scan: Scan) -> bool:
    """Whether a word may replace a noun."""
    from runtime.memory.tasks.words import words_of

    low = word.lower()
    fixed = words_of(scan.systems).fixed
    verbal = len(low) > 5 and low.endswith(_NOT_NOUNS)
    return len(low) > 2 and not verbal and low not in fixed and _stem(low) not in fixed


def consistent(scan: Scan, start: int, bound: Sequence[Bound]) -> bool:
    """Whether each slot has one value, and each label is one word throughout that no other slot has."""
    values: dict[str, object] = {}
    owners: dict[str, str] = {}  # the stem of a label: its slot
    places = {each.start: each.slot for each in bound if isinstance(each.value, Label)}
    for bound_value in bound:
        value = bound_value.value
        if isinstance(value, Label):
            value = _stem(value.lower())
            if owners.setdefault(value, bound_value.slot) != bound_value.slot:
                return False
        if values.setdefault(bound_value.slot, value) != value:
            return False
    return not owners or all(
        places.get(at) == owners[piece]
        for at in range(start, len(scan.tokens))
        for piece in map(_stem, _PIECES.findall(scan.word(at)))
        if piece in owners
    )


def _stem(word: str) -> str:
    from runtime.text.inflection import singular  # learned methods need it alone

    return singular(word)


_UNITS = {"number": "", "amount": "$", "percent": "%", "cents": "¢", "euros": "€", "pounds": "£"}
KINDS: dict[str, Reader] = {
    **{f"exact {name}": _reader("number", unit) for name, unit in _UNITS.items()},
    "exact path": _reader("path"),
    "exact url": _reader("url"),
    "exact text": _reader("quoted"),
    "proper name": _label(_proper),
    "noun": _label(_noun),
    "owner": _label(lambda word, scan: _proper(word, scan) or _noun(word, scan), owner=True),
}
"""By their names in markdown files."""
