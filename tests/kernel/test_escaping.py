"""Text embedded in markdown and JSON is read back unchanged."""

from __future__ import annotations

import json

import pytest
from document_strategies import JSON, TEXT, trying
from hypothesis import given
from hypothesis import strategies as st
from lanes import within

from kernel.document.escaping import block, code_span, fingerprint, read_block, to_json
from kernel.errors import DocumentError


@trying(300)
@given(TEXT, st.booleans(), st.sampled_from(["", "    "]))
def test_any_text_round_trips_through_a_block(text: str, fenced: bool, pad: str):
    lines = [*block(text, fenced=fenced, pad=pad), ""]

    assert read_block(lines, 0, "x", pad) == (text, len(lines) - 1)


@trying(200)
@given(TEXT)
def test_blocks_contain_no_hidden_or_unstable_character(text: str):
    for line in block(text):
        assert line == line.rstrip(" \t")
        assert not set(line) & set("\r\0\x1b\u2028\u202e\ufeff\x85\U000e0041")
        line.encode("utf-8")


def test_short_prose_is_quoted_and_other_text_fenced():
    assert block("Use `sort`.\n\nThen stop.") == ["> Use `sort`.", ">", "> Then stop."]
    assert block("<b>") == ["~~~text", "<b>", "~~~"]
    assert block("a\n~~~~\nb")[0] == "~~~~~text"
    assert block("plain", fenced=True)[0] == "~~~text"
    assert block("x" * 4_001)[0] == "~~~text"
    assert block("red \x1b[31m\\") == ["~~~text esc", r"red \u{1b}[31m" + "\\\\", "~~~"]


@pytest.mark.parametrize(
    "part",
    ["<i>", "&amp;", "\t", "```", "~~~", "![p](http://x)", "[a]: http://x", "\u202e", "\ufeff", "\x00"],
)
def test_text_that_a_viewer_would_interpret_is_fenced(part: str):
    assert block(f"some {part} text")[0].startswith("~~~")


def test_no_embedded_text_looks_like_a_commit_line():
    lines = block("one\n<!-- rev 9 -->\ntwo")

    assert not any(line.startswith("<!-- rev") for line in lines)
    assert read_block(lines, 0, "x")[0] == "one\n<!-- rev 9 -->\ntwo"


def test_only_the_exact_fence_closes_a_block():
    lines = ["~~~text", "~~~ more", "~~~~", " ~~~", "~~~ ", "after"]

    assert read_block(lines, 0, "x") == ("~~~ more\n~~~~\n ~~~", 5)


def test_invalid_escapes_are_kept_as_text():
    assert read_block(["~~~text esc", r"\u{ffffff} \n \u{41}", "~~~"], 0, "x")[0] == r"\u{ffffff} \n A"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["~~~text", "never closed"], "f.md:1: the fence is never closed; add a line '~~~'"),
        (["    ~~~text", "    in", "out", "    ~~~"], "f.md:3: a line of a fenced text lost its indent"),
    ],
)
def test_broken_fence_is_reported_with_its_line(lines: list[str], message: str):
    with pytest.raises(DocumentError) as error:
        read_block(lines, 0, "f.md", "    " if lines[0].startswith(" ") else "")

    assert str(error.value).startswith(message)


@trying(300)
@given(JSON)
def test_json_code_span_is_one_visible_line(value: object):
    span = code_span(value)
    inner = span.strip("`")

    assert json.loads(inner) == value
    assert "\n" not in span and "\x7f" not in span and "\u202e" not in span
    ticks = len(span) - len(span.lstrip("`"))
    assert "`" * ticks not in inner.replace("`" * (ticks + 1), "")


def test_equal_values_have_equal_fingerprints():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint("\ud800")) == 16
    assert to_json({"é": "\x7f\u2028😀\ud800"}) == r'{"é": "\u007f\u2028😀\ud800"}'


@pytest.mark.parametrize("unit", ["~", "[", "`", "a ", "\\", "\r", "x\n", "<!-- rev ", "~~~ ", "](", " "])
def test_megabytes_round_trip_within_seconds(unit: str):
    text = unit * (2_000_000 // len(unit))
    with within(8):
        lines = block(text, pad="    ")

        assert read_block(lines, 0, "x", "    ")[0] == text
