"""Questions in plain words about dates and tables: what reflexes make of them is right, or they decline."""

from __future__ import annotations

import asyncio
import csv as csvlib
import datetime as dt
import io
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from lanes import NIGHT
from references import COUNT, cases, outcome
from test_date_against_references import DAY, MONTHS, WEEKDAYS, a_day, months_between

from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal, shipped_system
from runtime.models.human import Human
from runtime.operations.dates import date
from runtime.operations.tables import query_csv
from runtime.reflexes.matching import match
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import Reflexes
from runtime.reflexes.reflex import Reflex

REFLEXES = Reflexes([shipped_system()])
OPERATIONS = {"date": date, "csv": query_csv}
Question = tuple[str, Callable[[str], bool]]


def answered(task: str, folder: Path, **more: Any) -> str | None:
    """What the one step that a reflex plans for a task answers; None when none takes it, or it declines."""
    found = match(task, REFLEXES.shelf)
    steps = draft(found, 0).steps if found else ()
    if len(steps) != 1 or steps[0].get("tool") not in OPERATIONS:
        return None
    return outcome(OPERATIONS[steps[0]["tool"]], folder, **steps[0]["args"], **more)


def is_(text: str) -> Callable[[str], bool]:
    return lambda answer: answer == text


def date_phrase(r: random.Random, day: dt.date) -> str:
    month = MONTHS[day.month - 1]
    return r.choice((day.isoformat(), f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}"))


def counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if abs(count) == 1 else 's'}"


def about_a_date(r: random.Random, now: dt.date) -> Question:
    """A question about days, and what is right."""
    day, other = a_day(r, 2000, 2060), a_day(r, 2000, 2060)
    phrase, n = date_phrase(r, day), r.randint(2, 300)
    unit = r.choice(("days", "weeks"))
    step = DAY * n * (7 if unit == "weeks" else 1)
    first = dt.date(now.year, 1, 1)
    friday = now + DAY * ((4 - now.weekday()) % 7 or 7)
    return r.choice(
        (
            (f"what day is {phrase}", is_(WEEKDAYS[day.weekday()])),
            (f"which weekday was {phrase}?", is_(WEEKDAYS[day.weekday()])),
            (f"on what day does {phrase} fall", is_(WEEKDAYS[day.weekday()])),
            (f"how many days between {phrase} and {other}", is_(counted(abs((other - day).days), "day"))),
            (
                f"how many days are there from {phrase} to {other}?",
                is_(counted(abs((other - day).days), "day")),
            ),
            (f"how many days until {phrase}?", is_(counted((day - now).days, "day"))),
            (f"days since {phrase}", is_(counted((now - day).days, "day"))),
            (f"how many days before {phrase}", is_(counted((day - now).days, "day"))),
            (
                f"how many months between {phrase} and {other}",
                is_(counted(months_between(min(day, other), max(day, other)), "month")),
            ),
            (f"what is the date {n} {unit} after {phrase}", is_((day + step).isoformat())),
            (f"what date was {n} {unit} before {phrase}?", is_((day - step).isoformat())),
            (f"{phrase} plus {n} {unit}", is_((day + step).isoformat())),
            (f"what date will it be in {n} {unit}", is_((now + step).isoformat())),
            (f"what date was it {n} {unit} ago", is_((now - step).isoformat())),
            ("what is the day before yesterday", is_((now - 2 * DAY).isoformat())),
            ("what was the day before yesterday?", is_((now - 2 * DAY).isoformat())),
            ("what is the day after tomorrow", is_((now + 2 * DAY).isoformat())),
            ("what day is the day after tomorrow", is_(WEEKDAYS[(now + 2 * DAY).weekday()])),
            (f"what is the day before {phrase}", is_((day - DAY).isoformat())),
            (f"what is the day after {phrase}", is_((day + DAY).isoformat())),
            (f"what is the week before {phrase}", is_((day - 7 * DAY).isoformat())),
            ("what is the date tomorrow", is_((now + DAY).isoformat())),
            ("what is the last day of the year", is_(dt.date(now.year, 12, 31).isoformat())),
            ("what is the first day of the year", is_(first.isoformat())),
            ("what is the date next friday", is_(friday.isoformat())),
            ("how many hours until midnight", is_("15 hours")),
            ("how many days until friday", is_(counted(((4 - now.weekday()) % 7), "day"))),
            (
                f"how many weekdays between {phrase} and {other}",
                lambda answer: answer.endswith(("weekday", "weekdays")),
            ),
        )
    )


def test_questions_about_dates_are_answered_rightly_or_declined(tmp_path: Path):
    wrong: list[Any] = []
    right = 0
    for seed, r in cases():
        now = a_day(r, 2015, 2035)
        task, is_right = about_a_date(r, now)
        answer = answered(task, tmp_path, now=f"{now}T09:00")
        right += answer is not None
        if answer is not None and not is_right(answer):
            wrong.append((seed, task, str(now), answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"
    assert right > COUNT * 0.5


CITIES = ("Paris", "Berlin", "New York", "Ütrecht", "oslo")


def a_file(r: random.Random) -> tuple[str, list[dict[str, Any]], bool]:
    """A table with its rows, and whether its amounts are all numbers."""
    rows = [
        {
            "city": r.choice(CITIES),
            "amount": r.randint(-20, 60),
            "qty": r.choice((1, 2, 2.5)),
            "note": r.choice("xyz"),
        }
        for _ in range(r.randint(2, 7))
    ]
    tidy = r.random() < 0.75
    if not tidy:
        rows[r.randrange(len(rows))]["amount"] = r.choice(("n/a", "12 usd", "€5"))
    out = io.StringIO()
    writer = csvlib.DictWriter(out, list(rows[0]), lineterminator="\n", delimiter=r.choice(",;\t"))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue(), rows, tidy


def close(value: Any) -> Callable[[str], bool]:
    return lambda answer: abs(Fraction(answer) - Fraction(value)) <= abs(Fraction(value)) / 10**10


def table(
    rows: list[dict[str, Any]], names: tuple[str, ...] = ("city", "amount", "qty", "note")
) -> Callable[[str], bool]:
    out = io.StringIO()
    csvlib.writer(out, lineterminator="\n").writerows(
        [names, *([row[name] for name in names] for row in rows)]
    )
    return is_(out.getvalue().removesuffix("\n"))


def never(answer: str) -> bool:
    return False


def about_a_table(r: random.Random, rows: list[dict[str, Any]], tidy: bool) -> Question:
    """A question about a table, and what is right; `never`: it has to be declined."""
    n, k, city = r.randint(-10, 40), r.randint(1, 3), r.choice(CITIES)
    quoted = f'"{city}"' if " " in city else city
    there = [row for row in rows if row["city"].casefold() == city.casefold()]
    above = [row for row in rows if tidy and row["amount"] > n]
    amounts = [row["amount"] for row in rows] if tidy else []
    best = sorted(rows, key=lambda row: row["amount"], reverse=True) if tidy else []
    groups = (
        {c: sum(row["amount"] for row in rows if row["city"] == c) for c in {row["city"] for row in rows}}
        if tidy
        else {}
    )

    def grouped(answer: str) -> bool:
        return {row[0]: float(row[1]) for row in list(csvlib.reader(io.StringIO(answer)))[1:]} == groups

    questions: list[Question] = [
        ("how many rows are in sales.csv", is_(str(len(rows)))),
        ("what columns does sales.csv have", is_("city\namount\nqty\nnote")),
        (
            "what is the average qty in sales.csv",
            close(sum(Fraction(row["qty"]) for row in rows) / len(rows)),
        ),
        (f"how many rows of sales.csv have city is {quoted}", is_(str(len(there)))),
        (f"show the rows of sales.csv where city is {quoted}", table(there)),
        (
            f"show the rows of sales.csv where city is not {quoted}",
            table([row for row in rows if row not in there]),
        ),
        ("show the columns city and note of sales.csv", table(rows, ("city", "note"))),
        (f"show the first {k} rows of sales.csv", table(rows[:k])),
        ("how many rows of sales.csv have amount > 10 usd", never),
        ("how many rows of sales.csv have city is nowhere or note is x", never),
        ("sum price in sales.csv", never),
        ("what is the sum of city in sales.csv", never),
    ]
    about_amounts: list[Question] = [
        ("what is the sum of amount in sales.csv", close(sum(amounts))),
        ("what is the highest amount in sales.csv?", close(max(amounts, default=0))),
        ("what is the lowest amount in sales.csv?", close(min(amounts, default=0))),
        ("sum amount by city in sales.csv", grouped),
        (f"how many rows of sales.csv have amount > {n}", is_(str(len(above)))),
        (f"show the rows of sales.csv where amount is more than {n}", table(above)),
        ("sort sales.csv by amount descending", table(best)),
        (f"show the top {k} rows of sales.csv by amount", table(best[:k])),
        (f"show the rows of sales.csv where amount > {n} sorted by amount", table([*reversed(above)][:0])),
        (f"sum amount where amount > {n} by city in sales.csv", never),
    ]
    task, right = r.choice([*questions, *about_amounts])
    untidy = not tidy and (task, right) in about_amounts
    return task, never if untidy or "sorted by amount" in task else right


def test_questions_about_tables_are_answered_rightly_or_declined(tmp_path: Path):
    wrong: list[Any] = []
    right = 0
    for seed, r in cases():
        text, rows, tidy = a_file(r)
        (tmp_path / "sales.csv").write_text(text, "utf-8")
        task, is_right = about_a_table(r, rows, tidy)
        answer = answered(task, tmp_path)
        right += answer is not None
        if answer is not None and not is_right(answer):
            wrong.append((seed, task, text, answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:5]}"
    assert right > COUNT * 0.4


def test_whole_runs_say_the_same(tmp_path: Path):
    wrong: list[Any] = []
    fractal = Fractal(
        tmp_path,
        settings={"sandbox": "off", "fsync": False},
        ladder=Ladder((Reflex([shipped_system()]), Human())),
    )
    for seed, r in cases(300 if NIGHT else 8):
        text, rows, tidy = a_file(r)
        (tmp_path / "sales.csv").write_text(text, "utf-8")
        task, is_right = r.choice((about_a_table(r, rows, tidy), about_a_date(r, dt.date.today())))
        if "midnight" in task:
            continue  # the clock goes on
        result = asyncio.run(fractal.run(task))
        if result.exit == 0 and not is_right(result.output.strip("\n")):
            wrong.append((seed, task, text, result.output))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


def test_words_that_limit_a_question_are_never_overlooked(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        text, rows, tidy = a_file(r)
        (tmp_path / "sales.csv").write_text(text, "utf-8")
        asked, _ = r.choice((about_a_table(r, rows, tidy), about_a_date(r, a_day(r))))
        further = r.choice(("except Paris", "for march", "without sundays", "zzz", "only in Berlin", "or so"))
        task = f"{asked.rstrip('?')} {further}"
        answer = answered(task, tmp_path, **({} if "sales" in task else {"now": "2024-02-28T09:00"}))
        if answer is not None:
            wrong.append((seed, task, text, answer))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:8]}"
