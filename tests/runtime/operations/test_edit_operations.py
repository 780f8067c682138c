"""edit and replace: exact, whole, and careful with bytes that are not theirs."""

from __future__ import annotations

import os
import stat
import subprocess
import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import within

from runtime.operations.edit import edit, replace
from runtime.operations.read import read
from runtime.operations.write import write


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


MIXED = b"one\r\ntwo\r\nthree\nfour\nfive\r\nsix"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("one\ntwo", "1\n2", b"1\r\n2\r\nthree\nfour\nfive\r\nsix"),
        ("two\nthree\nfour", "2\n3\n4", b"one\r\n2\r\n3\r\n4\nfive\r\nsix"),
        ("two", "2a\n2b", b"one\r\n2a\r\n2b\r\nthree\nfour\nfive\r\nsix"),
        ("three", "3a\n3b", b"one\r\ntwo\r\n3a\n3b\nfour\nfive\r\nsix"),
        ("six", "6\n7", b"one\r\ntwo\r\nthree\nfour\nfive\r\n6\r\n7"),
        ("two\n", "", b"one\r\nthree\nfour\nfive\r\nsix"),
        ("one\r\ntwo", "1\r\n2", b"1\r\n2\r\nthree\nfour\nfive\r\nsix"),
        ("three\r\nfour", "3", None),
    ],
)
def test_lines_of_a_file_with_mixed_ends_are_found_and_new_ones_end_as_those_around(
    bench, old: str, new: str, after: bytes | None
) -> None:
    path = bench.put("a.txt", MIXED)
    if after is None:
        assert "does not occur" in bench.fails(edit, path="a.txt", old=old, new=new)
        return
    bench.call(edit, path="a.txt", old=old, new=new)
    assert path.read_bytes() == after


def test_a_text_that_occurs_with_both_ends_occurs_twice(bench) -> None:
    bench.put("a.txt", b"a\r\nb\r\na\nb\n")
    assert "occurs 2 times (lines 1, 3)" in bench.fails(edit, path="a.txt", old="a\nb", new="c")


def test_lines_that_are_replaced_by_number_end_as_those_there(bench) -> None:
    path = bench.put("a.txt", MIXED)
    bench.call(edit, path="a.txt", lines="3-3", new="3a\n3b\n")
    bench.call(edit, path="a.txt", lines="1-1", new="1a\n1b\n")
    assert path.read_bytes() == b"1a\r\n1b\r\ntwo\r\n3a\n3b\nfour\nfive\r\nsix"


def test_many_places_of_one_long_line_take_linear_time(bench) -> None:
    path = bench.put("a.txt", b"a," * 200_000)
    bench.call(replace, path="a.txt", old=",", new=",\n")
    assert path.read_bytes() == b"a,\n" * 200_000


@pytest.mark.parametrize(
    "asked", ["docs/readme.md", "docs\\README.md", "`docs/README.md`", "@docs/README.md", "README.md"]
)
@pytest.mark.parametrize("act", [edit, read])
def test_what_is_not_there_is_told_with_what_may_be_meant(bench, asked: str, act: Any) -> None:
    bench.put("docs/README.md", b"one\n")
    arguments = {"old": "one", "new": "two"} if act is edit else {}
    told = bench.fails(act, path=asked, **arguments)
    assert "docs/README.md" in told.partition(": ")[2]


E_ACUTE = "caf\u00e9/r\u00e9sum\u00e9.txt"


@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_name_in_another_form_of_unicode_is_the_file_that_is_there(bench, forms: tuple[str, str]) -> None:
    there, asked = (unicodedata.normalize(form, E_ACUTE) for form in forms)
    path = bench.put(there, b"one\n")
    bench.call(write, path=asked, content="two\n")
    bench.call(edit, path=asked, old="two", new="three")
    assert read(bench.context, asked).text == "three\n" == path.read_text()
    assert [str(each.relative_to(bench.folder)) for each in bench.folder.rglob("*.txt")] == [there]
    new = unicodedata.normalize(forms[1], "caf\u00e9/neu\u00e9.txt")
    bench.call(write, path=new, content="x")
    assert (path.parent / new.partition("/")[2]).is_file(), "a new name is made as it is given"


def test_a_name_that_only_looks_like_an_ascii_one_is_another_file(bench) -> None:
    path = bench.put("KEYS.txt", b"one\n")
    bench.call(write, path="\u212aEYS.txt", content="two\n")
    assert path.read_text() == "one\n"


@pytest.mark.parametrize("asked", ["docs\\new.txt", "new\\b.txt", ".\\b.txt", "C:\\b.txt"])
def test_a_path_with_backslashes_makes_no_file_of_that_name(bench, asked: str) -> None:
    bench.put("docs/a.txt", b"one\n")
    assert f"write {asked.replace(chr(92), '/')}" in bench.fails(write, path=asked, content="x")
    assert [each.name for each in bench.folder.rglob("*") if "\\" in each.name] == []


def test_a_file_with_a_backslash_in_its_name_can_be_changed(bench) -> None:
    path = bench.put("a\\b.txt", b"one\n")
    bench.call(write, path="a\\b.txt", content="two\n")
    assert path.read_text() == "two\n"
