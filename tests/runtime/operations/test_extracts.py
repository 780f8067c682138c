"""What fetch takes out of a page beside its text: links with their words, tables as CSV."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.operations.fetch import fetch
from runtime.operations.pages import links, tables

ADDRESS = "https://e.org/a/b"


def page(html: str) -> str:
    return f"data:text/html,{quote(html)}"


def test_links_are_whole_addresses_each_once_with_their_words():
    html = (
        "<nav><a href=/home>Home &amp; <b>more</b></a></nav>"
        "<a href='c?x=1&amp;y=2'><img src=i alt='Picture'></a>"
        "<a href='#top'>up</a><a href='javascript:x'>js</a><a href=mailto:a@b>mail</a><a name=x>anchor</a>"
        "<a href=/home>again</a><a href=/icon></a><a href=/icon>Icon</a>"
        "<script>'<a href=/no>no</a>'</script><a href=/last>last"
    )
    assert links(html, ADDRESS) == [
        ("Home & more", "https://e.org/home"),
        ("Picture", "https://e.org/a/c?x=1&y=2"),
        ("Icon", "https://e.org/icon"),
        ("last", "https://e.org/last"),
    ]
    assert links("<base href='/z/'><a href=q>q</a>", ADDRESS) == [("q", "https://e.org/z/q")]


@pytest.mark.parametrize(
    ("html", "rows"),
    [
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", [["a", "b"], ["1", "2"]]),
        (
            "<table><tr><td colspan=2>x</td><td>y</td></tr><tr><td>1</td></tr></table>",
            [["x", "", "y"], ["1", "", ""]],
        ),
        ("<table><thead><tr><th> a\n b </th></tr></thead><tbody></tbody></table>", [["a b"]]),
        ("<table><tr><td>1<br>2<td>&lt;3&gt;", [["1 2", "<3>"]]),
        ("<table><td>no row</table>", [["no row"]]),
    ],
)
def test_a_table_has_rows_of_one_length(html: str, rows: list[list[str]]):
    assert tables(html) == [rows]


def test_tables_in_tables_stand_for_themselves():
    html = "<table><tr><td>out<table><tr><td>in</table></td><td>side</td></tr></table>"
    assert tables(html) == [[["in"]], [["out", "side"]]]
    assert tables("<table></table><p>x") == []


@given(st.text(alphabet="<>/tabledrhx='\" &;1", max_size=300))
def test_any_page_is_taken_apart(html: str):
    links(html, ADDRESS)
    for table in tables(f"<table>{html}"):
        assert len({len(row) for row in table}) == 1


def test_fetch_gives_the_part_that_is_asked_for(bench):
    html = "<h1>Prices</h1><p>See <a href='https://e.org/x'>x</a><table><tr><td>1</table><table><tr><td>a,b<td>2<tr><td>c<td>3</table>"
    assert bench.call(fetch, url=page(html), part="links").text == "x — https://e.org/x"
    assert bench.call(fetch, url=page(html), part="table").text == '"a,b",2\nc,3'
    assert bench.call(fetch, url=page(html), part="table 1").text == "1"
    assert bench.call(fetch, url=page(html), part="text").text.startswith("# Prices")
    assert "there are 2 tables" in bench.fails(fetch, url=page(html), part="table 3")
    assert "there is no table" in bench.fails(fetch, url=page("<p>x"), part="table")
    assert "none of text, links, table" in bench.fails(fetch, url=page(html), part="tables")
    assert "so it has no links" in bench.fails(fetch, url="data:text/plain,x", part="links")
    assert bench.call(fetch, url=page("<p>x"), part="links").text == "no links"


def test_a_part_is_written_to_a_file_as_it_is_shown(bench):
    html = "<table><tr><th>item<tr><td>tea</table>"
    result = bench.call(fetch, url=page(html), part="table", to="t.csv")
    assert "wrote table (9 bytes)" in result.text
    assert bench.text("t.csv") == "item\ntea\n"
    bench.call(fetch, url=page(html), to="t.html")
    assert bench.text("t.html") == html
