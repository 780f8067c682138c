"""search: the passages that suit, the best first, at their lines; what is not searched is said."""

from __future__ import annotations

import os

import pytest
from lanes import within

from kernel.tools.operations import Result
from runtime.operations.ranking import search


def names(result: Result) -> list[str]:
    return [line.partition(": ")[0] for line in result.text.splitlines() if not line.startswith("(")]


def test_the_passage_with_more_and_rarer_words_comes_first(bench):
    bench.put("a.md", "# Gardens\n\nWater is needed everywhere.\n")
    bench.put("b.md", "# Tomatoes\n\nSow in March.\n\n## Care\n\nTomato plants are watered each morning.\n")
    bench.put("c.txt", "Nothing of that.\n")
    result = bench.call(search, query="watering tomatoes")
    assert names(result) == ["b.md:7", "b.md:1", "a.md:3"]
    assert result.text.splitlines()[0] == "b.md:7: [Tomatoes › Care] Tomato plants are watered each morning."
    scores = [hit["score"] for hit in result.evidence["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert result.evidence["searched"] == 3


def test_endings_accents_and_compound_names_do_not_matter(bench):
    bench.put("a.py", "def getUserName(user_id):\n    return user_id\n")
    bench.put("b.txt", "Le café était fermé.\n")
    bench.put("c.txt", "他们在北京工作了三年。\n")
    assert names(bench.call(search, query="user name")) == ["a.py:1"]
    assert names(bench.call(search, query="CAFE")) == ["b.txt:1"]
    assert names(bench.call(search, query="北京")) == ["c.txt:1"]


def test_a_phrase_in_quotes_is_one_term(bench):
    bench.put("a.txt", "a heat pump\n")
    bench.put("b.txt", "a pump and some heat\n")
    assert names(bench.call(search, query='"heat pump"')) == ["a.txt:1"]
    assert names(bench.call(search, query="heat-pump")) == ["a.txt:1"]


@pytest.mark.parametrize(
    "query", ['a "', "NEAR(x y)", "x AND", "-x", "col:x", "x*", "a'b", 'say ""hi"" x', "^x", "{x}"]
)
def test_no_query_is_read_as_a_language(bench, query: str):
    bench.put("a.txt", "x\n")
    assert bench.call(search, query=query).ok


def test_lines_are_those_of_the_file_in_pages_tables_and_long_lines(bench):
    bench.put(
        "p.html", "<html><body><h1>Pool</h1>\n<script>heron</script>\n<p>Open\n<p>A <b>heron</b> stood.</p>"
    )
    bench.put("t.csv", "bird,count\n" + "".join(f"finch{n},{n}\n" for n in range(200)) + "heron,7\n")
    bench.put("j.json", '{"a": "' + "word " * 2_000 + 'heron"}')
    bench.put("l.txt", "\n\n" + "filler line\n" * 300 + "the heron\n")
    found = names(bench.call(search, query="heron"))
    assert sorted(found) == ["j.json:1", "l.txt:303", "p.html:4", "t.csv:202"]
    snippets = bench.call(search, query="heron", path="t.csv").text
    assert snippets.startswith("t.csv:202: [bird,count] heron,7")


def test_one_file_does_not_hide_the_others_and_the_limit_holds(bench):
    bench.put("long.txt", "\n\n".join(f"The otter number {n}. " + "word " * 150 for n in range(30)))
    for n in range(8):
        bench.put(f"{n}.txt", "An otter, seen once among many other animals of the river.\n")
    result = bench.call(search, query="otter", limit=20)
    assert len(names(result)) == 11
    assert sum(name.startswith("long.txt") for name in names(result)) == 3
    assert len(names(bench.call(search, query="otter", limit=5))) == 5
    assert result.text.splitlines()[-1] == "(38 passages in 9 files suit it)"


def test_a_folder_or_a_file_is_searched_alone(bench):
    bench.put("a/x.txt", "otter\n")
    bench.put("b/x.txt", "otter\n")
    assert names(bench.call(search, query="otter", path="b")) == ["b/x.txt:1"]
    assert names(bench.call(search, query="otter", path="a/x.txt")) == ["a/x.txt:1"]
    assert "no such file or folder" in bench.fails(search, query="otter", path="c")
    assert "outside the folder" in bench.fails(search, query="otter", path="..")


def test_what_is_changed_added_and_removed_is_seen_by_the_next_call(bench):
    path = bench.put("a.txt", "otter\n")
    bench.put("b.txt", "otter\n")
    assert names(bench.call(search, query="otter")) == ["a.txt:1", "b.txt:1"]
    bench.put("a.txt", "beaver\n")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    (bench.folder / "b.txt").unlink()
    bench.put("c.txt", "\notter\n")
    assert names(bench.call(search, query="otter")) == ["c.txt:2"]
    assert names(bench.call(search, query="beaver")) == ["a.txt:1"]


def test_what_is_not_searched_is_reported_and_protected_files_are_left_alone(bench):
    bench.put("a.txt", "otter\n")
    bench.put("scan.pdf", b"%PDF\0otter")
    bench.put("huge.log", "otter\n" * 700_000)
    bench.put("latin.txt", "otter Grüße\n".encode("latin-1"))
    for hidden in (
        ".git/x.txt",
        ".cache/x.txt",
        "state/runs/x.md",
        "system/tools/x/pattern.md",
        "fractal.yaml",
    ):
        bench.put(hidden, "otter\n")
    result = bench.call(search, query="otter")
    assert sorted(names(result)) == ["a.txt:1", "latin.txt:1"]
    assert "scan.pdf: not text (.pdf)" in result.text
    assert "huge.log: larger than 4 MB" in result.text
    assert names(bench.call(search, query="otter", path="system")) == ["system/tools/x/pattern.md:1"]


def test_words_that_are_nowhere_are_named_and_nothing_is_an_answer(bench):
    bench.put("a.txt", "otter\n")
    assert "(in no file: unicorn)" in bench.call(search, query="otter unicorn").text
    assert bench.call(search, query="unicorn").text == "nothing suits 'unicorn' in 1 files below ."
    assert "there is no word in it" in bench.fails(search, query='"?"')


def test_common_words_are_searched_where_there_is_nothing_else(bench):
    bench.put("a.txt", "to be or not to be\n")
    assert names(bench.call(search, query="to be or not to be")) == ["a.txt:1"]


def test_a_thousand_files_take_a_moment_the_second_time(bench):
    for n in range(1_000):
        bench.put(f"{n % 20}/{n}.txt", f"File {n} tells of otters and rivers.\n" * 20)
    first = bench.call(search, query="file 733", limit=1)
    assert names(first) == ["13/733.txt:1"]
    with within(2):
        again = bench.call(search, query="file 733", limit=1)
        assert again.text == first.text
