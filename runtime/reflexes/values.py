"""Slots that are values: numbers, percentages, quantities, dates, ranges, arithmetic in symbols or words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from runtime.reflexes.slots import It, Read, Scan, choice_of

EXPRESSION_PARTS = 120
"""Of arithmetic, how many numbers and symbols one slot may take."""
NUMBER = re.compile(r"[-+−]?[$€£]?(\d{1,3}(?:,\d{3})+|\d+(?:_\d{3})*)(\.\d+)?|[-+−]?\.\d+")
_QUANTITY = re.compile(r"([-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)([^\W\d]\S*|°\S*)")
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DOTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")


def number_at(scan: Scan, at: int) -> str:
    """The number that the token at a position is, as plain digits; "" when it is none."""
    if at >= len(scan.tokens) or scan.tokens[at].quoted:
        return ""
    word = scan.tokens[at].word
    if NUMBER.fullmatch(word):
        return re.sub(r"[,_$€£+]", "", word).replace("−", "-")
    return scan.language.numbers.get(word, "")


def read_number(scan: Scan, at: int) -> Iterator[Read]:
    """`3`, `-2.5`, `1,000`, `twelve`; or `it` when the latest result is a number."""
    if value := number_at(scan, at):
        yield at + 1, value, 0
    if scan.it and "number" in scan.it.shapes:
        yield from ((end, It("{{ it }}"), 0) for end in scan.after(at, scan.language.text_pronouns))


def read_integer(scan: Scan, at: int) -> Iterator[Read]:
    """A whole number that is not negative."""
    value = number_at(scan, at)
    if value.isdecimal():
        yield at + 1, int(value), 0


def read_percent(scan: Scan, at: int) -> Iterator[Read]:
    """`15%`, `15 %`, `fifteen percent`: the number."""
    word = scan.word(at)
    if word.endswith("%") and NUMBER.fullmatch(word[:-1]):
        yield at + 1, word[:-1].replace(",", ""), 0
    elif value := number_at(scan, at):
        yield from ((end, value, 0) for end in scan.after(at + 1, (("%",), ("percent",), ("per", "cent"))))


def read_quantity(scan: Scan, at: int) -> Iterator[Read]:
    """A number with one of the units: `5 km`, `5km`, `98.6 °F`."""
    units = scan.language.choices.get("unit", {})
    if glued := _QUANTITY.fullmatch(scan.word(at)):
        unit = units.get((glued[2],)) or units.get((glued[2].replace("°", ""),))
        if unit:
            yield at + 1, f"{glued[1].replace(',', '')} {unit}", 0
    if value := ("1" if scan.word(at) in ("a", "an") else number_at(scan, at)):
        for end, unit, _ in choice_of(units)(scan, at + 1):
            yield end, f"{value} {unit}", 0


def read_duration(scan: Scan, at: int) -> Iterator[Read]:
    """`3 weeks`, `a month`."""
    value = "1" if scan.word(at) in ("a", "an") else number_at(scan, at)
    period = scan.language.choices.get("period", {}).get((scan.word(at + 1),))
    if value.isdecimal() and period:
        yield at + 2, f"{value} {period}" if value != "1" else f"1 {str(period).removesuffix('s')}", 0


def read_date(scan: Scan, at: int) -> Iterator[Read]:
    """`2026-03-01`, `1 March 2026`, `March 1st, 2026`, `1.3.2026`, `today`: an ISO date, or the word."""
    for words, value in scan.language.choices.get("day", {}).items():
        if scan.follows(at, words):
            yield at + len(words), value, 0
    word = scan.word(at)
    if iso := _ISO.fullmatch(word):
        yield from _a_date(at + 1, iso[1], iso[2], iso[3])
    if dots := _DOTS.fullmatch(word):
        yield from _a_date(at + 1, dots[3], dots[2], dots[1])
    months = scan.language.months
    first, second = _ordinal(word), _ordinal(scan.word(at + 1))
    if first and (month := months.get(scan.word(at + 1))):  # 1 March 2026
        year = at + 2 + (scan.word(at + 2) in (",", "of"))
        yield from _a_date(year + 1, scan.word(year), month, first)
    if second and (month := months.get(word)):  # March 1, 2026
        year = at + 2 + (scan.word(at + 2) == ",")
        yield from _a_date(year + 1, scan.word(year), month, second)


def _ordinal(word: str) -> str:
    hit = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", word)
    return hit[1] if hit else ""


def _a_date(end: int, year: str, month: str | int, day: str) -> Iterator[Read]:
    if re.fullmatch(r"\d{4}", year) and year.isascii():
        try:
            yield end, date(int(year), int(month), int(day)).isoformat(), 0
        except ValueError:
            return


def read_range(scan: Scan, at: int) -> Iterator[Read]:
    """`10-20` or `10 to 20`, as lines are named."""
    if hit := re.fullmatch(r"(\d+)(?:-|–|\.\.|:)(\d+)", scan.word(at)):
        yield at + 1, f"{hit[1]}-{hit[2]}", 0
    first, last = number_at(scan, at), number_at(scan, at + 2)
    if (
        first.isdecimal()
        and last.isdecimal()
        and scan.word(at + 1) in ("to", "through", "until", "-", "–", "and")
    ):
        yield at + 3, f"{first}-{last}", 0


_SYMBOLS = {"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "**": "^", "x": "*"}
_PART = re.compile(r"\s*(?:(\d[\d,]*(?:\.\d+)?|\.\d+)|(\*\*|[-+*/^()%×÷−–·x]))")


def read_expression(scan: Scan, at: int) -> Iterator[Read]:
    """Arithmetic in symbols or words, `12 * (3 + 4)`, `three plus four`, with at least one operation."""
    parts: list[str] = []
    ends: list[Read] = []
    while at < len(scan.tokens) and not scan.tokens[at].quoted and len(parts) < EXPRESSION_PARTS:
        operator = next((w for w in scan.language.operators if scan.follows(at, w)), None)
        if operator:
            parts.append(scan.language.operators[operator])
            at += len(operator)
        elif scan.word(at) in scan.language.numbers:
            parts.append(scan.language.numbers[scan.word(at)])
            at += 1
        elif pieces := _pieces(scan.word(at)):
            parts += pieces
            at += 1
        else:
            break
        if _is_arithmetic(parts):
            ends.append((at, " ".join(parts).replace("( ", "(").replace(" )", ")").replace(" %", "%"), 0))
    yield from reversed(ends)


def _pieces(word: str) -> list[str]:
    """A word's numbers and symbols; nothing when it holds anything else, or is a date."""
    if _ISO.fullmatch(word) or not re.search(r"[\d()*/+^%×÷·x−–-]", word):
        return []
    found: list[str] = []
    at = 0
    while at < len(word):
        hit = _PART.match(word, at)
        if not hit or (hit[1] and "," in hit[1] and not NUMBER.fullmatch(hit[1])):
            return []
        found.append(hit[1].replace(",", "") if hit[1] else _SYMBOLS.get(hit[2], hit[2]))
        at = hit.end()
    return found


def _is_arithmetic(parts: list[str]) -> bool:
    """Whether operands and operators alternate, parentheses are closed, and there is an operation."""
    operations = depth = 0
    operand = False  # whether one has just been read
    for part in parts:
        if part[0].isdigit() or part[0] == ".":
            if operand:
                return False
            operand = True
        elif part in "()":
            if operand != (part == ")"):
                return False
            depth += 1 if part == "(" else -1
            if depth < 0:
                return False
        elif part == "%":
            if not operand:
                return False
        elif operand:
            operations += 1
            operand = False
        elif part not in "+-":
            return False
    return operand and depth == 0 and operations > 0
