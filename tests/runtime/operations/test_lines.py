"""lines: what a query takes, changes and counts, against Python on any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import OperationFailed
from runtime.operations.lines import lines

TEXT = "buy milk\ncall Ann: ann@example.com\nbuy milk\n\nsee https://example.com/a, 12 of 1,200.50\n"
PLAIN = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"])), min_size=1
)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("first 2", "buy milk\ncall Ann: ann@example.com"),
        ("last", "see https://example.com/a, 12 of 1,200.50"),
        ("line 2", "call Ann: ann@example.com"),
        ("lines 2-3", "call Ann: ann@example.com\nbuy milk"),
        ("longest", "see https://example.com/a, 12 of 1,200.50"),
        ("with milk", "buy milk\nbuy milk"),
        ('with "Ann:" | emails', "ann@example.com"),
        ("starting buy | count", "2"),
        ("unique | filled | count", "3"),
        ("repeated", "buy milk"),
        ("urls", "https://example.com/a"),
        ("numbers", "12\n1,200.50"),
        ("sum", "1212.5"),
        ("words | longest", "example"),
        ("drop first 2 | drop last | count", "2"),
        ("first | upper | numbered", "1. BUY MILK"),
        ('first | prefix "- "', "- buy milk"),
        ('insert "a \\"b\\"" at 1 | first', 'a "b"'),
        ("common | first", "buy milk: 2"),
        ("with nobody", "no line matches"),
    ],
)
def test_a_query_takes_changes_and_counts(bench, query: str, shown: str) -> None:
    assert bench.call(lines, text=TEXT, query=query).text == shown


@given(PLAIN)
def test_on_any_lines_it_does_what_python_does(found: list[str]) -> None:
    from types import SimpleNamespace

    def asked(query: str) -> str:
        return lines(SimpleNamespace(), query=query, text="\n".join(found) + "\n").text  # type: ignore[arg-type]

    assert asked("count") == str(len(found))
    assert asked("reversed | reversed | count") == str(len(found))
    assert asked("unique | count") == str(len(set(found)))
    assert asked("longest") in (max(found, key=len), "no line matches")


def test_a_change_is_written_with_the_line_endings_of_the_file(bench) -> None:
    bench.put("a.txt", "b\r\na\r\n")
    assert bench.call(lines, path="a.txt", query="reversed", to="a.txt").text == "wrote 2 lines to a.txt"
    assert (bench.folder / "a.txt").read_bytes() == b"a\r\nb\r\n"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sideways", "cannot read 'sideways'"),
        ("first two", "cannot read"),
        ("first 2 |", "a part of the query is empty"),
        ("line 9", "there is no line 9; there are 5"),
        ("average | emails | average", "no numbers"),
        ("drop with nobody", "nothing was changed"),
    ],
)
def test_what_cannot_be_done_says_why(bench, query: str, why: str) -> None:
    assert why in bench.fails(lines, text=TEXT, query=query)


def test_nothing_is_written_where_nothing_was_meant(bench) -> None:
    bench.put("a.txt", "one\n")
    with pytest.raises(OperationFailed):
        bench.call(lines, path="a.txt", query="drop with two", to="a.txt")
    assert (bench.folder / "a.txt").read_text() == "one\n"
