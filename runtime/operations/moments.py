"""Days and times read from text, strictly: what could mean two days is refused, not guessed."""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass, replace

from kernel.errors import OperationFailed

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = tuple(calendar.month_name)[1:]
_NEAR = {
    "the day before yesterday": -2,
    "day before yesterday": -2,
    "yesterday": -1,
    "today": 0,
    "tomorrow": 1,
    "day after tomorrow": 2,
    "the day after tomorrow": 2,
}
_TIME = re.compile(
    r"(?i)(?:\bat\s+)?\b(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?(?:\s*(z|utc|gmt|[-+]\d{2}:?\d{2}))?$"
    r"|(?:\bat\s+)?\b(\d{1,2})\s*(am|pm)$|(?:\bat\s+)?\b(noon|midnight)$"
)


@dataclass(frozen=True)
class Moment:
    """A point in time with its zone; `timed` unless a whole day is meant.

    `recurs` is how often there is one of that name: 25 December every year, Monday every week, 3pm every day.
    """

    at: datetime.datetime
    timed: bool = False
    recurs: str = ""

    def beyond(self, other: datetime.datetime, sign: int) -> Moment:
        """The nearest one of that name that is not before the other moment, or with sign -1 not after it."""
        found = self
        for step in range(1, 9):  # 29 February may be eight years away
            if not self.recurs or (found.at - other).total_seconds() * sign >= 0:
                return replace(found, recurs="")
            further = moved(self, sign * step, f"{self.recurs}s")
            found = further if self.recurs != "year" or further.at.day == self.at.day else self
            if found is not self and (found.at - other).total_seconds() * sign < 0:
                break
        raise OperationFailed("which one is meant is not clear; write dates such as 2024-03-01")

    def sure(self) -> Moment:
        """Itself; raises when it may be of one day or the next."""
        at = self.at
        if self.recurs == "day" and not (at.hour or at.minute or at.second):
            raise OperationFailed("midnight may be of today or of tomorrow; write such as 2024-03-01 00:00")
        return self


def parse_now(text: str) -> datetime.datetime:
    """The present in the local zone, or the given moment instead."""
    if not text:
        return _local(datetime.datetime.now())
    try:
        given = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise OperationFailed(f"now: {text!r} is not an ISO date or time such as 2024-03-01T12:00") from None
    return given if given.tzinfo else _local(given)


def _local(naive: datetime.datetime) -> datetime.datetime:
    """A moment of the machine's zone; one that follows its changes of clocks."""
    from dateutil import tz

    return naive.replace(tzinfo=tz.tzlocal())


def zone(name: str) -> datetime.tzinfo:
    """The time zone of that name, such as Europe/Paris or UTC."""
    import zoneinfo

    if name.lower() in ("utc", "gmt"):
        return datetime.UTC
    words = [part.replace(" ", "_") for part in name.strip().split("/")]
    given = "/".join("_".join(piece[:1].upper() + piece[1:] for piece in word.split("_")) for word in words)
    try:
        return zoneinfo.ZoneInfo(given)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise OperationFailed(f"{name}: no such time zone; write such as Europe/Paris") from None


def moved(moment: Moment, amount: int, unit: str) -> Moment:
    """So many seconds … years later; the 31st becomes a month's last day where it has no 31st."""
    from dateutil.relativedelta import relativedelta

    word = unit.rstrip("s")
    try:
        if word in ("weekday", "working day", "business day"):
            return replace(moment, at=_working_days(moment.at, amount), recurs="")
        if word in ("hour", "minute", "second"):
            # through UTC, so that an hour is an hour when the clocks change
            later = moment.at.astimezone(datetime.UTC) + datetime.timedelta(**{f"{word}s": amount})
            return Moment(later.astimezone(moment.at.tzinfo), True)
        days = {"day": 1, "week": 7}.get(word)
        if days:
            return replace(moment, at=moment.at + datetime.timedelta(days=amount * days), recurs="")
        step = relativedelta(months=amount) if word == "month" else relativedelta(years=amount)
        return replace(moment, at=moment.at + step, recurs="")
    except (OverflowError, ValueError):
        raise OperationFailed(f"{amount} {unit}: that leads outside the years 1 to 9999") from None


def _working_days(at: datetime.datetime, amount: int) -> datetime.datetime:
    step = 1 if amount > 0 else -1
    weeks, rest = divmod(abs(amount), 5)
    at += datetime.timedelta(weeks=step * weeks)
    if not rest and at.weekday() > 4 and amount:
        weeks, rest = 0, 5
        at -= datetime.timedelta(weeks=step)
    while rest:
        at += datetime.timedelta(days=step)
        rest -= at.weekday() < 5
    return at


def month_number(word: str) -> int:
    """1 to 12 for a month's name or its first letters; 0 for what is none."""
    word = word.lower().rstrip(".")
    if word == "sept":
        return 9
    return next((n for n, name in enumerate(_MONTHS, 1) if word in (name.lower(), name[:3].lower())), 0)


def parse(text: str, here: datetime.datetime) -> Moment:
    """The moment that words name: today, next friday, 2024-03-01, 1 March 2024, tomorrow at 14:00."""
    text = text.strip().strip(",")
    if text.lower() == "now":
        return Moment(here.replace(microsecond=0), True)
    if moment := _iso(text, here):
        return moment
    hit = _TIME.search(text)
    day_text = text[: hit.start()].strip().rstrip(",").strip() if hit else text
    moment = _day(day_text or "today", here)
    if not hit:
        return moment
    if day_text and (hit[8] or "").lower() == "midnight":
        raise OperationFailed(f"{text} may be its begin or its end; write such as 2024-03-01 00:00")
    return _at_time(moment if day_text else replace(moment, recurs="day"), hit)


def _iso(text: str, here: datetime.datetime) -> Moment | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?", text):
        return None
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        if len(text) == 10:
            raise OperationFailed(f"{text}: {error}") from None
        return None
    return Moment(at if at.tzinfo else at.replace(tzinfo=here.tzinfo), len(text) > 10)


def _at_time(moment: Moment, hit: re.Match[str]) -> Moment:
    if word := hit[8]:
        hour, minute, second = (12 if word.lower() == "noon" else 0), 0, 0
    else:
        hour, minute, second = int(hit[1] or hit[6]), int(hit[2] or 0), int(hit[3] or 0)
    half = (hit[4] or hit[7] or "").lower()
    if half and not 1 <= hour <= 12:
        raise OperationFailed(f"{hit[0]}: with am or pm the hour is 1 to 12")
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    try:
        at = moment.at.replace(hour=hour, minute=minute, second=second)
    except ValueError as error:
        raise OperationFailed(f"{hit[0]}: {error}") from None
    if offset := hit[5]:
        known = datetime.UTC if offset[0] not in "+-" else datetime.datetime.strptime(offset, "%z").tzinfo
        at = at.replace(tzinfo=known)
    return replace(moment, at=at, timed=True)


def _day(text: str, here: datetime.datetime) -> Moment:
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    word = text.lower()
    if word in _NEAR:
        return moved(Moment(today), _NEAR[word], "days")
    if hit := re.fullmatch(r"(?:(next|last|this)\s+)?([a-z]+)", word):
        weekday = next(
            (n for n, name in enumerate(WEEKDAYS) if name.lower() in (hit[2], f"{hit[2]}day")), None
        )
        if weekday is None and len(hit[2]) >= 3:
            weekday = next((n for n, name in enumerate(WEEKDAYS) if name.lower()[:3] == hit[2]), None)
        if weekday is not None:
            return Moment(_weekday(today, weekday, hit[1] or "this"), False, "" if hit[1] else "week")
        if hit[1] and hit[2] in ("week", "month", "year"):
            return moved(Moment(today), {"next": 1, "last": -1, "this": 0}[hit[1]], f"{hit[2]}s")
    if hit := re.fullmatch(r"christmas(?: (\d{4}))?", word):
        return _calendar(today, int(hit[1] or today.year), 12, 25, text, "" if hit[1] else "year")
    return _written(text, today)


def _weekday(today: datetime.datetime, weekday: int, which: str) -> datetime.datetime:
    """This: the nearest from today on; next: the nearest after today; last: the nearest before."""
    ahead = (weekday - today.weekday()) % 7
    if which == "next" and not ahead:
        ahead = 7
    if which == "last":
        ahead = ahead - 7
    return today + datetime.timedelta(days=ahead)


def _written(text: str, today: datetime.datetime) -> Moment:
    """A date in figures or with the name of a month."""
    plain = re.sub(r"(?i)(\d)(?:st|nd|rd|th)\b", r"\1", text).replace(",", " ")
    named = re.match(rf"(?i)({'|'.join(WEEKDAYS)})\s+", plain)
    plain = re.sub(r"(?i)^the\s+|\bof\s+", "", plain[named.end() :] if named else plain).strip()
    moment = _unnamed(plain, today, text)
    if named and WEEKDAYS[moment.at.weekday()].lower() != named[1].lower():
        raise OperationFailed(f"{text}: that day is a {WEEKDAYS[moment.at.weekday()]}")
    return moment


def _unnamed(plain: str, today: datetime.datetime, text: str) -> Moment:
    if hit := re.fullmatch(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", plain):
        return _calendar(today, int(hit[1]), int(hit[2]), int(hit[3]), text)
    if hit := re.fullmatch(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})", plain):
        return _figures(today, hit, "." in plain, text)
    if hit := re.fullmatch(r"(\d{1,2})[\s-]+([A-Za-z]+)\.?(?:[\s-]+(\d{4}))?", plain):
        day, month, year = hit[1], hit[2], hit[3]
    elif hit := re.fullmatch(r"([A-Za-z]+)\.?\s+(\d{1,2})(?:\s+(\d{4}))?", plain):
        month, day, year = hit[1], hit[2], hit[3]
    else:
        raise OperationFailed(f"{text!r} is not a date that is understood; write such as 2024-03-01")
    number = month_number(month)
    if not number:
        raise OperationFailed(f"{text!r}: {month} is not a month; write such as 2024-03-01")
    return _calendar(today, int(year or today.year), number, int(day), text, "" if year else "year")


def _figures(today: datetime.datetime, hit: re.Match[str], dotted: bool, text: str) -> Moment:
    """Day and month in either order; with dots the day is first, else it must be plain which is which."""
    first, second, year = int(hit[1]), int(hit[2]), int(hit[3])
    if not dotted and first <= 12 and second <= 12 and first != second:
        raise OperationFailed(
            f"{text} may be {year}-{first:02d}-{second:02d} or {year}-{second:02d}-{first:02d}; write it so"
        )
    day, month = (first, second) if dotted or second <= 12 else (second, first)
    return _calendar(today, year, month, day, text)


def _calendar(
    today: datetime.datetime, year: int, month: int, day: int, text: str, recurs: str = ""
) -> Moment:
    try:
        return Moment(today.replace(year=year, month=month, day=day), False, recurs)
    except ValueError as error:
        raise OperationFailed(f"{text}: {error}") from None
