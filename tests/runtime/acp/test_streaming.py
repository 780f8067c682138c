"""What of a reply that is being written is shown at once: the answer, in whatever pieces it comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.acp.streaming import Streamed


def shown(text: str, size: int) -> str:
    streamed = Streamed()
    said = [streamed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*said, streamed.end()]) == streamed.text
    return streamed.text


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ('{"done": "It is \\"4\\".\\nReally."}', 'It is "4".\nReally.'),
        ('{"plan": {"approach": "look"}, "done" : {"answer": "four"}, "checks": []}', "four"),
        ('```json\n{"done": "four"}\n```', "four"),
        ('done {"answer": "four \\ud83d\\ude00"}', "four \U0001f600"),
        ('I look first. read {"path": "a.txt"}', "I look first. "),
        ('I know it. done {"answer": "four"}', "I know it. four"),
        ("The answer is 4", "The answer is 4"),
        ('{"calls": [{"tool": "write", "args": {"content": "{\\"done\\": \\"no\\"}"}}]}', ""),
        ('{"calls": [{"tool": "read", "args": {"path": "done"}}]}', ""),
        ('{"calls": [{"tool": "json", "args": {"value": {"done": "no"}}}], "done": "yes"}', "yes"),
        ('read {"path": "a"}', ""),
        ('{"done": "cut \\u00', "cut "),
        ('{"done": "four \\q, so"}', "four "),
        ('{"done": "four \\(x\\)"}', "four "),
        ('{"done": "four \\uZZZZ, so"}', "four "),
        ('{"done": "\\ud83d\\u0041 \\ude00 \\ud83d"}', "\ufffdA \ufffd \ufffd"),
        ('{"done": "C:\\\\ud83d"}', "C:\\ud83d"),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ('read {"path": "a"} It is 5" wide. done {"answer": "four"}', "four"),
        ("a" * 500 + ' {"path": "a"} b', "a" * 500 + ' {"path": "a"} b'),
        ("", ""),
    ],
)
def test_the_answer_is_found_in_any_pieces(reply: str, said: str, size: int) -> None:
    assert shown(reply, size) == said


@settings(max_examples=examples(200))
@given(st.text(), st.integers(1, 40))
def test_any_answer_is_shown_as_it_is(answer: str, size: int) -> None:
    assert shown(json.dumps({"done": answer}), size) == json.loads(json.dumps(answer))


@pytest.mark.parametrize(
    "reply",
    [
        '{"calls": [{"tool": "write", "args": {"content": "'
        + 'a \\"done\\" ' * 14_000
        + '"}}], "done": "four"}',
        '{"plan": [' + '"done", ' * 22_000 + '"four"], "done": "four"}',
        '{"done": "' + "four " * 39_000 + '"}',
        '{"done": "four \\q' + "four " * 39_000 + '"}',
        " " * 190_000 + '{"done": "four"}',
        "four" * 48_000,
        "four " * 39_000,
    ],
    ids=["argument", "strings", "answer", "broken", "blank", "word", "words"],
)
def test_a_long_reply_in_small_pieces_is_read_once(reply: str) -> None:
    """Were all of it read again for each piece, this would be billions of characters and take minutes."""
    assert shown(reply, 4).startswith("four")
