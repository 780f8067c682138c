"""grep, count and sort."""

from __future__ import annotations

import os

import pytest
from lanes import within

from runtime.operations.search import count, grep
from runtime.operations.sorting import sort_lines


def test_grep_shows_path_line_and_text(bench):
    bench.put("b.py", "import os\r\nx = 1\r\n")
    bench.put("a.py", "\ufeffimport re")
    assert bench.call(grep, pattern="^import").text == "a.py:1:import re\nb.py:1:import os"
    assert bench.call(grep, pattern="IMPORT", ignore_case=True, path="b.py").text == "b.py:1:import os"
    assert bench.call(grep, pattern="nothing").text == "no line matches"


def test_grep_fixed_takes_signs_as_they_are(bench):
    bench.put("a", "f(x)\nfx\n")
    assert bench.call(grep, pattern="f(x)", fixed=True).text == "a:1:f(x)"
    assert "not a regular expression" in bench.fails(grep, pattern="f(x")
    assert "empty" in bench.fails(grep, pattern="")


def test_grep_passes_over_binary_and_names_what_is_not_utf8(bench):
    bench.put("a.txt", "needle")
    bench.put("b.bin", b"\0needle")
    bench.put("c.txt", b"needle \xff")
    result = bench.call(grep, pattern="needle")
    assert result.text == "a.txt:1:needle\n(not searched: c.txt: not UTF-8 text (byte 7))"
    assert len(result.evidence["not_searched"]) == 2
    assert "not UTF-8" in bench.fails(grep, pattern="needle", path="c.txt")
    assert "binary" in bench.fails(grep, pattern="needle", path="b.bin")


def test_a_slow_expression_is_stopped_and_holds_nobody_up(bench):
    bench.put("a", "a" * 60)
    bench.put("b", "a" * 40)
    object.__setattr__(bench, "timeout", 1.0)
    with within(4):
        assert "without nested repetition" in bench.fails(grep, pattern="(a+)+$x", path="a")
        assert "without nested repetition" in bench.fails(grep, pattern="a?" * 40 + "a" * 40, path="b")


def test_grep_in_ten_megabytes_is_quick_and_says_what_it_left_out(bench):
    bench.put("big", "the quick brown fox 12\n" * 450_000)
    for pattern in ("fox", r"\w+ fox \d+"):
        with within(5):
            result = bench.call(grep, pattern=pattern)
        assert result.text.endswith("… 445,000 more lines; narrow the pattern or the glob")
        assert result.evidence["lines"] == 450_000


def test_grep_cuts_long_lines_and_does_not_wait_for_pipes(bench):
    bench.put("a", "x" * 5_000)
    os.mkfifo(bench.folder / "pipe")
    assert bench.call(grep, pattern="x").text == f"a:1:{'x' * 400}…"


def test_a_result_that_is_an_empty_match_counts_as_a_line(bench):
    bench.put("a", "\n\nx\n")
    assert bench.call(grep, pattern="^$").text == "a:1:\na:2:"
    assert bench.call(count, what="matches", pattern="x", path="a").text == "a: 1 match"


@pytest.mark.parametrize(
    ("content", "lines", "words", "characters"),
    [("", 0, 0, 0), ("a", 1, 1, 1), ("a\n", 1, 1, 2), ("\n\n", 2, 0, 2), ("é ü\r\nx", 2, 3, 6)],
)
def test_count_counts_like_a_person(bench, content, lines, words, characters):
    bench.put("a", content)
    for what, number in (("lines", lines), ("words", words), ("characters", characters)):
        assert bench.call(count, what=what, path="a", format="total").text == str(number)


def test_count_in_several_files_is_ordered_and_totalled(bench):
    bench.put("b.md", "1\n2\n3\n")
    bench.put("a.md", "1\n")
    bench.put("c, d.md", "1\n2\n")
    assert bench.call(count, what="lines").text.split("\n") == [
        "1  a.md",
        "3  b.md",
        "2  c, d.md",
        "total: 6 lines in 3 files",
    ]
    csv = bench.call(count, what="lines", order="smallest", format="csv").text
    assert csv == 'path,lines\na.md,1\n"c, d.md",2\nb.md,3'
    assert bench.call(count, what="lines", path="a.md").text == "a.md: 1 line"


def test_count_of_files_goes_by_folder(bench):
    for name in ("a.md", "d/b.md", "d/c.md", "d/x.txt"):
        bench.put(name, "")
    assert bench.call(count, what="files", glob="*.md").text == "1  .\n2  d\ntotal: 3 files"
    assert bench.call(count, what="files", glob="*.rs", format="total").text == "0"


def test_count_of_what_is_no_text(bench):
    bench.put("a.bin", b"\0\1\2")
    bench.put("b.txt", b"\xff\n")
    assert "a binary file" in bench.fails(count, what="lines", path="a.bin")
    assert bench.call(count, what="bytes", path="a.bin").text == "a.bin: 3 bytes"
    assert "(not counted: b.txt: not UTF-8" in bench.call(count, what="lines").text
    assert "say what the matches are of" in bench.fails(count, what="matches")


def test_sort_is_alphabetical_without_regard_to_case(bench):
    bench.put("a", "pear\nApple\nbanana\napple")
    assert bench.call(sort_lines, path="a").text == "Apple\napple\nbanana\npear"
    assert bench.call(sort_lines, path="a", order="desc").text == "pear\nbanana\napple\nApple"


def test_lines_that_all_are_numbers_are_sorted_as_numbers(bench):
    assert bench.call(sort_lines, text="100\n9\n\n20").text == "9\n20\n100\n"
    assert bench.call(sort_lines, text="100\n9", numeric=False).text == "100\n9"
    assert bench.call(sort_lines, text="100\n9\nx").text == "100\n9\nx"


def test_sort_by_number_puts_lines_without_one_last(bench):
    text = "b 10\na 9.5\nnone\nc -3\nd 1,000\n"
    assert bench.call(sort_lines, text=text, numeric=True).text == "c -3\na 9.5\nb 10\nd 1,000\nnone"
    assert bench.call(sort_lines, text=text, numeric=True, order="descending").text.endswith("c -3\nnone")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("file-10\nfile-9\nfile-2", "file-2\nfile-9\nfile-10"),
        ("v.10\nv.9", "v.9\nv.10"),
        ("x -10\nx 9\n-2 y", "x -10\n-2 y\nx 9"),
        ("2024-03-01\n2023-05-05\n2024-01-31", "2023-05-05\n2024-01-31\n2024-03-01"),
        ("10,200,3\n9,300,1", "9,300,1\n10,200,3"),
        (".5\n.25", ".25\n.5"),
    ],
)
def test_a_number_is_read_as_a_person_reads_it(bench, text, shown):
    assert bench.call(sort_lines, text=text, numeric=True).text == shown


def test_a_class_of_another_language_is_refused(bench):
    bench.put("a", "1")
    assert "[[:digit:]] are not read here" in bench.fails(grep, pattern="x[[:digit:]]+")
    assert bench.call(grep, pattern="[[:digit:]]", fixed=True).text == "no line matches"


def test_a_minus_sign_of_print_is_a_minus(bench):
    assert bench.call(sort_lines, text="3\n−5\n−.5", numeric=True).text == "−5\n−.5\n3"


def test_versions_are_not_sorted_as_numbers(bench):
    assert "sort -V" in bench.fails(sort_lines, text="1.10.0\n1.9.0", numeric=True)
    assert "sort -V" in bench.fails(sort_lines, text="v1.10\nv1.9", numeric=True)


def test_sort_into_a_file_keeps_its_line_endings(bench):
    bench.put("a", "b\r\na\r\nb")
    assert bench.call(sort_lines, path="a", unique=True, to="a").text == "wrote 2 sorted lines to a"
    assert bench.text("a") == "a\r\nb\r\n"
    assert bench.fails(sort_lines, path="a", to="system/x")
    assert "give either" in bench.fails(sort_lines)
    assert "give either" in bench.fails(sort_lines, path="a", text="b")
    assert bench.call(sort_lines, text="\n").text == ""


@pytest.mark.night
def test_ten_megabytes_are_sorted_at_once(bench):
    bench.put("big", "".join(f"{n * 7919 % 999_983} line\n" for n in range(700_000)))
    with within(10):
        bench.call(sort_lines, path="big", numeric=True, to="out")
    numbers = [int(line.split()[0]) for line in bench.text("out").splitlines()]
    assert len(numbers) == 700_000
    assert numbers == sorted(numbers)
