"""The operation date: days counted, moved and named, in the time zone of the machine."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from fractions import Fraction

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations import figures
from runtime.operations.moments import WEEKDAYS, Moment, month_number, moved, parse, parse_now, zone

LONGEST = 300
_UNITS = r"(seconds?|minutes?|hours?|days?|weeks?|months?|years?|weekdays?|working days|business days)"
_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_WORDS = {"a": 1, "an": 1, **{word: n for n, word in enumerate(_COUNTED, 1)}}
_NUMBER = rf"\d{{1,6}}|{'|'.join(_WORDS)}"
_MOVE = re.compile(rf"\s*([-+−])\s*({_NUMBER})\s*{_UNITS}\b", re.IGNORECASE)
_FURTHER = re.compile(rf"\s*(?:,|and\b)?\s*()({_NUMBER})\s*{_UNITS}\b", re.IGNORECASE)
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
    """A day (today + 3 days), a span (days between …), or a weekday; `now` stands in for the clock."""
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
    """The day or time that an expression gives."""
    for pattern, back in (
        (re.compile(rf"(?i)in (?P<n>{_NUMBER}) {_UNITS}"), 1),
        (re.compile(rf"(?i)(?P<n>{_NUMBER}) {_UNITS} ago"), -1),
        (re.compile(rf"(?i)(?P<n>{_NUMBER}) {_UNITS} (?:after|from) (?P<base>.+)"), 1),
        (re.compile(rf"(?i)(?P<n>{_NUMBER}) {_UNITS} before (?P<base>.+)"), -1),
        (re.compile(r"(?i)(?:the )?(?P<n>)(day|week|month|year) after (?P<base>.+)"), 1),
        (re.compile(r"(?i)(?:the )?(?P<n>)(day|week|month|year) before (?P<base>.+)"), -1),
    ):
        if hit := pattern.fullmatch(text):
            groups = hit.groupdict()
            unit = hit[2].lower()
            base = _moment(groups.get("base") or ("now" if _short(unit) else "today"), here)
            return moved(base.sure(), back * _amount(groups["n"]), unit)
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
    """Of figures or a word."""
    return int(word) if word.isdigit() else _WORDS[word.lower() or "a"]


def _short(unit: str) -> bool:
    return unit.startswith(("hour", "minute", "second"))


def _edge(first: bool, of: str, here: datetime.datetime) -> Moment:
    of = of.lower().removeprefix("the ")
    base = Moment(here.replace(hour=0, minute=0, second=0, microsecond=0), False)
    if hit := re.fullmatch(r"(?:(this|next|last) )?(month|year)", of):
        start = moved(base, {"next": 1, "last": -1}.get(hit[1], 0), f"{hit[2]}s").at
        month, months = start.replace(day=1), 1
        if hit[2] == "year":
            month, months = month.replace(month=1), 12
    elif hit := re.fullmatch(r"(\d{4})-(\d{1,2})", of):
        month, months = _day(base, int(hit[1]), int(hit[2])), 1
    elif (hit := re.fullmatch(r"([a-z]+)(?: (\d{4}))?", of)) and (number := month_number(hit[1])):
        month, months = _day(base, int(hit[2] or here.year), number), 1
    elif hit := re.fullmatch(r"(?:year )?(\d{4})", of):
        month, months = _day(base, int(hit[1]), 1), 12
    else:
        raise OperationFailed(
            f"{of!r} is not a month or year; write such as 2024-03, march, next month or 2024"
        )
    start = Moment(month, False)
    return start if first else moved(moved(start, months, "months"), -1, "days")


def _day(base: Moment, year: int, month: int) -> datetime.datetime:
    try:
        return base.at.replace(year=year, month=month, day=1)
    except ValueError as error:
        raise OperationFailed(f"{year}-{month:02d}: {error}") from None


def _shown(moment: Moment, format: str) -> Result:
    at = moment.sure().at
    if moment.timed and not _exists(at):
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


def _exists(at: datetime.datetime) -> bool:
    from dateutil.tz import datetime_exists

    return datetime_exists(at)


def _span(hit: re.Match[str], here: datetime.datetime) -> Result:
    begin, end = _moment(hit["a"], here), _moment(hit["b"], here)
    for one, other in ((begin, end), (end, begin)):
        if one.recurs == "year" != other.recurs and other.at.year != here.year:
            raise OperationFailed("write both dates with their years, such as 2024-03-01")
    return _difference(hit["unit"].lower(), begin, end.beyond(begin.at, 1), signed=False)


def _until(hit: re.Match[str], here: datetime.datetime) -> Result:
    end = _moment(hit["b"], here)
    today = _from(hit, here)
    return _difference(
        hit["unit"].lower(), today, end.beyond(here if end.timed else today.at, 1), signed=True
    )


def _since(hit: re.Match[str], here: datetime.datetime) -> Result:
    return _difference(
        hit["unit"].lower(), _moment(hit["a"], here).beyond(here, -1), _from(hit, here), signed=True
    )


def _from(hit: re.Match[str], here: datetime.datetime) -> Moment:
    """Now for what is counted in hours and less, else today."""
    return Moment(here, True) if _short(hit["unit"].lower()) else _moment("today", here)


def _difference(unit: str, begin: Moment, end: Moment, *, signed: bool) -> Result:
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
    return Result(f"{figures.shown(number)} {word}{'' if abs(number) == 1 else 's'}", evidence=evidence)


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
    import calendar

    return Result("yes" if calendar.isleap(int(hit["year"])) else "no", evidence={"year": int(hit["year"])})


def _days_in(hit: re.Match[str], here: datetime.datetime) -> Result:
    last = _edge(False, hit["month"], here).at
    days = last.timetuple().tm_yday if re.search(r"year$|^\d{4}$", hit["month"].lower()) else last.day
    return Result(f"{days} days", evidence={"to": last.date().isoformat(), "days": days})


def _in_zone(hit: re.Match[str], here: datetime.datetime) -> Result:
    moment = _moment(hit["a"], here).sure()
    if not moment.timed:
        raise OperationFailed(f"{hit['a']} has no time of day; write such as now in {hit['zone']}")
    return _shown(Moment(moment.at.astimezone(zone(hit["zone"])), True), "%Y-%m-%d %H:%M %Z")


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
    (re.compile(r"(?i)(?P<a>.+) (?:in|to) (?P<zone>utc|gmt|[a-z]+(?:[_ ][a-z]+)*/[a-z_/ -]+)"), _in_zone),
)
