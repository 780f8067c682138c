"""Changed files have to parse: what counts as a fault, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import put

from kernel.loop.hooks import FolderChanges
from runtime.proving import forms
from runtime.proving.parsing import CODE, LARGEST, parse, parses

WRONG = {
    "a.py": "x = 1\ndef f(:\n",
    "a.json": '{"a": 1,\n "b": }',
    "a.yaml": "a: 1\nb: [1, 2\n",
    "a.toml": "a = 1\nb = \n",
    "a.xml": "<a>\n<b></a>",
    "a.html": "<div>\n<p>one<p>two\n<span></div>",
    "a.sh": "echo one\nif true; then\n",
}
RIGHT = {
    "a.py": 'print("\\d")\n',
    "b.pyi": "def f() -> int: ...\n",
    "a.json": "[1]",
    "a.yaml": "a: !custom 1\n---\n- b: *x\n".replace("*x", "1"),
    "a.toml": "[a]\nb = 1\n",
    "a.xml": "<?xml version='1.0' encoding='latin-1'?>\n<!DOCTYPE a>\n<a>ü</a>",
    "a.html": "<!doctype html><p>one<p>two<br><img src=x><div></div>",
    "a.sh": "if true; then echo; fi\n",
    "empty.json": "",
    "tsconfig.json": "{// a comment\n}",
    "chart/a.yaml": "a: {{ .Values.a }}\nb: [",
    "{{cookiecutter.name}}.py": "import {{ name }}",
    "page.html": "{% for a in b %}<div>{% endfor %}",
    "a.txt": "def f(:",
}


def since(before: Mapping[str, str], *moved: str) -> FolderChanges:
    return FolderChanges(moved, lambda: list(before), lambda path: before.get(path, ""))


@pytest.mark.parametrize(("name", "text"), WRONG.items())
def test_a_new_file_that_does_not_parse_is_a_fault(folder: Path, name: str, text: str) -> None:
    put(folder, name, text)
    (fault,) = parses(folder, since({}, name))
    assert fault.path == name
    assert fault.message
    assert fault.line in ({0} if name == "a.html" else {2, 3})
    assert str(fault).startswith(name)


@pytest.mark.parametrize(("name", "text"), RIGHT.items())
def test_what_parses_or_is_no_code_is_no_fault(folder: Path, name: str, text: str) -> None:
    put(folder, name, text)
    assert parses(folder, since({}, name)) == []


def test_only_what_the_run_broke_is_a_fault(folder: Path) -> None:
    for name in ("broken.py", "worse.py", "untouched.py"):
        put(folder, name, "def f(:\n")
    before = {
        "broken.py": "x = 1\n",
        "worse.py": "def (\n",
        "removed.py": "x = 1\n",
        "untouched.py": "def f(:",
    }
    found = parses(folder, since(before, "broken.py", "worse.py", "removed.py"))
    assert [fault.path for fault in found] == ["broken.py"]


def test_links_folders_binaries_and_large_files_are_left_alone(folder: Path) -> None:
    put(folder, "deep.py/inside", "")
    put(folder, "binary.json", b"\0{")
    put(folder, "large.py", "(" * (LARGEST + 1))
    (folder / "link.py").symlink_to("large.py")
    assert parses(folder, since({}, "deep.py", "binary.json", "large.py", "link.py", "gone.py")) == []


def test_nothing_too_deep_to_tell_is_a_fault(folder: Path) -> None:
    put(folder, "a.json", "[" * 100_000 + "]" * 100_000)
    put(folder, "a.py", "(" * 5_000 + ")" * 5_000)
    assert parses(folder, since({}, "a.json")) == []
    assert len(parses(folder, since({}, "a.py"))) <= 1


def test_a_newer_python_may_know_more(folder: Path) -> None:
    put(folder, "a.py", "def f(:\n")
    put(folder, ".venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.8.10\n")
    assert len(parses(folder, since({}, "a.py"))) == 1
    put(folder, ".venv/pyvenv.cfg", "home = /usr/bin\nversion_info = 3.99.0\n")
    assert parses(folder, since({}, "a.py")) == []


def test_a_text_that_takes_too_much_is_left_alone_and_the_others_are_not(folder: Path) -> None:
    put(folder, "a.json", "{")
    put(folder, "b.html", "<div " * 100_000)
    put(folder, "c.toml", "a" + ".a" * 300_000 + " = 1")
    put(folder, "d.json", "{")
    changes = since({}, "a.json", "b.html", "c.toml", "d.json")
    assert [fault.path for fault in parses(folder, changes, seconds=1)] == ["a.json", "d.json"]


def test_a_secret_in_a_message_is_not_shown(folder: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    put(folder, "a.sh", f"if true; then {secret}\x1b[2J )\n")
    (fault,) = parses(folder, since({}, "a.sh"))
    assert secret not in str(fault)
    assert "\x1b" not in str(fault)


@given(st.sampled_from(sorted(CODE - {".sh"})), st.text(max_size=60))
def test_any_text_has_a_fault_in_a_line_or_none(suffix: str, text: str) -> None:
    wrong = forms.fault(f"any{suffix}", text)
    assert wrong is None or (wrong[0] >= forms.UNKNOWN and wrong[1])


@pytest.mark.parametrize("name", ["a.csv", "a.ini", "setup.cfg"])
def test_tables_and_settings_are_parsed_where_that_is_asked_for(folder: Path, name: str) -> None:
    put(folder, name, "a,b\n1\n")
    assert parses(folder, since({}, name)) == []
    with pytest.raises(Exception, match=r"rows of different lengths|section headers"):
        parse(name, "a,b\n1\n", folder)


def test_texts_that_take_time_hide_no_fault_of_smaller_ones(folder: Path) -> None:
    slow = [f"b{n}.html" for n in range(4)]
    for name in slow:
        put(folder, name, "<!" * 100_000)
    put(folder, "z.json", "{")
    found = parses(folder, since({}, *slow, "z.json"), seconds=1)
    assert "z.json" in [fault.path for fault in found]
