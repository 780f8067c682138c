"""What a reply is guessed to copy from its prompt."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_cpp")

from runtime.models.llama_engine import FIRST_GUESS, LONGEST_GUESS, Copied

PROMPT = list(range(100))


def test_what_followed_the_same_tokens_is_guessed() -> None:
    copied = Copied(PROMPT)
    for token in (10, 11, 12):
        copied.add(token)
    assert copied.guess(50) == PROMPT[13 : 13 + FIRST_GUESS]


def test_after_a_right_guess_more_is_guessed_and_after_a_wrong_one_less() -> None:
    copied = Copied([*PROMPT, 10, 11, 12])
    for token in copied.guess(50):
        copied.add(token)
    right = copied.guess(50)
    assert len(right) == LONGEST_GUESS
    copied.add(right[0])
    copied.add(7)  # another one
    for token in (10, 11, 12):
        copied.add(token)
    assert len(copied.guess(50)) == FIRST_GUESS


def test_nothing_new_and_nothing_beyond_the_limit_is_guessed() -> None:
    assert Copied(PROMPT).guess(50) == []
    assert Copied([*PROMPT, 10, 11, 12]).guess(2) == [13, 14]
    assert Copied([*PROMPT, 10, 11, 12]).guess(0) == []
    assert Copied([]).guess(5) == []
