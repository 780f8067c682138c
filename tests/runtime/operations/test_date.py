"""date: days and times from words; what could be two days is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime.operations.dates import date

NOW = "2024-02-28T10:30"  # a Wednesday of a leap year


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("today", "2024-02-28"),
        ("now", "2024-02-28 10:30"),
        ("tomorrow", "2024-02-29"),
        ("today + 3 days", "2024-03-02"),
        ("today + 1 month - 1 day", "2024-03-27"),
        ("today + 1 year and 2 months", "2025-04-28"),
        ("today - 2 weeks 3 days", "2024-02-11"),
        ("2024-01-31 + 1 month", "2024-02-29"),
        ("2024-02-29 + 1 year", "2025-02-28"),
        ("in three weeks", "2024-03-20"),
        ("2 months ago", "2023-12-28"),
        ("a week from tomorrow", "2024-03-07"),
        ("3 days before 1 March 2024", "2024-02-27"),
        ("10 working days from today", "2024-03-13"),
        ("2024-03-02 + 5 weekdays", "2024-03-08"),
        ("next friday", "2024-03-01"),
        ("wednesday", "2024-02-28"),
        ("next wednesday", "2024-03-06"),
        ("last wednesday", "2024-02-21"),
        ("13/02/2024", "2024-02-13"),
        ("1.2.2024", "2024-02-01"),
        ("July 4th, 1776", "1776-07-04"),
        ("the 3rd of March 2024", "2024-03-03"),
        ("last day of the month", "2024-02-29"),
        ("last day of february 2023", "2023-02-28"),
        ("first day of next month", "2024-03-01"),
        ("tomorrow at 3pm", "2024-02-29 15:00"),
        ("2024-03-01T12:00 + 90 minutes", "2024-03-01 13:30"),
        ("weekday of 2024-02-29", "Thursday"),
        ("what is the weekday of July 4, 1776?", "Thursday"),
        ("week of 2024-12-30", "1"),
        ("days between 2024-01-01 and 2024-03-01", "60 days"),
        ("how many days between 2024-03-01 and 2024-01-01", "60 days"),
        ("days until 25 Dec", "301 days"),
        ("days until Jan 1", "308 days"),
        ("days since 2024-02-27", "1 day"),
        ("days until 2024-02-01", "-27 days"),
        ("weekdays between 2024-02-01 and 2024-03-01", "21 weekdays"),
        ("hours between 2024-01-01 08:00 and 2024-01-02 10:30", "26.5 hours"),
        ("years between 1990-05-17 and today", "33 years"),
        ("months since 2023-01-15", "13 months"),
        ("is 2024 a leap year", "yes"),
        ("is 1900 a leap year?", "no"),
        ("days in february 2023", "28 days"),
        ("days in 2024", "366 days"),
        ("2024-02-28T10:30+00:00 in Asia/Tokyo", "2024-02-28 19:30 JST"),
        ("2024-02-28T10:30+00:00 in Tokyo", "2024-02-28 19:30 JST"),
        ("15:00 in Berlin in Tokyo", "2024-02-28 23:00 JST"),
        ("what is the day before yesterday", "2024-02-26"),
        ("the day after tomorrow", "2024-03-01"),
        ("the day before 2024-03-01", "2024-02-29"),
        ("the week after tomorrow", "2024-03-07"),
        ("days before 2024-03-01", "2 days"),
        ("hours until midnight", "13.5 hours"),
        ("hours since midnight", "10.5 hours"),
        ("hours until 9am", "22.5 hours"),
        ("hours since 3pm", "19.5 hours"),
        ("hours between 22:00 and 6:00", "8 hours"),
        ("hours between 9am and midnight", "15 hours"),
        ("days since monday", "2 days"),
        ("days until monday", "5 days"),
        ("days since 25 Dec", "65 days"),
        ("days between 25 Dec and 1 Jan", "7 days"),
        ("days until 29 Feb", "1 day"),
        ("days between today and 1 Jan", "308 days"),
        ("last day of the year", "2024-12-31"),
        ("last day of this year", "2024-12-31"),
        ("first day of next year", "2025-01-01"),
        ("last day of last year", "2023-12-31"),
        ("last day of 2023", "2023-12-31"),
        ("days in next year", "365 days"),
        ("Thursday 29 February 2024", "2024-02-29"),
        ("2024-02-28T14:00+00:00 in America/New York", "2024-02-28 09:00 EST"),
    ],
)
def test_words_become_days(bench, expression, shown):
    assert bench.call(date, expression=expression, now=NOW).text == shown


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "empty"),
        ("banana", "not a date that is understood"),
        ("5", "not a date that is understood"),
        ("01/02/2024", "may be 2024-01-02 or 2024-02-01"),
        ("2024-02-30", "day is out of range"),
        ("2024-13-01", "month must be"),
        ("today + 999999 years", "outside the years 1 to 9999"),
        ("today - 999999 days", "outside the years"),
        ("today + 999999 weeks", "outside the years"),
        ("today + 3", "not a date"),
        ("tomorrow at 13pm", "1 to 12"),
        ("tomorrow at 25:00", "hour must be"),
        ("now in Mars/Olympus", "no such time zone"),
        ("now in Europe/../../etc/passwd", "not a date"),
        ("x" * 400, "longer than"),
        ("first day of next week", "not a month or year"),
        ("last day of 2024-03-15", "not a month or year"),
        ("tomorrow at midnight", "its begin or its end"),
        ("midnight", "of today or of tomorrow"),
        ("midnight + 3 hours", "of today or of tomorrow"),
        ("today in Asia/Tokyo", "has no time of day"),
        ("Friday 29 February 2024", "that day is a Thursday"),
        ("days between 1 Jan 2020 and 1 March", "with their years"),
        ("days between 1 March and 5 May 2023", "with their years"),
        ("days between banana and 2024-01-01", "not a date"),
    ],
)
def test_what_is_no_date_is_reported(bench, expression, message):
    assert message in bench.fails(date, expression=expression, now=NOW)


@pytest.mark.parametrize(
    ("format", "shown"),
    [
        ("long", "Wednesday, 28 February 2024"),
        ("iso", "2024-02-28"),
        ("%d.%m.%Y", "28.02.2024"),
        ("week", "2024-W09"),
        ("day of year", "59"),
    ],
)
def test_formats(bench, format, shown):
    assert bench.call(date, expression="today", format=format, now=NOW).text == shown


def test_a_format_is_for_dates(bench):
    assert "none of iso" in bench.fails(date, expression="today", format="pretty", now=NOW)
    assert "goes with" in bench.fails(date, expression="weekday of today", format="iso", now=NOW)
    assert "not an ISO date" in bench.fails(date, expression="today", now="yesterday")


def test_a_leap_day_is_counted_to_the_next_one(bench):
    shown = bench.call(date, expression="days until 29 Feb", now="2024-06-01").text
    assert shown == "1368 days"  # to 2028-02-29


def test_hours_are_hours_when_the_clocks_change(bench):
    code = (
        "from pathlib import Path; from runtime.sandbox.context import OperationContext as Context\n"
        "from runtime.sandbox.sandbox import Sandbox; from runtime.operations.dates import date\n"
        "c = Context(Path('.'), Sandbox(mode='off'))\n"
        "print(date(c, '2024-03-31 00:30 + 2 hours', now='2024-03-30').text)\n"
        "print(date(c, 'hours between 2024-03-31 and 2024-04-01').text)\n"
        "print(date(c, '2024-03-30 12:00 + 1 day').text)\n"
        "try: print(date(c, '2024-03-30 02:30 + 1 day').text)\n"
        "except Exception as error: print(error)"
    )
    env = {**os.environ, "TZ": "Europe/Berlin"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert "no such time" in ran.stdout
    assert ran.stdout.split("\n")[:3] == ["2024-03-31 03:30", "23 hours", "2024-03-31 12:00"]
