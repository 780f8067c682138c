"""Slots that are values: numbers, percentages, quantities, dates, ranges, arithmetic in symbols or words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache

from runtime.reflexes.slots import It, Read, Reader, Scan, choice_of

EXPRESSION_PARTS = 120
"""Of arithmetic, how many numbers and symbols one slot may take."""
NUMBER = re.compile(r"[-+−]?[$€£]?(\d{1,3}(?:,\d{3})+|\d+(?:_\d{3})*)(\.\d+)?|[-+−]?\.\d+")
_QUANTITY = re.compile(r"([-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)([^\W\d]\S*|°\S*)")
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_YEAR, _MONTH, _DAY = r"(?P<y>[0-9]{4})", r"(?P<m>[0-9]{1,2}|[^\W\d]+)", r"(?P<d>[0-9]{1,2})"
_DATES = (
    re.compile(rf"{_YEAR}-{_MONTH}-{_DAY}"),
    re.compile(rf"{_DAY}\.{_MONTH}\.{_YEAR}"),
    re.compile(rf"{_DAY}(?:st|nd|rd|th)? {_MONTH} (?:of |, )?{_YEAR}"),
    re.compile(rf"{_MONTH} {_DAY}(?:st|nd|rd|th)? (?:, )?{_YEAR}"),
)


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


def _integer(scan: Scan, at: int) -> Iterator[Read]:
    """A whole number that is not negative."""
    value = number_at(scan, at)
    if value.isdecimal():
        yield at + 1, int(value), 0


def _percent(scan: Scan, at: int) -> Iterator[Read]:
    """`15%`, `15 %`, `fifteen percent`: the number."""
    word = scan.word(at)
    if word.endswith("%") and NUMBER.fullmatch(word[:-1]):
        yield at + 1, word[:-1].replace(",", ""), 0
    elif value := number_at(scan, at):
        yield from ((end, value, 0) for end in scan.after(at + 1, (("%",), ("percent",), ("per", "cent"))))


def _quantity(scan: Scan, at: int) -> Iterator[Read]:
    """A number with one of the units: `5 km`, `5km`, `98.6 °F`."""
    units = scan.language.choices.get("unit", {})
    if glued := _QUANTITY.fullmatch(scan.word(at)):
        unit = units.get((glued[2],)) or units.get((glued[2].replace("°", ""),))
        if unit:
            yield at + 1, f"{glued[1].replace(',', '')} {unit}", 0
    if value := ("1" if scan.word(at) in ("a", "an") else number_at(scan, at)):
        for end, unit, _ in choice_of(units)(scan, at + 1):
            yield end, f"{value} {unit}", 0


def _duration(scan: Scan, at: int) -> Iterator[Read]:
    """`3 weeks`, `a month`."""
    value = "1" if scan.word(at) in ("a", "an") else number_at(scan, at)
    period = scan.language.choices.get("period", {}).get((scan.word(at + 1),))
    if value.isdecimal() and period:
        yield at + 2, f"{value} {period}" if value != "1" else f"1 {str(period).removesuffix('s')}", 0


def _date(scan: Scan, at: int) -> Iterator[Read]:
    """`2026-03-01`, `1 March 2026`, `March 1st, 2026`, `1.3.2026`, `today`: an ISO date, or the word."""
    yield from choice_of(scan.language.choices.get("day", {}))(scan, at)
    for end, day, _ in choice_of(scan.language.choices.get("holiday", {}))(scan, at):
        if re.fullmatch(r"[12]\d{3}", scan.word(end)):
            yield end + 1, f"{scan.word(end)}-{day}", 0
        else:
            yield end, f"{date(2000, *map(int, day.split('-'))):%-d %B}", 0
    for end in range(at + 1, min(at + 4, len(scan.tokens)) + 1):
        text = " ".join(scan.word(each) for each in range(at, end))
        if hit := next(filter(None, (form.fullmatch(text) for form in _DATES)), None):
            month = scan.language.months.get(hit["m"], hit["m"])
            with suppress(ValueError):
                yield end, date(int(hit["y"]), int(month), int(hit["d"])).isoformat(), 0


def _range(scan: Scan, at: int) -> Iterator[Read]:
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


_TIME = re.compile(r"(?:[01]?\d|2[0-3])(?::[0-5]\d)(?:[ap]m)?|(?:0?\d|1[0-2])[ap]m|noon")


def _time(scan: Scan, at: int) -> Iterator[Read]:
    """A time of day: `15:00`, `3pm`, `3 pm`, `noon`."""
    word = scan.word(at)
    if _TIME.fullmatch(word):
        yield at + 1, word, 0
    if scan.word(at + 1) in ("am", "pm") and _TIME.fullmatch(f"{word}{scan.word(at + 1)}"):
        yield at + 2, f"{word}{scan.word(at + 1)}", 0


def _time_there(scan: Scan, at: int) -> Iterator[Read]:
    """A time of day at a place: `15:00 in Berlin`, `3 pm Berlin time`."""
    for middle, time, _ in _time(scan, at):
        for end, zone, _ in _zone(scan, middle + (scan.word(middle) in ("in", "at"))):
            yield end, f"{time} in {zone}", 0


def _nth_line(scan: Scan, at: int) -> Iterator[Read]:
    """`line 3`: the number."""
    if scan.word(at) == "line" and number_at(scan, at + 1).isdecimal():
        yield at + 2, int(number_at(scan, at + 1)), 0


def _zone(scan: Scan, at: int) -> Iterator[Read]:
    """A time zone, or a city that names one: `Tokyo`, `New York`, `UTC`."""
    import zoneinfo

    words = [scan.word(each).title() for each in range(at, min(at + 3, len(scan.tokens)))]
    for end in range(len(words), 0, -1):
        name = " ".join(words[:end])
        if name.upper() in ("UTC", "GMT") or _cities(zoneinfo.available_timezones).get(
            name.replace(" ", "_")
        ):
            yield at + end + (scan.word(at + end) == "time"), name, 0
            return


@lru_cache(maxsize=1)
def _cities(available: Callable[[], set[str]]) -> Mapping[str, bool]:
    return {
        name.rpartition("/")[2]: True for name in available() if "/" in name and not name.startswith("Etc/")
    }


def _json_value(scan: Scan, at: int) -> Iterator[Read]:
    """A JSON value: a number, true, false, null, text in quotes, or one word."""
    if at < len(scan.tokens):
        token = scan.tokens[at]
        if token.quoted:
            yield at + 1, json.dumps(token.text, ensure_ascii=False), 0
        elif token.word in ("true", "false", "null") or re.fullmatch(r"-?\d+(?:\.\d+)?", token.word):
            yield at + 1, token.word, 0
        elif token.word in ("on", "off"):
            yield at + 1, "true" if token.word == "on" else "false", 1
        elif re.fullmatch(r"[\w.-]+", token.text) and token.word not in scan.language.refused:
            yield at + 1, json.dumps(token.text, ensure_ascii=False), 3


def _json_literal(scan: Scan, at: int) -> Iterator[Read]:
    """A number, true, false, null, or text in quotes."""
    return (each for each in _json_value(scan, at) if each[2] == 0)


def _year(scan: Scan, at: int) -> Iterator[Read]:
    """A year alone: its first day."""
    if re.fullmatch(r"[12]\d{3}", scan.word(at)):
        yield at + 1, f"{scan.word(at)}-01-01", 0


def _file_size(scan: Scan, at: int) -> Iterator[Read]:
    """`100 bytes`, `2kB`."""
    sizes = ("byte", "kB", "MB", "GB")
    return (each for each in _quantity(scan, at) if each[1].rpartition(" ")[2] in sizes)


_SYMBOLS = {"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "**": "^", "x": "*"}
_TERM = "[-+]*0%*"
_SUM = f"{_TERM}(?:[-+*/^]{_TERM})*"
_PART = re.compile(r"\s*(?:(\d[\d,]*(?:\.\d+)?|\.\d+)|(\*\*|[-+*/^()%×÷−–·x]))")


def _expression(scan: Scan, at: int) -> Iterator[Read]:
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
    """Whether the parts are a sum with at least one operation; sums in parentheses are its numbers."""
    text = "".join("0" if part[0].isdigit() or part[0] == "." else part for part in parts)
    operation = re.search(r"[0)%][-+*/^]", text)
    while text != (text := re.sub(rf"\({_SUM}\)", "0", text)):
        pass
    return bool(operation and re.fullmatch(_SUM, text))


KINDS: Mapping[str, Reader] = {
    "number": read_number,
    "integer": _integer,
    "percent": _percent,
    "quantity": _quantity,
    "duration": _duration,
    "date": _date,
    "range": _range,
    "year": _year,
    "time of day": _time,
    "time zone": _zone,
    "time there": _time_there,
    "nth line": _nth_line,
    "json value": _json_value,
    "json literal": _json_literal,
    "file size": _file_size,
    "expression": _expression,
}
"""By their names in markdown files."""
