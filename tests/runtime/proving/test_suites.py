"""The test files that a run has touched, and what their runs count."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import put

from kernel.loop.hooks import FolderChanges
from runtime.proving.suites import counts, replaced_lines, touched_tests

PYTEST = "-m pytest -q -p no:cacheprovider"


def touched(folder: Path, *paths: str) -> str:
    for path in paths:
        if not (folder / path).exists():
            put(folder, path)
    return touched_tests(folder, FolderChanges([*paths, "main.py", "tests"]))


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"test_a.py": "a\nb\n"}, {"test_a.py": "a\nb\n  c\n"}, {}),
        ({"test_a.py": "a\nb\nb\n"}, {"test_a.py": "b\nc\n"}, {"test_a.py": 2}),
        ({"test_a.py": "a\n\nb\n"}, {"test_a.py": "", "test_b.py": "b\na\n"}, {}),
        ({"test_a.py": "a\n", "main.py": "x\n"}, {"main.py": ""}, {"test_a.py": 1}),
    ],
    ids=["added", "changed", "moved", "removed"],
)
def test_lines_of_earlier_tests_that_are_gone_are_counted(
    folder: Path, before: dict[str, str], now: dict[str, str], found: dict[str, int]
) -> None:
    for path, text in now.items():
        put(folder, path, text)
    changes = FolderChanges({*before, *now}, before=lambda path: before.get(path, ""))
    assert replaced_lines(folder, changes) == found


@pytest.mark.parametrize("kind", ["pipe", "link", "bytes", "folder"])
def test_lines_are_gone_where_no_text_is_read_now(folder: Path, kind: str) -> None:
    """A pipe would wait for ever, and a link may lead anywhere."""
    place = folder / "test_a.py"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        put(folder, "kept.txt", "a\nb\n")
        place.symlink_to("kept.txt")
    elif kind == "bytes":
        place.write_bytes(b"a\nb\n\0")
    else:
        place.mkdir()
    changes = FolderChanges({"test_a.py"}, before=lambda path: "a\nb\n")
    assert replaced_lines(folder, changes) == {"test_a.py": 2}


# ---- commands ---------------------------------------------------------------------------------------------


def test_python_tests_run_with_the_projects_interpreter(folder: Path) -> None:
    python = "python" if shutil.which("python") else "python3"
    paths = ("tests/test_b.py", "a_test.py", "tests/helper.py", "tests/data.json", "tests/conftest.py")
    assert touched(folder, *paths) == f"{python} {PYTEST} a_test.py tests/test_b.py"
    put(folder, ".venv/bin/python")
    put(folder, ".venv/lib/python3.11/site-packages/pytest/__init__.py")
    assert touched(folder, "test_a b.py") == f".venv/bin/python {PYTEST} 'test_a b.py'"


def test_unittest_runs_where_there_is_no_pytest(folder: Path) -> None:
    put(folder, "venv/bin/python")
    put(folder, "tests/test_a.py", "import unittest\n")
    assert touched(folder, "tests/test_a.py") == "venv/bin/python -m unittest tests/test_a.py"
    put(folder, "tests/test_b.py", "def test_b(): pass\n")
    assert touched(folder, "tests/test_b.py") == f"venv/bin/python {PYTEST} tests/test_b.py"


def test_scripts_run_with_the_runner_of_the_package(folder: Path) -> None:
    assert touched(folder, "a.test.js", "test/b.mjs") == "node --test a.test.js test/b.mjs"
    assert touched(folder, "a.test.ts") == "", "node reads no TypeScript"
    put(folder, "web app/package.json", '{"scripts": {"test": "vitest --watch"}}')
    path = "web app/src/a.spec.ts"
    assert touched(folder, path) == "(cd './web app' && npx --no-install vitest run src/a.spec.ts)"
    put(folder, "package.json", '{"scripts": {"test": "jest"}}')
    assert touched(folder, "src/__tests__/a.js") == "npx --no-install jest src/__tests__/a.js"
    put(folder, "package.json", "[]")
    assert touched(folder, "a.test.js") == "node --test a.test.js"


def test_go_runs_packages_and_cargo_runs_files(folder: Path) -> None:
    put(folder, "tool/go.mod")
    assert touched(folder, "tool/a_test.go", "tool/in/b_test.go") == "(cd ./tool && go test . ./in)"
    assert touched(folder, "tests/parse.rs", "tests/common/mod.rs") == "cargo test --offline --test parse"


def test_several_languages_run_one_after_the_other(folder: Path) -> None:
    assert touched(folder, "test_a.py", "b_test.go").endswith("test_a.py && go test .")


def test_without_a_touched_test_there_is_no_command(folder: Path) -> None:
    assert touched(folder, "src/code.py") == ""
    assert touched_tests(folder, FolderChanges(["test_removed.py"])) == ""


def test_the_command_runs(folder: Path) -> None:
    put(folder, "tests/test_a.py", "def test_a(): pass\ndef test_b(): assert 0\n")
    command = touched(folder, "tests/test_a.py").replace("python ", f"{sys.executable} ", 1)
    ran = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert counts(ran.stdout) == "1 passed, 1 failed"


# ---- counts -----------------------------------------------------------------------------------------------

PRINTED = {
    "== 1 failed, 12 passed, 2 skipped, 3 warnings in 0.12s ==": "12 passed, 1 failed, 2 skipped",
    "\x1b[32m\x1b[1m3 passed\x1b[0m\x1b[32m in 61.20s (0:01:01)\x1b[0m": "3 passed",
    "1 error in 0.1s": "1 error",
    "no tests ran in 0.01s": "",
    "Ran 3 tests in 0.001s\n\nOK": "3 passed",
    "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)": (
        "2 passed, 1 failed, 1 error, 1 skipped"
    ),
    "Ran 2 tests in 0.001s\n\nOK (expected failures=1)": "1 passed, 1 failed as expected",
    "Tests:       1 failed, 2 skipped, 12 passed, 15 total": "12 passed, 1 failed, 2 skipped",
    "      Tests  1 failed | 12 passed (13)": "12 passed, 1 failed",
    "  12 passing (30ms)\n  1 failing\n": "12 passed, 1 failed",
    "# tests 3\n# pass 2\n# fail 1\n# skipped 0\n": "2 passed, 1 failed",
    "ℹ pass 2\nℹ fail 0": "2 passed",
    "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n": "13 passed, 2 failed, 1 skipped",
    "--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n--- FAIL: TestB (0.00s)\n": (
        "1 passed, 1 failed"
    ),
    "ok  \texample/a\t0.1s\nFAIL\texample/b\t0.2s\nFAIL\n": "packages: 1 passed, 1 failed",
    "2 passed in 0.1s\n1 passed in 0.2s": "3 passed",
    "I think that 12 passed in the end": "",
    "": "",
}


@pytest.mark.parametrize(("output", "told"), PRINTED.items())
def test_counts_of_each_form_are_told(output: str, told: str) -> None:
    assert counts(f"some line\n{output}\n") == told


@given(
    st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(["pytest", "jest", "cargo", "unittest", "node"]),
)
def test_counts_are_read_as_they_were_written(passed: int, failed: int, form: str) -> None:
    output = {
        "pytest": f"{failed} failed, {passed} passed in 1.00s",
        "jest": f"Tests:  {failed} failed, {passed} passed, {failed + passed} total",
        "cargo": f"test result: FAILED. {passed} passed; {failed} failed; 0 ignored",
        "unittest": f"Ran {passed + failed} tests in 0.1s\n\nFAILED (failures={failed})",
        "node": f"# pass {passed}\n# fail {failed}",
    }[form]
    assert counts(output) == f"{passed} passed" + (f", {failed} failed" if failed else "")


@given(st.text(alphabet="0123456789 passedfailRan\n|,;=-()#", max_size=200))
def test_any_output_has_counts_or_none(output: str) -> None:
    assert isinstance(counts(output), str)
