"""Definitions of source files in the languages that have a grammar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from runtime.understanding import gather
from runtime.understanding.names import named
from runtime.understanding.source import Source

SAMPLES = {
    "a.py": (
        "@made\nclass A:\n    x = 1\n\n    def m(self): ...\n\n\nLIMIT = 3\n",
        "A:1-5 A.x:3-3 A.m:5-5 LIMIT:8-8",
    ),
    "a.pyi": ("def f() -> None: ...\n", "f:1-1"),
    "a.js": ("const f = (a) => {\n  return a\n}\nexports.g = function () {}\n", "f:1-3 g:4-4"),
    "a.ts": (
        "export class A<T> {\n  m(x: T) {}\n}\ninterface I { z(): void }\n",
        "A:1-3 A.m:2-2 I:4-4 I.z:4-4",
    ),
    "a.tsx": ("export function F() {\n  return <b>x</b>\n}\n", "F:1-3"),
    "a.go": (
        "package a\n\n// Runs.\nfunc (r *Foo) Bar() {\n}\n\ntype Foo struct {\n}\n",
        "Foo.Bar:3-5 Foo:7-8",
    ),
    "a.rs": (
        "/// Doc.\nstruct Foo<T>(T);\nimpl<T> Foo<T> {\n    fn bar() {}\n}\n",
        "Foo:1-2 Foo:3-5 Foo.bar:4-4",
    ),
    "A.java": ("class A {\n  @Override\n  int m() {\n    return 1;\n  }\n}\n", "A:1-6 A.m:2-5"),
    "a.c": ("#define M 3\nstatic int *f(struct s *x)\n{\n  return 0;\n}\n", "M:1-1 f:2-5"),
    "a.cpp": ("class A {\n  int m();\n};\nint A::m() {\n  return 1;\n}\n", "A:1-3 A.m:4-6"),
    "a.rb": ("module M\n  class A\n    def m(x)\n      x\n    end\n  end\nend\n", "M:1-7 M.A:2-6 M.A.m:3-5"),
    "a.php": ("<?php\nclass A {\n  function m() {}\n}\nfunction f() {}\n", "A:2-4 A.m:3-3 f:5-5"),
    "a.cs": ("class A {\n  public int M() {\n    return 1;\n  }\n}\n", "A:1-5 A.M:2-4"),
    "a.sh": ("f() {\n  echo\n}\n", "f:1-3"),
    "b.py": ("\ufeffdef größe():\n    return 'ä'\n", "größe:1-2"),
    "b.sh": ("f() {\n  echo ä\U0010ffff\n}\n", "f:1-3"),
    "a.txt": ("class A:\n    x = 1\n", ""),
}


@pytest.mark.parametrize("path", SAMPLES)
def test_definitions_have_their_class_and_lines_in_each_language(path: str) -> None:
    text, wanted = SAMPLES[path]
    found = Source(path, text.encode()).definitions
    assert " ".join(f"{each.full}:{each.first}-{each.last}" for each in found) == wanted


def test_tests_of_javascript_are_found_by_their_title(tmp_path: Path) -> None:
    (tmp_path / "sum.js").write_text("export function addAll(list) {\n  return list.length\n}\n")
    tests = "describe('sums', () => {\n  it('adds', () => {\n    addAll([1])\n  })\n})\nit('is', f)\n"
    (tmp_path / "sum.test.js").write_text(tests)
    shown = gather(tmp_path, "`addAll` is wrong", characters=9_000).shown
    assert [each.name for each in shown] == ["sum.js:1-3 addAll", "sum.test.js:2-4 sums.it adds"]


def test_nothing_heavy_is_imported_before_a_folder_is_read() -> None:
    code = (
        "import sys, runtime.understanding; "
        "print([each for each in sys.modules if each.startswith(('tree_sitter', 'pathspec', 'sqlite3'))])"
    )
    root = Path(__file__).parents[3]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


@given(st.text() | st.lists(st.sampled_from("`'\"()[].:-/\\_ \n#>aAb1")).map("".join))
def test_any_text_is_a_task(text: str) -> None:
    read = named(text)
    assert all(name for name in read.names)
    assert all(line >= 0 for _, line in read.frames)


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(["a.py", "a.md", "a.csv", "a.js"]),
    lines=st.lists(
        st.sampled_from(["def some_name():", "class SomeName:", "    pass", "", "# x", "ä\tb\r", "(", '"""'])
    ),
    characters=st.integers(0, 400),
)
def test_what_is_shown_are_lines_of_the_file_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, name: str, lines: list[str], characters: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / name).write_bytes("\n".join(lines).encode())
    shown = gather(folder, f"some_name(), SomeName in {name}", characters=characters).shown
    assert sum(len(each.text) for each in shown) <= characters
    for row in [row for each in shown for row in each.text.split("\n") if not row.startswith("(")]:
        number, _, text = row.partition("\t")
        assert ["", *lines][int(number)] == text if lines else text == ""
