"""edit and replace: exact, whole, and careful with bytes that are not theirs."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import within

from runtime.operations.edit import edit, replace


def test_edit_replaces_the_one_place_and_names_its_line(bench):
    bench.put("a.txt", "one\ntwo\nthree\n")
    assert (
        bench.call(edit, path="a.txt", old="two", new="2").text == "replaced 1 occurrence in a.txt (line 2)"
    )
    assert bench.text("a.txt") == "one\n2\nthree\n"


def test_edit_refuses_what_is_not_unique_unless_all(bench):
    bench.put("a.txt", "x\nx\n")
    assert "occurs 2 times (lines 1, 2)" in bench.fails(edit, path="a.txt", old="x", new="y")
    bench.call(edit, path="a.txt", old="x", new="y", all=True)
    assert bench.text("a.txt") == "y\ny\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("HELLO World", "upper and lower case near line 2"),
        ("hello   world", "other spaces or line breaks near line 2"),
        ("bye", "does not occur in the file"),
        ("", "old is empty"),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_edit_says_why_a_text_was_not_found(bench, old, hint):
    bench.put("a.txt", "first\n  hello world\n")
    assert hint in bench.fails(edit, path="a.txt", old=old, new="x")


def test_edit_keeps_line_endings_mark_and_mode(bench):
    path = bench.put("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    path.chmod(0o750)
    bench.call(edit, path="a.txt", old="one\ntwo", new="1\n2")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nthree\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_edit_leaves_mixed_line_endings_as_they_are(bench):
    path = bench.put("a.txt", b"one\r\ntwo\nthree\r\n")
    bench.call(edit, path="a.txt", old="two\n", new="2\n")
    assert path.read_bytes() == b"one\r\n2\nthree\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caf\xe9 x", "not UTF-8 text (line 1, byte 3: 0xe9)"),
        ("x".encode("utf-16"), "UTF-16 text"),
        ("x".encode("utf-32"), "UTF-32 text"),
        (b"\x7fELF\0\0x", "a binary file"),
        (b"x" * 10_000 + b"\0", "a binary file"),
        (b"", "does not occur"),
    ],
)
def test_edit_refuses_what_it_might_corrupt(bench, content, message):
    bench.put("a", content)
    assert message in bench.fails(edit, path="a", old="x", new="y")


@pytest.mark.parametrize(
    "path", ["nope", ".", "../x", "fractal.yaml", ".git/config", "state/x", "a\0b", "x" * 300]
)
def test_edit_refuses_what_is_no_file_of_its_own(bench, path):
    bench.put("fractal.yaml", "x")
    bench.put(".git/config", "x")
    bench.put("state/x", "x")
    assert bench.fails(edit, path=path, old="x", new="y")


def test_edit_refuses_a_pipe_instead_of_waiting(bench):
    os.mkfifo(bench.folder / "pipe")
    assert "not an ordinary file" in bench.fails(edit, path="pipe", old="x", new="y")


def test_edit_through_a_link_changes_the_file_not_the_link(bench):
    bench.put("real", "x")
    (bench.folder / "link").symlink_to("real")
    bench.call(edit, path="link", old="x", new="y")
    assert (bench.folder / "link").is_symlink()
    assert bench.text("real") == "y"


def test_a_full_disk_leaves_the_file_whole(bench):
    small = bench.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        bench.put("small/a", "x" + "." * 30_000)
        assert "no space left" in bench.fails(edit, path="small/a", old="x", new="y" * 60_000)
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        assert "read-only" in bench.fails(edit, path="small/a", old="x", new="y")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_ten_megabytes_are_edited_at_once(bench):
    bench.put("big", "a line of text\n" * 700_000 + "needle\n")
    with within(2):
        bench.call(edit, path="big", old="needle", new="found")
    with within(4):
        bench.call(replace, path="big", old="text", new="words")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    before=st.text(max_size=40),
    old=st.text(min_size=1, max_size=8),
    new=st.text(max_size=8),
    after=st.text(max_size=40),
)
def test_edit_is_what_replacing_text_is(bench, before, old, new, after):
    whole = before + old + after
    simple = "\r" not in whole + new and "\0" not in whole and not whole.startswith("\ufeff")
    if (
        not simple
        or whole.count(old) != 1
        or old == new
        or any("\ud800" <= c <= "\udfff" for c in whole + new)
    ):
        return
    bench.put("a", whole)
    bench.call(edit, path="a", old=old, new=new)
    assert bench.text("a") == whole.replace(old, new)


def test_replace_in_files_reports_counts_and_what_it_left_out(bench):
    bench.put("a.txt", "x x")
    bench.put("d/b.txt", "x")
    bench.put("c.md", "x")
    bench.put("latin.txt", b"x \xe9")
    bench.put("none.txt", "y")
    result = bench.call(replace, path=".", old="x", new="z", glob="*.txt")
    assert result.text.startswith(
        "a.txt: 2\nd/b.txt: 1\nreplaced 3 occurrences in 2 files\n(left out: latin.txt"
    )
    assert bench.text("c.md") == "x"


def test_replace_does_not_touch_what_is_protected(bench):
    bench.put("a.txt", "x")
    bench.put("system/b.txt", "x")
    result = bench.call(replace, path=".", old="x", new="y", glob="*.txt")
    assert "system/b.txt: this path is protected" in result.text
    assert bench.text("system/b.txt") == "x"


def test_replace_needs_a_glob_for_a_folder_and_something_to_replace(bench):
    bench.put("d/a.txt", "x")
    assert "say in which files" in bench.fails(replace, path="d", old="x", new="y")
    assert "leave glob out" in bench.fails(replace, path="d/a.txt", old="x", new="y", glob="*")
    assert "does not occur in any file" in bench.fails(replace, path="d", old="q", new="y", glob="*")
    assert "the same" in bench.fails(replace, path="d", old="x", new="x", glob="*")
    assert "leave out / and .." in bench.fails(replace, path="d", old="x", new="y", glob="../*")
