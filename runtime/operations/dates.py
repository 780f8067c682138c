"""The operation date: days counted, moved and named, in the time zone of the machine.

Dates are read strictly: a text that could mean two days is refused.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations import quantities
from runtime.sandbox.context import OperationContext, operation

WEEKDAYS = tuple(calendar.day_name)
_NEAR = ("day before yesterday", "yesterday", "today", "tomorrow", "day after tomorrow")
_WHICH = {"next": 1, "last": -1, "this": 0}
_TIME = re.compile(
    r"(?i)(?:\bat\s+)?\b(?=\d+:|\d+\s*[ap]m)(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?\s*(am|pm)?"
    r"(?:\s*(z|utc|gmt|[-+]\d{2}:?\d{2}))?$"
)
_DAY = re.compile(rf"(?i)(?:({'|'.join(WEEKDAYS)})[\s,]+)?(?:the\s+)?(.+)")
_NAMED_MONTH = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y")


@dataclass(frozen=True)
class Moment:
    """A point in time with its zone; `timed` unless a whole day is meant.

    `recurs` is how often there is one of that name: 25 December every year, Monday every week, 3pm every day.
    """

    at: datetime.datetime
    timed: bool = False
    recurs: str = ""

    def beyond(self, other: datetime.datetime, sign: int) -> Moment:
        """The nearest recurrence not before the other moment, or with sign -1 not after it."""
        if not self.recurs:
            return self
        for step in range(9):  # 29 February may be eight years away
            found = moved(self, sign * step, f"{self.recurs}s")
            leap = self.recurs == "year" and found.at.day != self.at.day
            if not leap and (found.at - other).total_seconds() * sign >= 0:
                return replace(found, recurs="")
        raise OperationFailed("which one is meant is not clear; write dates such as 2024-03-01")

    def sure(self) -> Moment:
        """Itself; raises for a midnight that may belong to either of two days."""
        at = self.at
        if self.recurs == "day" and not (at.hour or at.minute or at.second):
            raise OperationFailed("midnight may be of today or of tomorrow; write such as 2024-03-01 00:00")
        return self


def parse_now(text: str) -> datetime.datetime:
    """The given moment, or the present in the local zone."""
    from dateutil import tz

    try:
        now = datetime.datetime.fromisoformat(text.strip()) if text else datetime.datetime.now()
    except ValueError:
        raise OperationFailed(f"now: {text!r} is not an ISO date or time such as 2024-03-01T12:00") from None
    return now if now.tzinfo else now.replace(tzinfo=tz.tzlocal())


def zone(name: str) -> datetime.tzinfo:
    """The time zone of that name, such as Europe/Paris, UTC, or a city that names one."""
    import zoneinfo

    if name.lower() in ("utc", "gmt"):
        return datetime.UTC
    zone_name = re.sub(r"(?<![a-zA-Z])[a-z]", lambda hit: hit[0].upper(), name.strip().replace(" ", "_"))
    try:
        if "/" not in zone_name:
            cities = {each for each in zoneinfo.available_timezones() if each.endswith(f"/{zone_name}")}
            cities = {each for each in cities if each.split("/")[0] not in ("posix", "right", "US", "Etc")}
            if len(cities) == 1:
                return zoneinfo.ZoneInfo(cities.pop())
        return zoneinfo.ZoneInfo(zone_name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise OperationFailed(f"{name}: no such time zone; write such as Europe/Paris") from None


def moved(moment: Moment, amount: int, unit: str) -> Moment:
    """The moment moved by seconds … years; the 31st becomes the last day of a shorter month."""
    from dateutil.relativedelta import relativedelta

    word = unit.rstrip("s")
    steps: dict[str, Any] = {f"{word}s": amount}
    try:
        if word in ("weekday", "working day", "business day"):
            return replace(moment, at=_working_days(moment.at, amount), recurs="")
        if _short(word):
            # through UTC, so that an hour is an hour when the clocks change
            later = moment.at.astimezone(datetime.UTC) + datetime.timedelta(**steps)
            return Moment(later.astimezone(moment.at.tzinfo), True)
        return replace(moment, at=moment.at + relativedelta(**steps), recurs="")
    except (OverflowError, ValueError):
        raise OperationFailed(f"{amount} {unit}: that leads outside the years 1 to 9999") from None


def _working_days(at: datetime.datetime, amount: int) -> datetime.datetime:
    step = 1 if amount > 0 else -1
    while amount:
        at += datetime.timedelta(days=step)
        amount -= step * (at.weekday() < 5)
    return at


def parse(text: str, here: datetime.datetime) -> Moment:
    """The moment of a text: today, next friday, 2024-03-01, 1 March 2024, tomorrow at 14:00."""
    text = text.strip().strip(",")
    if text.lower() == "now":
        return Moment(here.replace(microsecond=0), True)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?", text):
        try:
            at = datetime.datetime.fromisoformat(text)
            return Moment(at if at.tzinfo else at.replace(tzinfo=here.tzinfo), len(text) > 10)
        except ValueError as error:
            if len(text) == 10:
                raise OperationFailed(f"{text}: {error}") from None
    clock = re.sub(r"(?i)\bmidnight$", "0:00", re.sub(r"(?i)\bnoon$", "12:00", text))
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    hit = _TIME.search(clock)
    if not hit:
        return _day(text, today)
    day = clock[: hit.start()].strip().rstrip(",").strip()
    if day and text.lower().endswith("midnight"):
        raise OperationFailed(f"{text} may be its begin or its end; write such as 2024-03-01 00:00")
    return _at_time(_day(day, today) if day else Moment(today, recurs="day"), hit)


def _at_time(moment: Moment, hit: re.Match[str]) -> Moment:
    hour, half, offset = int(hit[1]), (hit[4] or "").lower(), hit[5]
    if half and not 1 <= hour <= 12:
        raise OperationFailed(f"{hit[0]}: with am or pm the hour is 1 to 12")
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    try:
        at = moment.at.replace(hour=hour, minute=int(hit[2] or 0), second=int(hit[3] or 0))
    except ValueError as error:
        raise OperationFailed(f"{hit[0]}: {error}") from None
    if offset:
        tz = datetime.UTC if offset[0] not in "+-" else datetime.datetime.strptime(offset, "%z").tzinfo
        at = at.replace(tzinfo=tz)
    return replace(moment, at=at, timed=True)


def _day(text: str, today: datetime.datetime) -> Moment:
    word = text.lower()
    if (near := word.removeprefix("the ")) in _NEAR:
        return moved(Moment(today), _NEAR.index(near) - 2, "days")
    if hit := re.fullmatch(r"(?:(next|last|this)\s+)?([a-z]+)", word):
        for number, name in enumerate(map(str.lower, WEEKDAYS)):
            if hit[2] in (name, name[:3], name.removesuffix("day")):
                ahead = (number - today.weekday()) % 7  # this: from today on; next: after today; last: before
                days = {"next": ahead or 7, "last": ahead - 7}.get(hit[1], ahead)
                return Moment(today + datetime.timedelta(days=days), False, "" if hit[1] else "week")
        if hit[1] and hit[2] in ("week", "month", "year"):
            return moved(Moment(today), _WHICH[hit[1]], f"{hit[2]}s")
    hit = _DAY.fullmatch(text)
    weekday, day = hit.groups() if hit else ("", text)
    moment = _written(day, today)
    if moment is None:
        raise OperationFailed(f"{text!r} is not a date that is understood; write such as 2024-03-01")
    if weekday and WEEKDAYS[moment.at.weekday()].lower() != weekday.lower():
        raise OperationFailed(f"{text}: that day is a {WEEKDAYS[moment.at.weekday()]}")
    return moment


def _written(text: str, today: datetime.datetime) -> Moment | None:
    """A date in digits or with the name of a month, of every year if it names none."""
    plain = re.sub(r"(?i)(?<=\d)(?:st|nd|rd|th)\b|\bof\b", "", text)
    plain = re.sub(r"[\s,./-]+", " ", re.sub(r"(?i)\bsept\b", "sep", plain)).strip()
    plain = re.sub(r"(?i)\bchristmas\b", "25 december", plain)
    day_first, month_first = _dated(plain, today, "%d %m %Y"), _dated(plain, today, "%m %d %Y")
    if day_first and month_first and day_first != month_first and "." not in text:
        raise OperationFailed(f"{text} may be {month_first:%Y-%m-%d} or {day_first:%Y-%m-%d}; write it so")
    at = _dated(plain, today, "%Y %m %d", *_NAMED_MONTH) or day_first or ("." not in text and month_first)
    if at:
        return Moment(at)
    at = _dated(f"{plain} {today.year}", today, *_NAMED_MONTH)
    return Moment(at, False, "year") if at else None


def _dated(text: str, today: datetime.datetime, *forms: str) -> datetime.datetime | None:
    """The day of a text that has one of these forms."""
    for form in forms:
        with suppress(ValueError):
            return datetime.datetime.strptime(text, form).replace(tzinfo=today.tzinfo)
    return None


LONGEST = 300
_UNITS = r"seconds?|minutes?|hours?|days?|weeks?|months?|years?|weekdays?|working days|business days"
_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WORDS = {"a": 1, "an": 1, **{word: n for n, word in enumerate(_COUNTED, 1)}}
_NUMBER = rf"\d{{1,6}}|{'|'.join(_WORDS)}"
_MOVE = re.compile(rf"\s*([-+−])\s*({_NUMBER})\s*({_UNITS})\b", re.IGNORECASE)
_FURTHER = re.compile(rf"\s*(?:,|and\b)?\s*()({_NUMBER})\s*({_UNITS})\b", re.IGNORECASE)
_SHIFTS = (
    re.compile(rf"(?i)(?P<way>in) (?P<n>{_NUMBER}) (?P<unit>{_UNITS})(?P<base>)"),
    re.compile(rf"(?i)(?P<n>{_NUMBER}) (?P<unit>{_UNITS}) (?P<way>ago)(?P<base>)"),
    re.compile(rf"(?i)(?P<n>{_NUMBER}) (?P<unit>{_UNITS}) (?P<way>after|from|before) (?P<base>.+)"),
    re.compile(r"(?i)(?:the )?(?P<n>)(?P<unit>day|week|month|year) (?P<way>after|before) (?P<base>.+)"),
)
_FORMATS = {
    "iso": "%Y-%m-%d",
    "long": "%A, %-d %B %Y",
    "weekday": "%A",
    "time": "%H:%M",
    "week": "%G-W%V",
    "day of year": "%-j",
}


@operation()
def date(ctx: OperationContext, expression: str, format: str = "", now: str = "") -> Result:
    """A day (today + 3 days), a span (days between …) or a weekday; `now` replaces the clock."""
    text = " ".join(expression.strip().rstrip("?").split())
    if not text or len(text) > LONGEST:
        raise OperationFailed(f"the expression is empty or longer than {LONGEST} characters")
    here = parse_now(now)
    text = re.sub(r"(?i)^(?:what (?:is|was|will be)|when is|what's|how many|which)\s+(?:the )?", "", text)
    for pattern, answer in _QUESTIONS:
        if hit := pattern.fullmatch(text):
            if format and answer is not _in_zone:
                raise OperationFailed("format goes with an expression that gives a date")
            return answer(hit, here)
    return _shown(_moment(text, here), format)


def _moment(text: str, here: datetime.datetime) -> Moment:
    """The day or time of an expression."""
    for pattern in _SHIFTS:
        if hit := pattern.fullmatch(text):
            unit, back = hit["unit"].lower(), hit["way"].lower() in ("ago", "before")
            base = _moment(hit["base"] or ("now" if _short(unit) else "today"), here)
            return moved(base.sure(), (-1 if back else 1) * _amount(hit["n"]), unit)
    if hit := re.fullmatch(r"(?i)(?:the )?(first|last) day of (?:the )?(.+)", text):
        return _edge(hit[1].lower() == "first", hit[2], here)
    first = _MOVE.search(text)
    moment = parse(text[: first.start()] if first else text, here)
    rest = text[first.start() :] if first else ""
    sign = 1
    while rest:
        hit = _MOVE.match(rest) or _FURTHER.match(rest)  # + 1 year and 2 months
        if hit is None:
            raise OperationFailed(f"cannot read {rest.strip()!r}; write such as + 3 days")
        sign = {"+": 1, "": sign}.get(hit[1], -1)
        moment = moved(moment.sure(), sign * _amount(hit[2]), hit[3].lower())
        rest = rest[hit.end() :].strip()
    return moment


def _amount(word: str) -> int:
    """The number of digits or of a word."""
    return int(word) if word.isdigit() else _WORDS[word.lower() or "a"]


def _short(unit: str) -> bool:
    return unit.startswith(("hour", "minute", "second"))


def _edge(first: bool, of: str, here: datetime.datetime) -> Moment:
    """The first or last day of a month or year."""
    of = of.lower().removeprefix("the ")
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if hit := re.fullmatch(r"(?:(this|next|last) )?(month|year)", of):
        unit, day = hit[2], moved(Moment(today), _WHICH.get(hit[1], 0), f"{hit[2]}s")
    elif hit := re.fullmatch(r"(?:year )?(\d{4})", of):
        unit, day = "year", _written(f"{hit[1]}-1-1", today)
    else:
        unit, day = "month", _written(f"1 {of}", today) or _written(f"{of} 1", today)
    if day is None or (unit == "month" and not hit and day.at.day != 1):
        raise OperationFailed(
            f"{of!r} is not a month or year; write such as 2024-03, march, next month or 2024"
        )
    start = Moment(day.at.replace(day=1, month=1 if unit == "year" else day.at.month))
    return start if first else moved(moved(start, 1, f"{unit}s"), -1, "days")


def _shown(moment: Moment, format: str) -> Result:
    from dateutil.tz import datetime_exists

    at = moment.sure().at
    if moment.timed and not datetime_exists(at):
        raise OperationFailed(f"{at:%Y-%m-%d %H:%M}: the clocks are put forward then; there is no such time")
    evidence = {"date": at.date().isoformat(), "weekday": WEEKDAYS[at.weekday()]}
    if moment.timed:
        evidence["time"] = at.isoformat(timespec="seconds")
    if format:
        pattern = _FORMATS.get(format.lower(), format)
        if len(pattern) > 100 or ("%" not in pattern):
            raise OperationFailed(
                f"format: {format!r} is none of {', '.join(_FORMATS)}, nor such as %d.%m.%Y"
            )
        return Result(at.strftime(pattern), evidence=evidence)
    return Result(at.strftime("%Y-%m-%d %H:%M") if moment.timed else at.date().isoformat(), evidence=evidence)


def _span(hit: re.Match[str], here: datetime.datetime) -> Result:
    begin, end = _moment(hit["a"], here), _moment(hit["b"], here)
    for one, other in ((begin, end), (end, begin)):
        if one.recurs == "year" != other.recurs and other.at.year != here.year:
            raise OperationFailed("write both dates with their years, such as 2024-03-01")
    return _difference(hit["unit"].lower(), begin, end.beyond(begin.at, 1), signed=False)


def _until(hit: re.Match[str], here: datetime.datetime) -> Result:
    begin, end = _from(hit, here), _moment(hit["b"], here)
    return _difference(hit["unit"].lower(), begin, end.beyond(here if end.timed else begin.at, 1))


def _since(hit: re.Match[str], here: datetime.datetime) -> Result:
    return _difference(hit["unit"].lower(), _moment(hit["a"], here).beyond(here, -1), _from(hit, here))


def _from(hit: re.Match[str], here: datetime.datetime) -> Moment:
    """Now for hours, minutes and seconds, else today."""
    return Moment(here, True) if _short(hit["unit"].lower()) else _moment("today", here)


def _difference(unit: str, begin: Moment, end: Moment, *, signed: bool = True) -> Result:
    sign = 1
    if end.at < begin.at:
        begin, end, sign = end, begin, -1 if signed else 1
    word = unit.rstrip("s") if not unit.endswith(("working days", "business days")) else "working day"
    number = sign * _units_between(word, begin, end)
    evidence = {
        "from": begin.at.isoformat(),
        "to": end.at.isoformat(),
        "days": sign * (end.at.date() - begin.at.date()).days,
    }
    return Result(f"{quantities.shown(number)} {word}{'' if abs(number) == 1 else 's'}", evidence=evidence)


def _units_between(word: str, begin: Moment, end: Moment) -> Fraction:
    """Whole days, weeks, months or years; hours, minutes and seconds exactly."""
    days = (end.at.date() - begin.at.date()).days
    if word in ("weekday", "working day"):
        weeks, rest = divmod(days, 7)
        return Fraction(weeks * 5 + sum((begin.at.weekday() + day) % 7 < 5 for day in range(rest)))
    if word in ("day", "week"):
        return Fraction(days if word == "day" else days // 7)
    if word in ("month", "year"):
        from dateutil.relativedelta import relativedelta

        span = relativedelta(end.at, begin.at)
        return Fraction(span.years if word == "year" else span.years * 12 + span.months)
    # instants are compared in UTC: the same zone on both sides would ignore the change of clocks
    seconds = int((end.at.astimezone(datetime.UTC) - begin.at.astimezone(datetime.UTC)).total_seconds())
    return Fraction(seconds, {"hour": 3600, "minute": 60, "second": 1}[word])


def _weekday(hit: re.Match[str], here: datetime.datetime) -> Result:
    at = _moment(hit["a"], here).at
    return Result(WEEKDAYS[at.weekday()], evidence={"date": at.date().isoformat()})


def _week(hit: re.Match[str], here: datetime.datetime) -> Result:
    at = _moment(hit["a"], here).at
    year, week, _ = at.isocalendar()
    return Result(str(week), evidence={"date": at.date().isoformat(), "week": f"{year}-W{week:02d}"})


def _leap(hit: re.Match[str], here: datetime.datetime) -> Result:
    return Result("yes" if calendar.isleap(int(hit["year"])) else "no", evidence={"year": int(hit["year"])})


def _days_in(hit: re.Match[str], here: datetime.datetime) -> Result:
    last = _edge(False, hit["month"], here).at
    days = (last - _edge(True, hit["month"], here).at).days + 1
    return Result(f"{days} days", evidence={"to": last.date().isoformat(), "days": days})


def _in_zone(hit: re.Match[str], here: datetime.datetime) -> Result:
    text = hit["a"]
    if there := re.fullmatch(rf"(?P<a>.+) in (?P<zone>{_ZONE})", text, re.IGNORECASE):
        text, here = there["a"], here.astimezone(zone(there["zone"]))
    moment = _moment(text, here)
    if not moment.timed:
        raise OperationFailed(f"{text} has no time of day; write such as now in {hit['zone']}")
    return _shown(Moment(moment.at.astimezone(zone(hit["zone"])), True), "%Y-%m-%d %H:%M %Z")


_ZONE = r"[a-z]+(?:[_ -][a-z]+)*(?:/[a-z_/ -]+)?"
_QUESTIONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime.datetime], Result]], ...] = (
    (re.compile(rf"(?i)(?P<unit>{_UNITS}) (?:between|from) (?P<a>.+?) (?:and|to|until) (?P<b>.+)"), _span),
    (
        re.compile(rf"(?i)(?!\w+[^s] before)(?P<unit>{_UNITS}) (?:until|till|to|before) (?P<b>.+)"),
        _until,
    ),
    (re.compile(rf"(?i)(?P<unit>{_UNITS}) since (?P<a>.+)"), _since),
    (re.compile(r"(?i)(?:day of (?:the )?week|weekday) (?:of|on|for) (?P<a>.+)"), _weekday),
    (re.compile(r"(?i)(?:iso )?week(?: number)? of (?P<a>.+)"), _week),
    (re.compile(r"(?i)(?:is )?(?P<year>\d{4}) (?:is )?a? ?leap year"), _leap),
    (re.compile(r"(?i)days in (?P<month>.+)"), _days_in),
    (re.compile(rf"(?i)(?P<a>.+) (?:in|to) (?P<zone>{_ZONE})"), _in_zone),
)
