"""The days that texts speak of."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from lanes import within

from kernel.errors import ConfigurationError
from runtime.memory.facts.retrieval.language import language_of
from runtime.memory.facts.retrieval.times import Span, Times, day_of, likely

MONDAY = date(2023, 5, 8).toordinal()
TIMES = Times(language_of())


def days_in(text: str, said_on: int = MONDAY) -> list[str]:
    return [str(span) for span in TIMES.spans(text, said_on)]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("I went there yesterday.", "2023-05-07"),
        ("the day before yesterday it rained", "2023-05-06"),
        ("on 7 May", "2023-05-07"),
        ("the 7th of May, 2021", "2021-05-07"),
        ("on December 1,2023", "2023-12-01"),
        ("as of 8th December, 2023", "2023-12-08"),
        ("2023-07-09", "2023-07-09"),
        ("in April 2022", "2022-04-01 to 2022-04-30"),
        ("in 2022", "2022-01-01 to 2022-12-31"),
        ("last May", "2022-05-01 to 2022-05-31"),
        ("in June", "2022-06-01 to 2022-06-30"),
        ("next June", "2023-06-01 to 2023-06-30"),
        ("last summer", "2022-06-01 to 2022-08-31"),
        ("winter 2022", "2022-12-01 to 2023-02-28"),
        ("last month", "2023-04-01 to 2023-04-30"),
        ("next year", "2024-01-01 to 2024-12-31"),
        ("two weeks ago", "2023-04-21 to 2023-04-27"),
        ("3 days ago", "2023-05-05"),
        ("ten days from now", "2023-05-18"),
        ("last Friday", "2023-05-05"),
        ("on Monday", "2023-05-01"),
        ("next Monday", "2023-05-15"),
        ("late August 2023", "2023-08-21 to 2023-08-31"),
        ("mid-August 2023", "2023-08-10 to 2023-08-22"),
        ("between August 11 and August 15 2023", "2023-08-11 to 2023-08-15"),
        ("the week before 16 June 2023", "2023-06-06 to 2023-06-12"),
        ("two weeks before August 11, 2023", "2023-07-25 to 2023-07-31"),
        ("before August 11, 2023", "2023-07-21 to 2023-08-10"),
        ("after 2023-07-09", "2023-07-10 to 2023-07-30"),
        ("since March", "2023-03-01 to 2023-05-08"),
    ],
)
def test_the_days_of_a_phrase(text: str, days: str) -> None:
    assert days_in(text) == [days]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I may go",
        "we march on",
        "Fall is nice",
        "31 June 2023",
        "may",
        "room 204",
        "¿cuándo?",
        "9999999 years ago",
    ],
)
def test_a_phrase_without_days(text: str) -> None:
    assert days_in(text) == []


def test_a_day_that_is_counted_needs_one_to_count_from() -> None:
    assert days_in("yesterday, last May, two weeks ago, on Monday", 0) == []
    assert days_in("on 7 May 2021", 0) == ["2021-05-07"]


def test_a_29th_of_february_is_the_nearest_one() -> None:
    assert days_in("on 29 February", date(2023, 5, 8).toordinal()) in ([], ["2024-02-29"])
    assert days_in("on 29 February", date(2024, 3, 1).toordinal()) == ["2024-02-29"]


def test_what_is_said_on_the_day_is_likelier_than_after_and_that_than_before() -> None:
    span = Span(MONDAY, MONDAY)
    on, after, before, unknown = (likely(span, day) for day in (MONDAY, MONDAY + 2, MONDAY - 2, 0))
    assert on == 1 > after > before > unknown == 0


def test_a_time_that_is_none_has_no_day() -> None:
    assert day_of("2023-05-08T13:00:00.000Z") == MONDAY
    assert day_of("") == day_of("soon") == 0


def test_long_and_hostile_texts_take_no_time() -> None:
    with within(3):
        for text in ("may " * 100_000, "1 " * 100_000, "the week before " * 20_000, "\0" * 10_000_000):
            TIMES.spans(text, MONDAY)


def test_a_workspace_adds_words_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "recall.md").write_text("## Days\n\nvorgestern = -2 -2\n", "utf-8")
    assert [str(span) for span in Times(language_of((tmp_path,))).spans("vorgestern", MONDAY)] == [
        "2023-05-06"
    ]


def test_an_invalid_line_of_days_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "recall.md").write_text("## Days\n\ngestern = -1\n", "utf-8")
    with pytest.raises(ConfigurationError, match="gestern = -1: needs two whole numbers"):
        language_of((tmp_path,))
