"""date: what GNU date says, and what follows from counting days one by one."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import subprocess
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from references import COUNT, cases, outcome

from runtime.operations.dates import date

DAY = dt.timedelta(days=1)
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def a_day(r: random.Random, first: int = 1950, last: int = 2090) -> dt.date:
    if r.random() < 0.2:
        return r.choice(
            (dt.date(2024, 2, 29), dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2025, 2, 28))
        )
    return dt.date(first, 1, 1) + DAY * r.randrange((last - first) * 365)


def written(r: random.Random, day: dt.date) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}.get(day.day, "th")
    month = MONTHS[day.month - 1]
    return r.choice(
        (
            day.isoformat(),
            day.isoformat(),
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}{suffix}, {day.year}",
            f"the {day.day}{suffix} of {month} {day.year}",
            f"{day.day}.{day.month}.{day.year}",
            f"{WEEKDAYS[day.weekday()]} {day.day} {month[:3]} {day.year}",
        )
    )


def gnu(lines: list[str], form: str, zone: str = "UTC") -> list[str]:
    """What GNU date makes of each line."""
    program = shutil.which("date") or ""
    if "GNU" not in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("there is no GNU date")
    ran = subprocess.run(
        [program, "-f", "-", f"+{form}"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": zone, "LC_ALL": "C"},
    )
    return ran.stdout.splitlines()


def test_days_are_moved_and_named_as_gnu_date_does(tmp_path: Path):
    asked: list[tuple[int, str, str, str]] = []
    lines: list[str] = []
    forms = ("%Y-%m-%d", "%A", "%j", "%G-W%V", "%d.%m.%Y")
    for seed, r in cases():
        day, now = a_day(r), a_day(r)
        n, unit = (
            r.randint(0, 400),
            r.choice(("day", "week", "day", "week", "year" if day.day < 29 else "day")),
        )
        plural = f"{n} {unit}{'' if n == 1 else 's'}"
        sign = r.choice("+-")
        kind = r.randrange(5)
        if kind == 0:
            expression, line = f"{written(r, day)} {sign} {plural}", f"{day} {sign}{n} {unit}"
        elif kind == 1:
            way = r.choice(("before", "after", "from"))
            expression, line = (
                f"{plural} {way} {written(r, day)}",
                f"{day} {'-' if way == 'before' else '+'}{n} {unit}",
            )
        elif kind == 2:
            now = day
            expression, line = r.choice(
                ((f"in {plural}", f"{day} +{n} {unit}"), (f"{plural} ago", f"{day} -{n} {unit}"))
            )
        elif kind == 3:
            now = day
            name = r.choice(WEEKDAYS)
            which, days = r.choice((("", range(7)), ("next ", range(1, 8)), ("last ", range(-1, -8, -1))))
            near = next(each for n in days if WEEKDAYS[(each := day + DAY * n).weekday()] == name)
            expression, line = f"{which}{name.lower()}", f"{near}"
        else:
            now = day
            expression, line = r.choice(
                (
                    ("today", f"{day}"),
                    ("tomorrow", f"{day} +1 day"),
                    ("yesterday", f"{day} -1 day"),
                    ("the day after tomorrow", f"{day} +2 day"),
                    ("what is the day before yesterday?", f"{day} -2 day"),
                    ("next week", f"{day} +7 day"),
                )
            )
        asked.append((seed, expression, now.isoformat(), r.choice(forms)))
        lines.append(line)
    answers = [
        outcome(date, tmp_path, expression=e, now=f"{now}T11:30", format=form) for _, e, now, form in asked
    ]
    known = {form: gnu(lines, form.replace("%j", "%-j")) for form in forms}
    wrong = [
        (*one, answer, known[one[3]][at])
        for at, (one, answer) in enumerate(zip(asked, answers, strict=True))
        if (answer or "").lstrip("0") != known[one[3]][at].lstrip("0")
    ]
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_hours_and_minutes_are_those_of_gnu_date(tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        asked: list[tuple[int, str]] = []
        lines: list[str] = []
        for seed, r in cases(COUNT // 3 + 1):
            day = r.choice((a_day(r, 2000, 2030), dt.date(2024, 3, 31)))
            at = dt.datetime.combine(day, dt.time(r.randrange(4, 24), r.randrange(60)))
            n, unit = r.randint(1, 5000), r.choice(("hour", "minute"))
            asked.append((seed, f"{at:%Y-%m-%d %H:%M} {r.choice('+-')} {n} {unit}s"))
            # from seconds since 1970, so that an hour is an hour
            lines.append(f"{at:%Y-%m-%d %H:%M}")
        begins = [int(each) for each in gnu(lines, "%s", zone)]
        moved = []
        for begin, (_, expression) in zip(begins, asked, strict=True):
            *_, sign, n, unit = expression.split()
            moved.append(f"@{begin + int(sign + n) * (3600 if unit == 'hours' else 60)}")
        known = gnu(moved, "%Y-%m-%d %H:%M", zone)
        answers = [outcome(date, tmp_path, expression=expression) for _, expression in asked]
    finally:
        monkeypatch.undo()
        time.tzset()
    wrong = [(*one, a, k) for one, a, k in zip(asked, answers, known, strict=True) if a != k]
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def months_between(begin: dt.date, end: dt.date) -> int:
    """The most months that can be added to the first without passing the second."""
    n = 0
    while True:
        year, month = divmod(begin.year * 12 + begin.month - 1 + n + 1, 12)
        last = (dt.date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1) - DAY).day
        if dt.date(year, month + 1, min(begin.day, last)) > end:
            return n
        n += 1


def spans(r: random.Random) -> tuple[str, str, str, bool]:
    """A question about the time between two days, the present, the answer, and whether it may be declined."""
    now, day = a_day(r, 2015, 2035), a_day(r, 2015, 2035)
    unit = r.choice(("days", "weeks", "months", "years", "weekdays"))
    kind = r.randrange(4)
    begin, end, signed, may_decline = now, day, True, False
    if kind == 0:
        begin, end, signed = a_day(r, 2015, 2035), day, False
        question = f"{unit} between {written(r, begin)} and {written(r, end)}"
    elif kind == 1:
        question = f"how many {unit} until {written(r, end)}?"
    elif kind == 2:
        begin, end = day, now
        question = f"{unit} since {written(r, begin)}"
    elif r.random() < 0.5:  # a day of every year
        forward = r.random() < 0.5
        name = f"{day.day} {MONTHS[day.month - 1]}"
        near = [
            dt.date(now.year + n, day.month, day.day) for n in range(-8, 9) if leap_safe(now.year + n, day)
        ]
        may_decline = day.month == 2 and day.day == 29
        if forward:
            end = min(each for each in near if each >= now)
        else:
            begin, end = max(each for each in near if each <= now), now
        question = f"{unit} {'until' if forward else 'since'} {name}"
    else:  # a day of every week
        forward = r.random() < 0.5
        name = r.choice(WEEKDAYS)
        week = [now + DAY * n * (1 if forward else -1) for n in range(7)]
        found = next(each for each in week if WEEKDAYS[each.weekday()] == name)
        begin, end = (now, found) if forward else (found, now)
        question = f"{unit} {'until' if forward else 'since'} {name}"
    sign = 1
    if end < begin:
        begin, end, sign = end, begin, -1 if signed else 1
    count = {
        "days": (end - begin).days,
        "weeks": (end - begin).days // 7,
        "months": months_between(begin, end),
        "years": months_between(begin, end) // 12,
        "weekdays": sum((begin + DAY * n).weekday() < 5 for n in range((end - begin).days)),
    }[unit] * sign
    word = unit.removesuffix("s")
    return question, now.isoformat(), f"{count} {word}{'' if abs(count) == 1 else 's'}", may_decline


def leap_safe(year: int, day: dt.date) -> bool:
    return (day.month, day.day) != (2, 29) or (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))


def test_spans_are_what_counting_gives(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        question, now, expected, may_decline = spans(r)
        answer = outcome(date, tmp_path, expression=question, now=f"{now}T09:15")
        if answer != expected and not (answer is None and may_decline):
            wrong.append((seed, question, now, answer, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def clock(r: random.Random) -> tuple[str, dt.time]:
    hour, minute = r.randrange(24), r.choice((0, 0, 15, 59))
    at = dt.time(hour, minute)
    if not minute and hour in (0, 12) and r.random() < 0.7:
        return {0: "midnight", 12: "noon"}[hour], at
    half = f"{hour % 12 or 12}{f':{minute:02d}' if minute else ''}{'pm' if hour > 11 else 'am'}"
    return r.choice((f"{hour}:{minute:02d}", half)), at


def test_hours_to_times_of_day_are_those_of_the_next_or_the_last_one(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        now = dt.datetime.combine(a_day(r, 2015, 2035), dt.time(r.randrange(24), r.randrange(60)), dt.UTC)
        name, at = clock(r)
        here = dt.datetime.combine(now.date(), at, dt.UTC)
        unit, seconds = r.choice((("hours", 3600), ("minutes", 60)))
        kind = r.randrange(3)
        if kind == 0:
            question, begin, end = f"{unit} until {name}", now, here if here >= now else here + DAY
        elif kind == 1:
            question, begin, end = f"{unit} since {name}", here if here <= now else here - DAY, now
        else:
            other, later = clock(r)
            begin, end = here, dt.datetime.combine(now.date(), later, dt.UTC)
            question, end = f"{unit} between {name} and {other}", end if end >= begin else end + DAY
        value = Fraction(int((end - begin).total_seconds()), seconds)
        answer = outcome(date, tmp_path, expression=question, now=now.isoformat())
        number, _, word = (answer or "none").partition(" ")
        alike = word == (unit if value != 1 else unit[:-1])
        if not alike or abs(Fraction(number) - value) > Fraction(1, 10**8):
            wrong.append((seed, question, now.isoformat(), answer, float(value)))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def test_first_and_last_days_and_working_days(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        now = a_day(r, 2015, 2035)
        kind = r.randrange(3)
        if kind == 0:
            n = r.choice((-1, 0, 1))
            year, month = divmod(now.year * 12 + now.month - 1 + n, 12)
            first = dt.date(year, month + 1, 1)
            last = dt.date(year + (month + 1) // 12, (month + 1) % 12 + 1, 1) - DAY
            of = {-1: "last month", 0: r.choice(("this month", "the month")), 1: "next month"}[n]
        elif kind == 1:
            n = r.choice((-1, 0, 1))
            first, last = dt.date(now.year + n, 1, 1), dt.date(now.year + n, 12, 31)
            of = {-1: "last year", 0: r.choice(("this year", "the year", str(now.year))), 1: "next year"}[n]
        else:
            n, day, step = r.randint(1, 60), now, r.choice((1, -1))
            left = n
            while left:
                day += DAY * step
                left -= day.weekday() < 5
            question = f"{written(r, now)} {'+' if step > 0 else '-'} {n} working days"
            answer = outcome(date, tmp_path, expression=question, now="2024-01-01")
            if answer != day.isoformat():
                wrong.append((seed, question, answer, day))
            continue
        edge, day = r.choice((("first", first), ("last", last)))
        answer = outcome(date, tmp_path, expression=f"{edge} day of {of}", now=now.isoformat())
        count = outcome(date, tmp_path, expression=f"days in {of}", now=now.isoformat())
        if answer != day.isoformat() or count != f"{(last - first).days + 1} days":
            wrong.append((seed, edge, of, now, answer, count))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"


def test_a_word_too_many_is_never_overlooked(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        question, now, _, _ = spans(r)
        words = question.split(" ")
        words.insert(r.randint(0, len(words)), r.choice(("zzz", "only", "except", "5", "not", "usd", "half")))
        answer = outcome(date, tmp_path, expression=" ".join(words), now=f"{now}T09:15")
        if answer is not None:
            wrong.append((seed, " ".join(words), answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:8]}"
