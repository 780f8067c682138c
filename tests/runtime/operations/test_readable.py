"""HTML as text: what a person would read, and no page takes long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples, within

from runtime.operations.pages import readable

PAGE = """<!doctype html><html><head><title>Hello &amp; bye</title><style>x{}</style>
<script>if(a<b){"</p>"}</script></head><body><nav><ul><li><a href="/a">A</a><li><a href="b?x=1&amp;y=2">B
b</a></ul></nav><h1>Big   title</h1><p>Some <b>bold</b> text<br>next<p>para<ol><li>one<ul><li>in</ul><li>two
</ol><table><tr><th>x<th>y<tr><td>1<td>2</table><pre>a  b
 c</pre><!-- <p>hidden --><img alt="cat" src=x> 3 < 4 and <3</body></html>"""


def test_a_page_reads_like_a_text():
    assert readable(PAGE, "https://example.org/d/") == (
        "Hello & bye\n\n- [A](https://example.org/a)\n- [B b](https://example.org/d/b?x=1&y=2)\n\n"
        "# Big title\n\n"
        "Some bold text\nnext\n\npara\n1. one\n  - in\n2. two\n\nx | y\n1 | 2\n\na  b\n c\n\n"
        "[image: cat] 3 < 4 and <3"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("<p>a<p>b", "a\n\nb"),
        ("<head><title>T</title><p>no end of head", "T\n\nno end of head"),
        ("<title>T</title><h1>T</h1>x", "# T\n\nx"),
        ("<script>evil", ""),
        ("a<script src=x></script>b", "ab"),
        ("<!-- never ends", ""),
        ("<svg><text>drawn</text></svg>seen", "seen"),
        ("<template><p>t</p></template>seen", "seen"),
        ("<a href='javascript:x'>go</a> <a href=#top>up</a>", "go up"),
        ('<a href="x" title="a > b">go</a>', "[go](https://e.org/x)"),
        ("<a href=x><h2>Head</h2></a>", "## Head"),
        ("&lt;b&gt; &#8212; &nbsp;x", "<b> — x"),
        ("<P>UPPER</P>", "UPPER"),
        ("<textarea><b>raw</b></textarea>", "<b>raw</b>"),
    ],
)
def test_odd_pages(page, text):
    assert readable(page, "https://e.org/") == text


@pytest.mark.parametrize(
    "page",
    [
        "<a" * 500_000,
        '<a ">" ' * 140_000,
        ('<a ">" ' * 2_000 + "'") * 70,
        "<td>x" * 200_000,
        ("<a " + "a" * 19_000 + ">") * 50,
        "<select>" * 100_000 + "</p>" * 10_000,
        "<!--" * 250_000,
        "<script>" * 120_000,
        "<title>" * 140_000,
        "&" * 1_000_000,
        "<ul><li>" * 120_000,
    ],
    ids=range(11),
)
def test_a_hostile_page_of_a_megabyte_takes_seconds_at_most(page):
    with within(5):
        readable(page, "https://e.org/")


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="<>/!-abhreftdscript=\"' &;#\n", max_size=80))
def test_any_text_is_read(page):
    readable(page, "https://e.org/")
