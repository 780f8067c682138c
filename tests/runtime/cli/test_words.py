"""Texts are made harmless and short; figures are easy to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cli import output as words


@given(st.text())
def test_a_safe_text_has_nothing_that_steers_a_terminal(text: str) -> None:
    shown = words.safe(text)
    assert not set(shown) & {"\x1b", "\x9b", "\r", "\x07", "\u202e", "\u2066", "\x7f"}
    assert all(char in "\n\t" or category(char) not in ("Cc", "Cs") for char in shown)


def test_an_escape_sequence_stays_visible() -> None:
    assert words.safe("\x1b[31mred\x1b]0;title\x07\r\n") == "␛[31mred␛]0;title␇\n"


@given(st.text(), st.integers(0, 40))
def test_an_elided_text_fits(text: str, cells: int) -> None:
    shown = words.elide(text, cells)
    assert words.width(shown) <= cells
    assert "\n" not in shown


def test_wide_characters_count_twice() -> None:
    assert words.elide("報告書と数字", 7) == "報告書…"
    assert words.elide("short", 7) == "short"


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0"), (940, "940"), (1234, "1.2k"), (62_900, "63k"), (1_400_000, "1.4M")]
)
def test_token_counts_are_abbreviated(count: int, expected: str) -> None:
    assert words.tokens(count) == expected


@pytest.mark.parametrize(("usd", "expected"), [(0, "$0"), (0.00123, "$0.0012"), (0.5, "$0.50"), (None, "?")])
def test_small_amounts_of_money_have_more_decimals(usd: float | None, expected: str) -> None:
    assert words.money(usd) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.42, "0.4 s"), (59.4, "59 s"), (184, "3 min 04 s"), (7500, "2 h 05 min")]
)
def test_durations_grow_their_units(value: float, expected: str) -> None:
    assert words.seconds(value) == expected


def test_times_are_in_the_time_zone_of_the_person() -> None:
    now = datetime.now().astimezone()
    stamp = now.astimezone(UTC).isoformat()
    assert words.local(stamp, now) == f"{now:%H:%M}"
    earlier = now - timedelta(days=400)
    assert words.local(earlier.isoformat(), now) == f"{earlier.astimezone():%Y-%m-%d}"
    assert words.local("no time", now) == "no time"


def test_a_table_aligns_wide_characters_too() -> None:
    lines = words.table([["報告", "1"], ["b", "20"]], right=(1,))
    assert [words.width(text) for text in lines] == [8, 8]
