"""What models and tools write is read once: a repeated opener that nothing closes takes no quadratic time.

The texts are so long that a reader which begins anew at each opener takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.asking.messages import fenced
from runtime.api.fractal import shipped_system
from runtime.models import json_form
from runtime.models.micro.calls import block
from runtime.nervous.escalation import category_of
from runtime.operations.lines import lines
from runtime.proving.claims import claims_tests, unsupported
from runtime.safety.guard import Guard
from runtime.text.grounding import grounded

SIZE = 400_000
OPENERS = (
    "\n",
    " ",
    "a",
    "1",
    "*",
    "* ",
    "(\n",
    "A ",
    "`a",
    "'a/",
    "```",
    "```a\n",
    "~~~ a\n",
    "<tool_call>{",
)


def grounded_in_nothing(text: str) -> bool:
    return grounded(text, "", [("read", "Other")])


READERS: list[Callable[[str], object]] = [
    *(json_form.read_turn, lambda text: json_form.turn_in(text, ()), claims_tests, grounded_in_nothing),
    *(lambda text: unsupported(text, "", ()), fenced, block, category_of),
    lambda text: lines(None, query="emails", text=text),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("read", READERS)
def test_repeated_openers_take_no_quadratic_time(read: Callable[[str], object]) -> None:
    for opener in OPENERS:
        read(f"{opener * (SIZE // len(opener))}= Word")


def test_a_mark_inside_a_call_does_not_end_it() -> None:
    tool = {"function": {"name": "write"}}
    inner = '{"name": "write", "arguments": {"content": "<tool_call>{ and </tool_call> in it"}}'
    text = f"<tool_call>{{ is how it begins\n<tool_call> {inner} </tool_call>".partition("\n")[2]
    assert '"content": "<tool_call>{ and </tool_call> in it"' in json_form.turn_in(text, [tool])


@pytest.mark.parametrize("ticks", ["", "`", "``", "```", "a ````` b ```"])
def test_a_fence_is_one_longer_than_what_is_inside(ticks: str) -> None:
    fence = fenced(ticks).partition("\n")[0]
    assert fence not in ticks
    assert fence == "```" or fence[1:] in ticks


def test_only_closed_blocks_of_code_are_left_out() -> None:
    closed = "```py\n`made_up`\n```\n~~~\n`invented`\n~~~\n"
    assert unsupported(closed, "", ()) == []
    assert unsupported(f"{closed}```\n`open_one`", "", ()) == ["open_one"]
    assert unsupported("~~~\n```\n`closed_one`\n```\n", "", ()) == []


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        *(("It is so. ", True), ("* ", True), ("1) ", True), ("\n\n(", True), ("x: `", True)),
        *(("It is ", False), ("a, ", False), ("= (", False)),
    ],
)
def test_a_capital_makes_a_name_but_where_a_sentence_begins(before: str, begins: bool) -> None:
    assert grounded(f"{before}Ready likewise", before, [("a", "likewise")]) == begins


@pytest.mark.parametrize("opener", ["\n", "/*", "copy ", "--", "'"])
def test_a_long_line_for_a_database_is_judged_in_linear_time(opener: str) -> None:
    guard = Guard([shipped_system()], Path("/home/user/project"))
    assert guard.command(f'sqlite3 x.db "{opener * (90_000 // len(opener))}\n;\ndrop table a" < other')


@pytest.mark.parametrize("before", ["/* -- */ ", "-- a\n", "/* # */ /* ; */", "# /*\n"])
def test_no_comment_hides_what_a_statement_does(before: str) -> None:
    guard = Guard([shipped_system()], Path("/home/user/project"))
    assert guard.command(f"sqlite3 x.db <<'E'\n{before}delete from a -- where b\nE")
    assert not guard.command(f"sqlite3 x.db <<'E'\n{before}select 1 /* ; drop table a */\nE")
