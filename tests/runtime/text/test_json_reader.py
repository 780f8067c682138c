"""Reading the JSON object of what models write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from kernel.errors import ReplyError
from runtime.text.json_reader import DEPTH_LIMIT, read_reply

FORGIVEN = [
    ('{"a": 1}', {"a": 1}),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ('Sure! Here it is:\n\n{"a": 1}\n\nHope that helps {really}.', {"a": 1}),
    ('<think>maybe {"a": 2}? or "x" {</think>{"a": 1}', {"a": 1}),
    ('I could say {"a": 2} or {"a": oops\n</think>\n\n{"a": 1}', {"a": 1}),
    ('Let me think {"a": 2}.</thinking>{"a": 1}', {"a": 1}),
    ('◁think▷maybe {"a": 2}◁/think▷{"a": 1}', {"a": 1}),
    ('{"a": "<think>{}</think>"}', {"a": "<think>{}</think>"}),
    ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
    ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
    (r'{"a": "\d+\.\w \s"}', {"a": r"\d+\.\w \s"}),
    (r'{"a": "it\'s"}', {"a": "it's"}),
    (r'{"a": "C:\users"}', {"a": r"C:\users"}),
    (r'{"a": "😀 \ud800"}', {"a": "\U0001f600 \ud800"}),
    ('{"a": True, "b": None, "c": "True, ]"}', {"a": True, "b": None, "c": "True, ]"}),
    ('The template {{ steps[1].result }} in {name} gives {"a": 1}', {"a": 1}),
    ('{"a": 1}}', {"a": 1}),
    ('{"a": 1}\n{"a": 1}', {"a": 1}),
    ('Of ["x", "y"] I take {"a": 1}, as said.', {"a": 1}),
    ('See [1] and [2, 3]: {"a": 1}', {"a": 1}),
    ("{}", {}),
]


@pytest.mark.parametrize(("text", "value"), FORGIVEN)
def test_what_models_often_get_wrong_is_forgiven(text: str, value: object):
    assert read_reply(text) == value


REFUSED = [
    ("", "the reply is empty"),
    ("I cannot do that.", "no JSON object"),
    ("[1, 2]", "no JSON object"),
    ('[{"a": 1}]', "array"),
    ('[1, {"a": 1}]', "array"),
    ('{"a": {"b": 1}', "never closed"),
    ('{"a": "text', "never closed"),
    ('{"a": "he said "hi" {"b": 1}"}', "line 1, column 17"),
    ('{"a": 1 "b": {"c": 1}}', "delimiter"),
    ('{a: {"b": 1}}', "line 1, column 2"),
    ('{"a": 1, , "b": {"c": 1}}', "line 1, column"),
    ('"a": {"b": 1}}', "lost its opening brace"),
    ('{"a": 1}, "b": {"c": 2}}', "text goes on"),
    ('{"a": 1} or {"a": 2}', "second object"),
    ('{"a": NaN}', "no JSON number"),
    ('{"a": 1e999}', "no JSON number"),
    ('{"a": ' + "9" * 5000 + "}", "digits"),
    ('<think>{"a": 1}', "never closed"),
    ('{"a": "x </think> {"b": 1}', "line 1"),
    ('{ {"a": 1} }', "line 1"),
    ('{"x": ' + "[" * 5000 + "]" * 5000 + "}", "deep"),
    ('{"a": 1}' + " " * 4_000_000, "at most"),
    ('text\n{"a": 1,\n "b" 2}', "line 3, column 6"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_broken_is_refused_with_its_place(text: str, message: str):
    with pytest.raises(ReplyError, match=message):
        read_reply(text)


def test_nesting_up_to_the_limit_is_read():
    inner = DEPTH_LIMIT - 1
    assert read_reply('{"a": ' + "[" * inner + "]" * inner + "}")


def test_a_large_reply_is_read_quickly():
    content = 'line "one" \\d\n' * 100_000
    assert read_reply(json.dumps({"content": content})) == {"content": content}


def test_hostile_repetition_takes_no_quadratic_time():
    for piece in ("{x", "[1", "<think", '{"a":', "</think>", '{}{"a":1}', "{{x}}", ",", '"'):
        text = piece * 200_000
        try:
            read_reply(text)
        except ReplyError:
            continue


def joined(text: str) -> str:
    """Adjacent halves of a surrogate pair are one character once they have been JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


TEXT = st.text(st.characters(codec=None), max_size=30).map(joined)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)
PROSE = st.text("abc ,.:;`!?\n'()", max_size=30)


@settings(max_examples=examples(400))
@given(OBJECTS, PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
def test_any_object_is_read_back_from_any_prose(value, before: str, after: str, ascii_: bool, indent):
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    assert read_reply(before + text + after) == value


@settings(max_examples=examples(300))
@given(OBJECTS.filter(bool), st.data())
def test_a_reply_that_was_cut_off_is_never_taken(value, data):
    text = json.dumps({"outer": value})
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(ReplyError):
        read_reply(text[:cut])


@settings(max_examples=examples(500))
@given(OBJECTS, st.data())
def test_of_a_damaged_reply_only_the_outermost_object_is_taken(value, data):
    text = json.dumps({"outer": {"inner": value}})
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = (
        text[:at] + data.draw(st.sampled_from(["", '"', "{", "}", "[", ",", ":", "\\", "x"])) + text[at + 1 :]
    )
    try:
        read = read_reply(damaged)
    except ReplyError:
        return
    assert read == {} or any("outer".startswith(key[:1]) or key[1:] in "outer" for key in read)


@settings(max_examples=examples(500))
@given(st.text('{}[]",:\\ a1</think>\n'))
def test_nothing_but_a_reply_error_comes_of_any_text(text: str):
    try:
        assert isinstance(read_reply(text), dict)
    except ReplyError as error:
        assert str(error)
