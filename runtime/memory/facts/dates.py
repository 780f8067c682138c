"""Reads dates: how they are written, which day is meant, and from when until when a sentence holds."""

from __future__ import annotations

import calendar
import re
from contextlib import suppress
from datetime import date, timedelta

from dateutil.relativedelta import relativedelta

from runtime.memory.facts.records import moment, stamp
from runtime.text.patterns import any_of

_NAMES = (*enumerate(calendar.month_name), *enumerate(calendar.month_abbr), (9, "Sept"))
MONTHS = {name.lower(): number for number, name in _NAMES if name}
WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_MONTH, _NTH, _YEAR = any_of(MONTHS), r"(?:st|nd|rd|th)?", r"(?:,?\s*(?P<y{}>\d{{4}}))?"
WRITTEN = rf"""
      (?P<iso>\d{{4}}-\d\d(?:-\d\d)?)(?!\d)
    | (?P<d1>\d{{1,2}}){_NTH}(?:\s+of)?\s+(?P<m1>{_MONTH})\b\.?{_YEAR.format(1)}
    | (?P<m2>{_MONTH})\b\.?\s+(?P<d2>\d{{1,2}}){_NTH}\b(?![:.]\d){_YEAR.format(2)}
"""
"""A date with its month; the flags must be `re.VERBOSE | re.IGNORECASE`, and `numbers` reads a match."""
NAMED = rf"""
      {WRITTEN}
    | (?P<m3>{any_of(calendar.month_name[1:])})\b{_YEAR.format(3)}
    | (?P<weekday>{any_of(WEEKDAYS)})s?\b
"""
"""The same, a month or a weekday."""
_FLAGS = re.VERBOSE | re.IGNORECASE
_WHEN = rf"""
    (?:the\s+)?(?:first\s+of\s+)?(?:(?:next|this|coming|last)\s+)?
    (?:{NAMED}|(?P<fixed>today|tomorrow|now\s+on|(?<=next\s)(?:week|month|year))\b)
    (?!\s+(?:over\s+)?(?:to|onto|into|until|till)\b)  # from Monday to Wednesday tells values
"""
_FROM = re.compile(
    rf"\b(?:(?P<back>since)|from|as\s+of|starting(?:\s+on)?|effective|beginning)\s+{_WHEN}", _FLAGS
)
_COMING = re.compile(
    rf"(?<!\bto\s)(?<!\bby\s)(?<!\bfor\s)(?<!\bis\s)(?<!\bare\s)(?<!\buntil\s)\b(?=next\s|tomorrow\b){_WHEN}",
    _FLAGS,
)
_UNTIL = re.compile(rf"\b(?:until|till|up\s+to\s+and\s+including|through)\s+{_WHEN}", _FLAGS)
_TODAY = re.compile(r"\b(?:today|tonight)\b", re.IGNORECASE)
_NEVER = 10_000
"""Days: more than what lies between two years."""
_COUNTS = {word: n for n, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}  # noqa: SIM905
_FOR = re.compile(
    rf"\bfor (?P<n>\d{{1,3}}|an?|{any_of(_COUNTS)}) (?P<unit>day|week|month)s?\b", re.IGNORECASE
)


def numbers(hit: re.Match[str]) -> tuple[int, int, int]:
    """Year, month and day of a date; 0 where it does not name them."""
    found = hit.groupdict()
    if found["iso"]:
        return (*map(int, found["iso"].split("-")), 0)[:3]  # type: ignore[return-value]
    n = next(n for n in "123" if found.get(f"m{n}"))
    return int(found[f"y{n}"] or 0), MONTHS[found[f"m{n}"].lower()], int(found.get(f"d{n}") or 0)


def nearest(month: int, day: int, said: date, penalty: int = 0) -> date:
    """The day of a month that is nearest to the day on which it was said; one after it is so much farther.

    Raises `ValueError` if there is no such day in the years around.
    """
    days: list[date] = []
    for year in (said.year - 1, said.year, said.year + 1):
        with suppress(ValueError):  # 29 February
            days.append(date(year, month, day))
    return min(days, key=lambda each: abs((each - said).days) + penalty * (each > said))


def since(sentence: str, at: str, *, change: bool) -> str:
    """The stored time from which a sentence that was said at a stored time holds; "" if it does not say.

    In a sentence of change, "next week" tells when it takes effect.
    """
    return _time(_FROM, sentence, at) or (_time(_COMING, sentence, at) if change else "")


def until(sentence: str, at: str) -> str:
    """The stored time until which a sentence holds: the end of the day that it names; "" if it names none."""
    found = _time(_UNTIL, sentence, at)
    return stamp(moment(found) + timedelta(1)) if found and found >= at else ""


def awhile(sentence: str, at: str) -> str:
    """The stored time until which something holds that is only for a while, if it names no day."""
    if _TODAY.search(sentence):
        return stamp(moment(at[:10]) + timedelta(1))
    hit = _FOR.search(sentence)
    days = {"day": 1, "week": 7, "month": 30}[hit["unit"].lower()] if hit else 7
    count = hit["n"].lower() if hit else "1"
    return stamp(moment(at) + timedelta(days * (int(count) if count.isdecimal() else _COUNTS.get(count, 1))))


def _time(pattern: re.Pattern[str], sentence: str, at: str) -> str:
    if hit := pattern.search(sentence):
        with suppress(ValueError, OverflowError):  # 31 June
            day = _day(hit, moment(at).date() if at else None)
            return stamp(moment(day.isoformat())) if day else ""
    return ""


def _day(hit: re.Match[str], said: date | None) -> date | None:
    """The day named; a weekday is the next one, or after `since` the last one, as is a month."""
    back = bool(hit.groupdict().get("back"))
    if not hit["weekday"] and not hit["fixed"]:
        year, month, day = numbers(hit)
        if year or said is None:
            return date(year, month, day or 1) if year else None
        return nearest(month, day or 1, said, penalty=_NEVER if back else 0)
    if said is None:
        return None
    if hit["weekday"]:
        ahead = (WEEKDAYS[hit["weekday"].lower()] - said.weekday()) % 7 or 7
        return said + timedelta(ahead - 7 if back else ahead)
    return {
        "tomorrow": said + timedelta(1),
        "week": said + timedelta(7 - said.weekday()),
        "month": said.replace(day=1) + relativedelta(months=1),
        "year": said.replace(month=1, day=1) + relativedelta(years=1),
    }.get(hit["fixed"].lower(), said)
