"""The part of a long text that a question is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import within

from runtime.api.excerpt import excerpt

LONG = """Ann: The shop opens at nine. It smells of bread.
Bob: Who has the key? I lost mine.
Ann: The baker has it."""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("who has the key", "… Bob: Who has the key? … Ann: The baker has it."),
        ("when does the shop open", "Ann: The shop opens at nine. … Bob: Who has the key? …"),
        ("what smells of bread", "Ann: The shop opens at nine. It smells of bread. …"),
    ],
)
def test_the_sentences_that_are_asked_for_are_shown_in_their_order(query: str, expected: str) -> None:
    excerpt_text = excerpt(LONG, query, 60)
    assert len(excerpt_text) <= 60
    assert excerpt_text == expected


def test_a_text_that_is_short_enough_is_whole() -> None:
    assert excerpt("two\n lines", "", 20) == "two lines"


def test_a_single_sentence_that_is_too_long_is_cut() -> None:
    assert excerpt("key " * 100, "key", 20) == "key key key key key…"


@pytest.mark.parametrize("sign", [".", " ", "\n", ". ", '."', "…)"])
def test_long_runs_of_signs_take_no_time(sign: str) -> None:
    with within(1):
        excerpt(f"{sign * 50_000}key", "key", 400)


@given(st.text(max_size=300), st.text(max_size=40), st.integers(2, 120))
def test_no_text_makes_more_than_one_line_of_that_length(text: str, query: str, chars: int) -> None:
    excerpt_text = excerpt(text, query, chars)
    assert len(excerpt_text) <= chars
    assert "\n" not in excerpt_text
    words = {*text.split()}
    assert all(word in words or "…" in word for word in excerpt_text.split()[:-1])
