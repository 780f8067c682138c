"""Search results show a memory and its evidence without repetition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from talk import held, said

from runtime.memory.facts.records import Memory
from runtime.memory.facts.retrieval import Found, once

KEY = said("o1", "The key hangs behind the oven", "Ann")
LOCK = said("o2", "The lock sticks when it rains", "Bob")
BOTH = held("m1", "Ann: The key hangs behind the oven.\nBob: The lock sticks.", evidence=["o1", "o2"])
REWORDED = held("m1", "Ann told Bob about the door.", evidence=["o1", "o2"])
COPY = held("m1", "the key hangs  behind the oven", evidence=["o1"])
GROWN = held("m1", "The key hangs behind the oven", evidence=["o1", "o2"])
OTHER = held("m1", "The spare key hangs behind the oven", evidence=["o1"])
LONG = said("o1", "Oh wow! The key hangs behind the oven, next to the large blue pan. It is small.", "Ann")
TALK_OF_IT = held(
    "m1", "Ann: The key hangs behind the oven, next to the large blue pan. It is small.", evidence=["o1"]
)
THEME = held("m1", "Doors are a worry here.")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([BOTH, KEY, LOCK], ["m1", "o2"]),  # only the turn says "when it rains"
        ([KEY, BOTH, LOCK], ["o1", "m1", "o2"]),  # the memory may still lead to the other turn
        ([KEY, LOCK, BOTH], ["o1", "o2"]),
        ([REWORDED, KEY, LOCK], ["m1", "o1", "o2"]),
        ([KEY, COPY], ["m1"]),  # instead of the turn: it says whether that still holds
        ([COPY, KEY], ["m1"]),
        ([KEY, GROWN, LOCK], ["m1", "o2"]),  # its wording does not include the new evidence yet
        ([KEY, LOCK, THEME], ["o1", "o2", "m1"]),
        ([OTHER, KEY], ["m1", "o1"]),  # one word differs: it is another key
        ([TALK_OF_IT, LONG], ["m1"]),  # what is missing carries no information
        ([], []),
    ],
)
def test_what_was_shown_above_is_not_shown_again(found: Sequence, expected: list[str]) -> None:
    made_of = {each.id: each.evidence for each in found if isinstance(each, Memory)}
    hits = [Found(each.id, each.KIND, each.text, 1 / n, {}, "") for n, each in enumerate(found, 1)]
    assert [hit.id for hit in once(hits, made_of)] == expected


def test_a_text_that_two_people_said_is_shown_once() -> None:
    again = said("o3", "the key hangs behind the  oven", "Bob")
    hits = [Found(each.id, each.KIND, each.text, 1.0, {}, "") for each in (KEY, again)]
    assert [hit.id for hit in once(hits, {})] == ["o1"]
