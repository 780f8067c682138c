"""grep, find, list and search in a folder with a .gitignore: what git ignores is told, and hides nothing."""

from __future__ import annotations

import pytest
from conftest import Workbench
from lanes import within

from runtime.operations.files import find, list_entries
from runtime.operations.ranking import search
from runtime.operations.search import count, grep


@pytest.fixture
def project(bench: Workbench) -> Workbench:
    bench.put(".gitignore", "target/\ndist/\n*.log\n")
    bench.put("big.log", "TODO of a log\n" * 9_000)
    bench.put("target/out.txt", "TODO made\n")
    bench.put("dist/app.js", "nothing\n")
    bench.put("src/app.py", "x = 1\n# TODO: the real one\n")
    return bench


def test_grep_shows_the_real_hit_and_tells_of_ignored_ones(project: Workbench) -> None:
    result = project.call(grep, pattern="TODO")
    assert result.text == (
        "src/app.py:2:# TODO: the real one\n"
        "(2 ignored files have hits: big.log, target/out.txt; ask with ignored: true)"
    )
    assert result.evidence["lines"] == 1
    assert result.evidence["ignored"] == ["big.log", "target/out.txt"]
    assert project.call(grep, pattern="the real").text == "src/app.py:2:# TODO: the real one"


def test_ignored_files_are_searched_where_a_call_names_them(project: Workbench) -> None:
    for asked in ({"ignored": True}, {"path": "target"}, {"path": "target/out.txt"}):
        assert "target/out.txt:1:TODO made" in project.call(grep, pattern="TODO", **asked).text
    assert project.call(grep, pattern="TODO", glob="*.log").evidence["lines"] == 9_000
    assert project.call(grep, pattern="TODO", path="big.log").evidence["lines"] == 9_000
    assert project.call(find, pattern="*.log").text == "big.log"
    assert project.call(list_entries, path="target").text == "out.txt  10 bytes  (ignored by git)"
    assert "target/out.txt:1: TODO made" in project.call(search, query="made", path="target").text
    assert "target/out.txt:1: TODO made" in project.call(search, query="made", ignored=True).text


def test_a_long_file_does_not_push_out_the_others(bench: Workbench) -> None:
    bench.put("a.txt", "hit\n" * 9_000)
    for name in ("b", "c", "d"):
        bench.put(f"{name}.txt", f"hit {name}\n")
    for pattern in ("hit", "hit.*"):  # the second runs as a process of its own
        result = bench.call(grep, pattern=pattern)
        first = result.text.split("\n")[:60]
        assert {f"{name}.txt:1:hit {name}" for name in "bcd"} <= set(first)
        assert result.text.endswith("… 4,003 more lines; narrow the pattern or the glob")
        assert result.evidence["lines"] == 9_003


def test_few_lines_stay_in_the_order_of_files(bench: Workbench) -> None:
    bench.put("a.txt", "hit\n" * 40)
    bench.put("b.txt", "hit\n")
    lines = bench.call(grep, pattern="hit").text.split("\n")
    assert lines == [f"a.txt:{n}:hit" for n in range(1, 41)] + ["b.txt:1:hit"]


def test_find_tells_of_ignored_paths_and_marks_them_in_an_order(project: Workbench) -> None:
    project.put("debug.txt", "x")
    assert project.call(find, pattern="*.txt").text == (
        "debug.txt\n(1 ignored file matches too: target/out.txt; ask with ignored: true)"
    )
    assert project.call(find, pattern="*.txt", ignored=True).text == "debug.txt\ntarget/out.txt"
    largest = project.call(find, pattern="*", order="largest", limit=1).text
    assert largest.startswith("big.log  126000 bytes")
    assert largest.endswith("(ignored by git)"), "an order is of all files"
    assert "(ignored by git)" in project.call(find, pattern="*", where="size > 100 kB").text


def test_list_puts_ignored_entries_last(project: Workbench) -> None:
    lines = project.call(list_entries).text.split("\n")
    assert [line.split("  ")[0] for line in lines] == [".gitignore", "src/", "big.log", "dist/", "target/"]
    assert [line.endswith("(ignored by git)") for line in lines] == [False, False, True, True, True]
    listed = project.call(list_entries, recursive=True).text
    assert listed == (
        ".gitignore  20 bytes\nsrc/\nsrc/app.py  27 bytes\n"
        "(5 ignored files are not listed: big.log, dist/, dist/app.js, target/, target/out.txt; "
        "ask with ignored: true)"
    )


def test_search_tells_what_it_did_not_search(project: Workbench) -> None:
    result = project.call(search, query="real TODO")
    assert result.text.startswith("src/app.py:")
    assert "(3 ignored files were not searched: big.log, dist/app.js, target/out.txt;" in result.text


def test_count_counts_all_files(project: Workbench) -> None:
    assert project.call(count, what="files", format="total").text == "5"


@pytest.mark.night
def test_fifty_thousand_files_are_searched_in_time(bench: Workbench) -> None:
    bench.put(".gitignore", "out/\n*.log\n!keep.log\n")
    for folder in range(100):
        place = bench.folder / ("out" if folder < 50 else "src") / f"m{folder}"
        place.mkdir(parents=True)
        for name in range(500):
            (place / f"f{name}.txt").touch()
    bench.put("src/m99/real.txt", "needle\n")
    bench.put("out/m1/made.txt", "needle\n")
    object.__setattr__(bench, "timeout", 60.0)
    with within(50):  # 2 s of a processor; others work on the machine
        result = bench.call(grep, pattern="needle")
    assert result.text.startswith("src/m99/real.txt:1:needle\n(at least 1 ignored file")
