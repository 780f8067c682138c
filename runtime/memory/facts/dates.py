"""The day from which a sentence says that something holds, and the one until which it does."""

from __future__ import annotations

import calendar
import re
from contextlib import suppress
from datetime import date, timedelta

from dateutil.relativedelta import relativedelta

from runtime.memory.facts.records import moment, stamp

_MONTHS = [name.lower() for name in calendar.month_name[1:]]
_DAYS = [name.lower() for name in calendar.day_name]
_MONTH, _WEEKDAY = "|".join(_MONTHS), "|".join(_DAYS)
_FROM = re.compile(
    r"\b(?P<back>since)\s+|\b(?:from|as of|starting(?: on)?|effective|beginning)\s+", re.IGNORECASE
)
_COMING = re.compile(
    r"(?<!\bto )(?<!\bby )(?<!\bfor )(?<!\bis )(?<!\bare )(?<!\buntil )\b(?P<back>(?!))?(?=next |tomorrow\b)",
    re.IGNORECASE,
)
_UNTIL = re.compile(r"\b(?P<back>(?!))?(?:until|till|up to and including|through)\s+", re.IGNORECASE)
_TODAY = re.compile(r"\b(?:today|tonight)\b", re.IGNORECASE)
_COUNTS = {word: n for n, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}  # noqa: SIM905
_FOR = re.compile(
    rf"\bfor (?P<n>\d{{1,3}}|an?|{'|'.join(_COUNTS)}) (?P<unit>day|week|month)s?\b", re.IGNORECASE
)
_WHEN = re.compile(
    rf"""(?:the\s+)?(?:
      (?P<iso>\d{{4}}-\d\d-\d\d)
    | (?P<d1>\d{{1,2}}|first)(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m1>{_MONTH})(?:,?\s+(?P<y1>\d{{4}}))?
    | (?P<m2>{_MONTH})\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y2>\d{{4}}))?
    | (?:next|this|coming|last)?\s*(?P<day>{_WEEKDAY})\b
    | (?P<m3>{_MONTH})(?:\s+(?P<y3>\d{{4}}))?\b
    | (?P<fixed>today|tomorrow|now\ on|next\ week|next\ month|next\ year)\b
    )(?!\s+(?:over\s+)?(?:to|onto|into|until|till)\b)  # from Monday to Wednesday tells values
    """,
    re.VERBOSE | re.IGNORECASE,
)


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


def _time(cue: re.Pattern[str], sentence: str, at: str) -> str:
    said = moment(at).date() if at else None
    for hit in cue.finditer(sentence):
        if found := _WHEN.match(sentence, hit.end()):
            with suppress(ValueError, OverflowError):  # 31 June
                day = _day(found, said, back=bool(hit["back"]))
                return stamp(moment(day.isoformat())) if day else ""
    return ""


def _day(hit: re.Match[str], said: date | None, *, back: bool) -> date | None:
    """The day named; a weekday is the next one, or with `back` the last one."""
    if hit["iso"]:
        return date.fromisoformat(hit["iso"])
    for n in "123":
        if hit[f"m{n}"]:
            month = _MONTHS.index(hit[f"m{n}"].lower()) + 1
            number = 1 if n == "3" or hit[f"d{n}"] == "first" else int(hit[f"d{n}"])
            if hit[f"y{n}"]:
                return date(int(hit[f"y{n}"]), month, number)
            return _nearest(month, number, said) if said else None
    if said is None:
        return None
    if hit["day"]:
        ahead = (_DAYS.index(hit["day"].lower()) - said.weekday()) % 7 or 7
        return said + timedelta(ahead - 7 if back else ahead)
    fixed, month = hit["fixed"].lower(), said.replace(day=1)
    return {
        "tomorrow": said + timedelta(1),
        "next week": said + timedelta(7 - said.weekday()),
        "next month": month + relativedelta(months=1),
        "next year": month.replace(month=1) + relativedelta(years=1),
    }.get(fixed, said)


def _nearest(month: int, day: int, said: date) -> date:
    """The day of a month that is nearest to the day on which it was said."""
    years = (date(said.year + by, month, day) for by in (-1, 0, 1))
    return min(years, key=lambda each: abs((each - said).days))
