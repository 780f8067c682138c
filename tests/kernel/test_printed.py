"""What a terminal shows of a program's output in the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import within

from runtime.text.terminal import printed


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[m", "red blue"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1b(B\x1b[?25l\x1b[2K\x1bMa\x1bPdata\x1b\\b", "ab"),
        (" 10%\r 50%\r100%\nnext\n", "100%\nnext\n"),
        (" 10%\r 50%\r", " 50%\r"),
        ("\x1b[2K\r 10%\x1b[2K\r 50%\n", " 50%\n"),
        ("dos\r\nlines\r\n", "dos\r\nlines\r\n"),
        ("twice\r\r\n", "twice\r\n"),
        ("\r\n\r", "\r\n\r"),
        ("\x1b", "\x1b"),
    ],
)
def test_colours_are_left_out_and_of_progress_the_last_state_stays(output: str, shown: str) -> None:
    assert printed(output) == shown


@given(st.text(alphabet=st.characters(exclude_characters="\x1b\r")))
def test_other_text_stays(text: str) -> None:
    assert printed(text) == text


@given(st.text(alphabet="ab\x1b[]0m;\r\n\x07\\P", max_size=80))
def test_no_line_gets_lost(text: str) -> None:
    assert printed(text.replace("\x1b", "")).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "hostile", ["\x1b[" * 300_000, "\x1b]" * 300_000, "a" * 600_000 + "\r", "\r" * 600_000]
)
def test_a_long_output_takes_little_time(hostile: str) -> None:
    with within(2):
        printed(hostile)
