"""The days that a text mentions: dates, and phrases relative to the day on which it was said.

Which phrase means which days is data (`memory/recall.md`). `dateparser` and `dateutil` return one moment
where a question means a span of days, and take milliseconds per sentence.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from math import exp

from dateutil.relativedelta import relativedelta

from runtime.memory.facts.dates import MONTHS, WEEKDAYS, WRITTEN, nearest, numbers
from runtime.memory.facts.retrieval.language import LONGEST, Language
from runtime.text.patterns import any_of

SLACK = 21
"""Days that "before" and "after" a date reach."""
FADES_AFTER, FADES_BEFORE = 10.0, 4.0
"""Days after which, or before which, telling something is less likely by a factor e."""
AFTERWARDS, BEFOREHAND = 0.9, 0.6
"""The likelihood on the day after and the day before, relative to the day itself."""
_COUNTED = {"ago", "earlier", "later", "now", "month", "year"}
_WORD, _DIGIT, _YEAR = re.compile(r"[^\W_]+"), re.compile(r"\d"), re.compile(r"\b(?:19|20)\d\d\b")
_NTH = ("first", "second", "third", "fourth", "last")
_DATED = re.compile(r"(?:\b(?:on|in|at|from|to|by|since|until|of) (?:the )?)?\0")
MOST = 8
"""Spans of one text."""


@dataclass(frozen=True)
class Span:
    """Days by their ordinal, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        """The days for a person: a date, or two."""
        first, last = date.fromordinal(self.first), date.fromordinal(self.last)
        return str(first) if first == last else f"{first} to {last}"


def day_of(at: str) -> int:
    """The ordinal of a stored time, 0 for none."""
    try:
        return date.fromisoformat(at[:10]).toordinal()
    except ValueError:
        return 0


def likely(span: Span, said: int) -> float:
    """How likely something said on a day is about a span: 0 to 1."""
    if not said:
        return 0.0
    if said > span.last:
        return AFTERWARDS * exp(-(said - span.last) / FADES_AFTER)
    return 1.0 if said >= span.first else BEFOREHAND * exp(-(span.first - said) / FADES_BEFORE)


class Times:
    """Finds spans by the words of a language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        fixed = {word for phrase in language.days for word in phrase.split()}
        dull = language.dull | language.numbers.keys()
        self._tells = (fixed - dull) | WEEKDAYS.keys() | MONTHS.keys() | language.seasons.keys() | _COUNTED
        self._times = self._tells | language.time_words
        self.tells_words = frozenset(self._tells | {f"{day}s" for day in WEEKDAYS})
        number = rf"\d{{1,3}}|{any_of(language.numbers)}"
        month, season = any_of(MONTHS), any_of(language.seasons)
        year = r"(?:19|20)\d\d"
        unit = "day|week|weekend|month|year"
        exact = (
            rf"(?x:{WRITTEN})|"
            rf"(?P<nth>{'|'.join(_NTH)}) week (?:of|in) (?P<m5>{month})\b(?:,? (?P<y6>{year}))?|"
            rf"(?:the )?(?P<some>start|beginning|middle|end) of (?P<m6>{month})\b(?!,? (?:of )?{year})|"
            rf"(?:(?P<part>early|mid|middle of|late|end of|the end of|beginning of)[ -])?"
            rf"(?:(?P<m3>{month})\b|(?P<s3>{season})\b)(?:,? (?:of )?(?P<y3>{year}))|"
            rf"(?P<turn>last|this|next|in|during|of|since|until|by|early|mid|late|before|after)[ -]"
            rf"(?:(?P<m4>{month})|(?P<s4>{season}))\b(?!,? (?:of )?{year})|"
            rf"(?P<y5>{year})\b"
        )
        self._pattern = re.compile(
            rf"\b(?:(?P<fixed>{any_of(language.days)})\b|"
            rf"(?P<n>{number}) (?P<unit>{unit})s? (?P<way>ago|earlier|later|from now)\b|"
            rf"(?P<whose>last|this|next) (?P<big>month|year)\b|"
            rf"(?:(?P<on>last|this|next|on|this past) )?(?P<weekday>{any_of(WEEKDAYS)})\b|"
            rf"(?:(?P<nb>{number}|the) (?P<ub>{unit})s? )?"
            rf"(?:(?P<rel>before|after|since|between|until) )?(?:the )?"
            rf"(?:{exact}))",
            re.IGNORECASE,
        )

    def tells(self, text: str) -> bool:
        """Whether a text mentions a time, in days or not."""
        low = text[:LONGEST].casefold()
        return bool(_YEAR.search(low)) or not self._times.isdisjoint(_WORD.findall(low))

    def spans(self, text: str, said: int) -> tuple[Span, ...]:
        """The spans of a text that was said on this day (0: unknown)."""
        low = " ".join(text[:LONGEST].casefold().split())
        if self._tells.isdisjoint(_WORD.findall(low)) and not _DIGIT.search(low):
            return ()  # as in most texts: the pattern is slow
        return self._spans(low, said)

    def without(self, text: str) -> str:
        """A text without its dates and the word before each."""
        return _DATED.sub(" ", self._pattern.sub("\0", text[:LONGEST]))

    @lru_cache(maxsize=4096)  # noqa: B019  (one of these lives as long as its index)
    def _spans(self, text: str, said: int) -> tuple[Span, ...]:
        found: list[Span] = []
        between: Span | None = None
        for hit in self._pattern.finditer(text):
            span = self._span(hit, said)
            if span is None:
                continue
            if between is not None and " and " in text[: hit.start()][-6:] + " ":
                found[-1] = Span(between.first, max(span.last, between.first))
                between = None
            else:
                found.append(span)
                between = span if (hit["rel"] or "") == "between" else None
        return tuple(dict.fromkeys(found))[:MOST]

    def _span(self, hit: re.Match[str], said: int) -> Span | None:
        if hit["fixed"]:
            first, last = self.language.days[hit["fixed"]]
            return Span(said + first, said + last) if said else None
        if hit["weekday"]:
            return self._weekday(hit, said)
        if hit["big"]:
            by = {"last": -1, "this": 0, "next": 1}[hit["whose"]]
            return _calendar(date.fromordinal(said), hit["big"], by) if said else None
        if hit["n"]:
            away = self._away(hit["n"], hit["unit"]) * (1 if hit["way"] in ("later", "from now") else -1)
            return _around(said + away, hit["unit"]) if said else None
        if (dated := self._dated(hit, said)) is None:
            return None
        if hit["rel"] == "before" and hit["ub"]:
            return _around(dated.first - self._away(hit["nb"], hit["ub"]), hit["ub"], dated.first - 1)
        if hit["rel"] == "before":
            return Span(dated.first - SLACK, dated.first - 1)
        if hit["rel"] == "after":
            return Span(dated.last + 1, dated.last + SLACK)
        return Span(dated.first, max(said, dated.last)) if hit["rel"] == "since" else dated

    def _weekday(self, hit: re.Match[str], said: int) -> Span | None:
        if not said:
            return None
        ahead = (WEEKDAYS[hit["weekday"]] - date.fromordinal(said).weekday()) % 7 or 7
        day = said + ahead if hit["on"] in ("next", "this") else said - (7 - ahead or 7)
        return Span(day, day)

    def _away(self, number: str, unit: str) -> int:
        count = 1 if number == "the" else int(number) if number.isdecimal() else self.language.numbers[number]
        return min(count * {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}[unit], 300_000)

    def _dated(self, hit: re.Match[str], said: int) -> Span | None:
        try:
            if hit["iso"] or hit["m1"] or hit["m2"]:
                return _written(*numbers(hit), said)
            if hit["y5"]:
                year = int(hit["y5"])
                return Span(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal())
            if hit["nth"]:
                return self._week_of(hit, said)
            if hit["some"]:
                return self._some_of(hit["m6"], f"{hit['some']} of".replace("start", "beginning"), said)
            return self._months_of(hit, said)
        except ValueError:
            return None  # 31 June

    def _week_of(self, hit: re.Match[str], said: int) -> Span | None:
        """Seven days of a month; the last ones, or from the first, eighth, … on."""
        if not (whole := self._some_of(hit["m5"], "", said, hit["y6"])):
            return None
        at = _NTH.index(hit["nth"])
        first = whole.last - 6 if at == 4 else whole.first + 7 * at
        return Span(first, min(first + 6, whole.last))

    def _some_of(self, name: str, which: str, said: int, year: str | None = None) -> Span | None:
        """A month, or a part of it, of a year that is given or the nearest before."""
        if not (year or said):
            return None
        month = MONTHS[name]
        begin = date(int(year or _year_of(month, "", date.fromordinal(said))), month, 1)
        return _part(begin, begin.replace(day=calendar.monthrange(begin.year, month)[1]), which)

    def _months_of(self, hit: re.Match[str], said: int) -> Span | None:
        name, season = hit["m3"] or hit["m4"], hit["s3"] or hit["s4"]
        first, last = self.language.seasons[season] if season else (MONTHS[name],) * 2
        turn = hit["turn"] or ""
        if not (hit["y3"] or said) or (hit["s4"] and turn not in ("last", "this", "next")):
            return None  # "in the spring of his life"
        year = int(hit["y3"] or _year_of(first, turn, date.fromordinal(said)))
        begin = date(year, first, 1)
        end_year = year + (last < first)
        end = date(end_year, last, calendar.monthrange(end_year, last)[1])
        if turn == "before":
            return Span(begin.toordinal() - SLACK, begin.toordinal() - 1)
        if turn in ("since", "after"):
            return Span(begin.toordinal(), max(said, end.toordinal()))
        return _part(begin, end, hit["part"] or turn)


def _calendar(said: date, unit: str, by: int) -> Span:
    """A whole month or year, relative to that of this day."""
    one = relativedelta(years=1) if unit == "year" else relativedelta(months=1)
    first = (said.replace(month=1, day=1) if unit == "year" else said.replace(day=1)) + by * one
    return Span(first.toordinal(), (first + one).toordinal() - 1)


def _year_of(month: int, turn: str, said: date) -> int:
    if turn == "next":
        return said.year + (month <= said.month)
    if turn == "last":
        return said.year - (month >= said.month)
    return said.year - (month > said.month)  # most talk is about the past


def _part(begin: date, end: date, which: str) -> Span:
    first, last = begin.toordinal(), end.toordinal()
    third = (last - first + 1) // 3
    if which in ("early", "beginning of"):
        return Span(first, first + third)
    if which in ("mid", "middle of"):
        return Span(first + third - 1, last - third + 1)
    if which in ("late", "end of", "the end of"):
        return Span(last - third, last)
    return Span(first, last)


def _written(year: int, month: int, day: int, said: int) -> Span | None:
    """A day, or a whole month; of the nearest year if none is given, sooner one before than one after."""
    if not year and not said:
        return None
    if not day:
        return _calendar(date(year, month, 1), "month", 0)
    found = date(year, month, day) if year else nearest(month, day, date.fromordinal(said), 60)
    return Span(found.toordinal(), found.toordinal())


def _around(day: int, unit: str, most: int | None = None) -> Span | None:
    """The days around one that is some units away: the longer the unit, the more."""
    loose = {"day": 0, "week": 3, "weekend": 3, "month": 15, "year": 182}[unit]
    first, last = day - loose, min(day + loose, most or day + loose)
    return Span(first, last) if 1 <= first <= last < date.max.toordinal() else None
