"""list, find, stat, checksum, compare, and what globs may reach."""

from __future__ import annotations

import hashlib
import os
import subprocess
from datetime import datetime

import pytest
from lanes import within

from kernel.errors import OperationFailed
from runtime.operations.files import checksum, compare, find, list_entries, stat
from runtime.operations.walking import Glob


def matches(pattern: str, path: str) -> bool:
    return Glob.of(pattern).matches(tuple(path.split("/")))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/*.py", "other/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**", "x/y", True),
        ("**/*", "a", True),
        ("**/b/**", "a/b/c", True),
        ("**/b/**", "a/b", True),
        ("./a.md", "a.md", True),
        ("*.{py,md}", "docs/a.md", True),
        ("*.{py,md}", "a.txt", False),
        ("{src,docs}/*.md", "docs/a.md", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "c.txt", True),
        ("[", "[", True),
        ("a?c", "abc", True),
        ("A.md", "a.md", False),
        (".*", ".env", True),
        ("src/", "x/src", True),
    ],
)
def test_a_glob_matches_as_people_expect(pattern, path, expected):
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    "pattern", ["", "  ", "../*", "a/../../b", "/etc/*", "~/x", "a\0b", "x" * 600, "{a,b}" * 9]
)
def test_a_glob_that_leads_outside_or_is_unreasonable_is_refused(pattern):
    with pytest.raises(OperationFailed):
        Glob.of(pattern)


def test_no_glob_is_slow():
    name = ("a" * 200, "a" * 200 + "b")
    with within(1):
        for pattern in ("*a" * 100 + "c", "**/" * 8 + "x", "*" * 300 + "z", "[" * 200):
            Glob.of(pattern).matches(name * 20)


def test_find_is_sorted_and_leaves_out_what_nobody_means(bench):
    for name in ("b/x.py", "a.py", "b/a.py", ".git/c.py", "node_modules/d.py", "state/e.py", "b/state/f.py"):
        bench.put(name, "")
    bench.put(".venv/g.py", "")
    bench.put("b/__pycache__/h.py", "")
    assert bench.call(find, pattern="*.py").text.split("\n") == ["a.py", "b/a.py", "b/state/f.py", "b/x.py"]
    assert bench.call(find, pattern="*.py", path="state").text == "state/e.py"
    assert bench.call(find, pattern="b", type="folder").text == "b/"
    assert bench.call(find, pattern="*.rs").text == "nothing matches *.rs"


def test_find_orders_and_chooses_files_by_size_and_day(bench):
    for name, size, day in (
        ("a.txt", 10, "2024-01-05"),
        ("b/c.txt", 3000, "2024-03-01"),
        ("d.md", 0, "2023-12-31"),
    ):
        path = bench.put(name, "x" * size)
        noon = datetime.fromisoformat(f"{day}T12:00").timestamp()
        os.utime(path, (noon, noon))

    def found(**args):
        return [line.split("  ")[0] for line in bench.call(find, **{"pattern": "*", **args}).text.split("\n")]

    assert bench.call(find, pattern="*", order="largest", limit=1).text == "b/c.txt  3000 bytes  2024-03-01"
    assert found(order="smallest") == ["d.md", "a.txt", "b/c.txt"]
    assert found(order="newest") == ["b/c.txt", "a.txt", "d.md"]
    assert found(order="oldest", pattern="*.txt") == ["a.txt", "b/c.txt"]
    assert found(where="size > 1 kB") == ["b/c.txt"]
    assert found(where="size <= 10") == ["a.txt", "d.md"]
    assert found(where="empty") == ["d.md"]
    assert found(where="changed before 2024-01-05") == ["d.md"]
    assert found(where="changed since 2024-01-05") == ["a.txt", "b/c.txt"]
    assert bench.call(find, pattern="*", where="size > 5 MB").text == "nothing matches * size > 5 MB"
    assert "write size > 10 kB" in bench.fails(find, pattern="*", where="large")


def test_find_does_not_follow_links_out_of_the_folder(bench, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("s")
    bench.put("inside.txt", "")
    (bench.folder / "out").symlink_to(outside)
    (bench.folder / "file.txt").symlink_to(outside / "secret.txt")
    (bench.folder / "loop").symlink_to(bench.folder)
    (bench.folder / "broken.txt").symlink_to("nowhere")
    assert bench.call(find, pattern="*.txt").text == "inside.txt"
    assert "outside the folder" in bench.fails(find, pattern="*", path="out")
    assert "outside the folder" in bench.fails(stat, path="file.txt")


def test_names_that_are_no_text_stay_on_their_line(bench):
    (bench.folder / "a\nb").write_text("")
    (bench.folder / os.fsdecode(b"\xff.txt")).touch()
    assert bench.call(find, pattern="*").text.split("\n") == ["a\\x0ab", "\\xff.txt"]


def test_list_shows_sizes_folders_and_links(bench):
    bench.put("a.md", "x")
    bench.put("docs/b.md", "hello")
    (bench.folder / "link.md").symlink_to("a.md")
    assert bench.call(list_entries).text == "a.md  1 byte\ndocs/\nlink.md  link to a.md"
    assert "docs/b.md  5 bytes" in bench.call(list_entries, recursive=True).text.split("\n")
    assert bench.call(list_entries, path="docs/b.md").text == "docs/b.md  5 bytes"


def test_list_of_an_empty_or_missing_folder_says_so(bench):
    assert bench.call(list_entries).text == ".: nothing here"
    assert "no such file or folder" in bench.fails(list_entries, path="nope")
    assert "outside" in bench.fails(list_entries, path="..")


def test_a_long_list_says_how_much_more_there_is(bench):
    for number in range(5_010):
        (bench.folder / f"{number:05}").touch()
    lines = bench.call(list_entries).text.split("\n")
    assert len(lines) == 5_001
    assert lines[-1] == "… 10 more entries; narrow the pattern"


def test_stat_tells_kinds_apart(bench):
    bench.put("d/a", "12345")
    os.mkfifo(bench.folder / "pipe")
    assert "kind: folder\nentries: 1" in bench.call(stat, path="d").text
    assert bench.call(stat, path="d/a").evidence["bytes"] == 5
    assert "kind: pipe" in bench.call(stat, path="pipe").text


@pytest.mark.parametrize("algorithm", ["sha256", "SHA-512", "md5", "sha1", "blake2b"])
def test_checksum_is_that_of_hashlib(bench, algorithm):
    bench.put("a", b"\0\xff" * 1000)
    expected = hashlib.new(algorithm.lower().replace("-", ""), b"\0\xff" * 1000).hexdigest()
    assert bench.call(checksum, path="a", algorithm=algorithm).text == expected


def test_checksum_refuses_what_is_no_file(bench):
    os.mkfifo(bench.folder / "pipe")
    assert "not an ordinary file" in bench.fails(checksum, path="pipe")
    assert "this is a folder" in bench.fails(checksum, path=".")
    bench.put("a", "")
    assert bench.call(checksum, path="a", algorithm="crc32").text == "00000000"


def test_compare_shows_what_the_program_diff_shows(bench):
    old = [f"line {n}" for n in range(60)]
    new = [*old[:10], "changed", *old[11:40], *old[42:], "end"]
    bench.put("a", "\n".join(old) + "\n")
    bench.put("b", "\n".join(new))
    ours = bench.call(compare, a="a", b="b")
    theirs = subprocess.run(
        ["diff", "-u", "--label", "a", "--label", "b", "a", "b"],
        cwd=bench.folder,
        capture_output=True,
        text=True,
    ).stdout
    assert ours.text == theirs.removesuffix("\n")
    assert (ours.evidence["added"], ours.evidence["removed"]) == (2, 3)


def test_compare_says_when_nothing_that_shows_differs(bench):
    for name, content in {"a": "x\ny\n", "b": "x\r\ny\r\n", "c": "x\ny", "d": "\ufeffx\ny\n"}.items():
        bench.put(name, content)
    assert bench.call(compare, a="a", b="a").text == "identical"
    for other in "bcd":
        assert "only in line endings" in bench.call(compare, a="a", b=other).text


def test_compare_of_binary_and_folders(bench):
    bench.put("a/x", b"\0\1")
    bench.put("a/y", "1")
    bench.put("b/x", b"\0\2")
    bench.put("b/z", "1")
    assert "first difference is at byte 1" in bench.call(compare, a="a/x", b="b/x").text
    assert bench.call(compare, a="a", b="b").text == "differs: x\nonly in a: y\nonly in b: z"
    assert bench.call(compare, a="a", b="a").text == "identical"
    assert "one is a folder" in bench.fails(compare, a="a", b="b/x")


@pytest.mark.night
def test_compare_of_large_files_ends(bench):
    bench.put("a", "".join(f"{n * 7919 % 100_003}\n" for n in range(100_000)))
    bench.put("b", "".join(f"{n * 104_729 % 100_003}\n" for n in range(100_000)))
    with within(15):
        assert bench.call(compare, a="a", b="b").text.startswith("--- a\n+++ b\n@@")
