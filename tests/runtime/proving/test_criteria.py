"""Success criteria: which hold, and what the evidence says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lanes import within
from playing import boxed, put

from kernel.document.texts import reason
from kernel.errors import OperationFailed
from kernel.loop.hooks import FolderChanges
from runtime.proving.criteria import CriterionResult, check_criterion
from runtime.proving.suites import counts
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.text.searching import search

BOXED = Sandbox("auto")
Check = Callable[..., CriterionResult]


@pytest.fixture
def check(folder: Path) -> Check:
    """Check a criterion over the folder, without a sandbox unless one is given."""

    def check(
        criterion: Mapping[str, Any],
        results: Mapping[int, str] | None = None,
        since: FolderChanges | None = None,
        **context: Any,
    ) -> CriterionResult:
        ctx = replace(OperationContext(folder, Sandbox("off"), timeout=20), **context)
        return asyncio.run(check_criterion(criterion, ctx, (results or {}).get, since, {}))

    return check


# ---- criteria ---------------------------------------------------------------------------------------------


def test_command_passes_with_exit_code_zero(check: Check) -> None:
    assert check({"run": "echo fine"}) == CriterionResult(True, "exit 0, without a sandbox: fine")
    assert check({"run": "echo bad >&2; exit 2"}) == CriterionResult(False, "exit 2, without a sandbox: bad")
    assert check({"run": "true"}).note == "exit 0, without a sandbox"


def test_command_of_a_pipe_passes_only_if_each_program_does(check: Check) -> None:
    assert check({"run": "yes | grep -q y"}).passed
    assert check({"run": "(echo passed; exit 1) | grep passed"}).passed is False
    assert check({"run": "yes | head -1 && false"}).passed is False


def test_command_of_evidence_has_no_colours(check: Check) -> None:
    assert check({"run": r"printf '\033[32mgreen\033[0m'"}).note.endswith(": green")


@boxed
def test_command_runs_read_only(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "as it was")
    verdict = check({"run": "echo x > a.txt"}, sandbox=BOXED)
    assert verdict.passed is False
    assert "Read-only file system" in verdict.note
    assert check({"run": "grep -q was a.txt && echo t > /tmp/t"}, sandbox=BOXED) == CriterionResult(
        True, "exit 0"
    )
    assert (folder / "a.txt").read_text() == "as it was"


def test_evidence_has_the_end_of_a_failing_command(check: Check) -> None:
    note = check({"run": "seq 1 2000; echo decisive; exit 1"}).note
    assert note.endswith("2000\ndecisive")
    assert "characters cut" in note
    assert len(note) < 2_560
    assert len(check({"run": "seq 1 2000; echo decisive"}).note) < 310


WARNED = "...\n=== warnings summary ===\n" + "a.py:1: UserWarning: old\n" * 40


@pytest.mark.parametrize(
    "line",
    [
        *("3 passed, 40 warnings in 0.03s", "=== 3 passed in 0.03s ===", "Tests:       3 passed, 3 total"),
        *("  3 passing (2ms)", "# pass 3", "test result: ok. 3 passed; 0 failed; 0 ignored"),
    ],
)
@pytest.mark.parametrize("form", ["{warned}{line}", "{line}\n{warned}"])
def test_evidence_of_a_long_test_run_is_the_line_that_counts(
    check: Check, folder: Path, form: str, line: str
) -> None:
    put(folder, "printed.txt", "first\n" + form.format(warned=WARNED, line=line))
    note = check({"run": "cat printed.txt"}).note
    assert note.endswith(f"sandbox: […]\n{line}")
    assert counts(note) == "3 passed"


def test_evidence_of_several_long_test_runs_has_a_line_of_each(check: Check, folder: Path) -> None:
    put(folder, "printed.txt", f"{WARNED}1 passed in 0.1s\n{WARNED}2 passed in 0.1s\n")
    assert counts(check({"run": "cat printed.txt"}).note) == "3 passed"


def test_evidence_of_a_long_test_run_that_failed_has_the_line_that_counts_too(
    check: Check, folder: Path
) -> None:
    put(
        folder,
        "printed.txt",
        "Ran 12 tests in 0.2s\n\nFAILED (errors=1)\n" + "a.py:1: UserWarning: old\n" * 400,
    )
    note = check({"run": "cat printed.txt; echo the end; exit 1"}).note
    assert "Ran 12 tests in 0.2s\n" in note
    assert note.endswith("UserWarning: old\nthe end")
    assert len(note) < 2_600


def test_command_that_times_out_fails(check: Check) -> None:
    verdict = check({"run": "echo begun; sleep 69.07"}, timeout=0.5)
    assert verdict == CriterionResult(False, "stopped after 0.5 s, without a sandbox: begun")


def test_command_is_undecided_without_a_working_sandbox(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    verdict = check({"run": "true"}, sandbox=Sandbox("auto"))
    assert verdict.passed is None
    assert "bubblewrap is not installed" in verdict.note


@pytest.mark.parametrize(
    ("criterion", "passed", "note"),
    [
        ({"file": "a.txt"}, True, "9 bytes"),
        ({"file": "empty"}, False, "empty"),
        ({"file": "missing"}, False, "missing"),
        ({"file": "sub"}, True, "a folder"),
        ({"file": "bare"}, False, "an empty folder"),
        ({"file": "sub", "has": "x"}, False, "a folder, which has no text"),
        ({"file": "pipe"}, False, "not an ordinary file"),
        ({"file": "a.txt", "has": "two"}, True, "9 bytes, matched 'two'"),
        ({"file": "a.txt", "has": "^t.o$"}, True, "9 bytes, matched 'two'"),
        ({"file": "a.txt", "has": "^four"}, False, "9 bytes, no match"),
        ({"file": "a.txt", "has": "x" * 1_001}, False, "9 bytes, the pattern is longer than 1000 characters"),
        ({"file": "a.txt", "has": "{{name}}"}, False, "9 bytes, no match"),
        ({"step": 1, "has": r"\d+ files"}, True, "matched '12 files'"),
        ({"step": 1, "has": "13 files"}, False, "no match"),
        ({"step": 2, "has": "x"}, False, "step 2 has no result"),
        ({"step": "two", "has": "x"}, False, "step two has no result"),
        ({"step": 1}, True, "15 characters"),
        ({"judge": "is it pretty?"}, None, "yours to judge"),
    ],
)
def test_file_and_result_criteria(
    check: Check, folder: Path, criterion: dict[str, Any], passed: bool | None, note: str
) -> None:
    put(folder, "a.txt", "one\ntwo\n\n")
    put(folder, "empty")
    put(folder, "sub/x")
    (folder / "bare").mkdir()
    os.mkfifo(folder / "pipe")
    assert check(criterion, {1: "I saw 12 files."}) == CriterionResult(passed, note)


def test_invalid_criteria_fail(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "x")
    for criterion, why in [
        ({"file": "../x"}, "outside the folder"),
        ({"same": "/etc"}, "outside the folder"),
        ({"file": "a.txt", "has": "("}, "is not a regular expression"),
        ({"wish": "luck"}, "none of run, file, step, same, judge"),
    ]:
        verdict = check(criterion, since=FolderChanges())
        assert verdict.passed is False
        assert why in verdict.note


@pytest.mark.night
def test_slow_pattern_is_given_up(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "a" * 5_000 + "b")
    with within(12):
        verdict = check({"file": "a.txt", "has": "^(a+)+$"})
    assert verdict.passed is False
    assert "took longer than 5 s; use a simpler pattern" in verdict.note


async def test_slow_pattern_does_not_block_other_searches() -> None:
    slow = asyncio.create_task(search("^(a+)+$", "a" * 5_000 + "b"))
    with within(4):
        assert await search("x|y", "y") == "y"
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


@pytest.mark.parametrize("text", ["", "ü🌳", "\x00\ud800x", "line\r\n\u2028"])
async def test_any_text_can_be_searched_by_a_pattern(text: str) -> None:
    assert await search("(?s).*", text) == text
    assert await search("nowhere.", text) is None


async def test_pattern_nested_too_deep_is_refused() -> None:
    with pytest.raises(OperationFailed, match="not a regular expression"):
        await search("(" * 499 + ")" * 500, "x")


def test_same_compares_contents(check: Check, folder: Path) -> None:

    there = ["tests/a.py", "tests/deep/b.py", "tests-other.txt", "single.txt"]
    since = FolderChanges(["tests-other.txt"], lambda: there)
    assert check({"same": "tests"}, since=since) == CriterionResult(True, "2 files unchanged")
    assert check({"same": "./tests/"}, since=since) == CriterionResult(True, "2 files unchanged")
    assert check({"same": "single.txt"}, since=since) == CriterionResult(True, "1 file unchanged")
    assert check({"same": "."}, since=since) == CriterionResult(False, "changed: tests-other.txt")
    since = FolderChanges(["tests/a.py", "tests/new.py"], lambda: there)
    assert check({"same": "tests"}, since=since) == CriterionResult(
        False, "changed: tests/a.py, tests/new.py"
    )
    assert check({"same": "missing"}, since=since).passed is False


def test_unknown_changes_are_undecided(check: Check) -> None:
    since = FolderChanges(unknown="the folder is too large")
    assert check({"same": "a"}, since=since) == CriterionResult(None, "not known: the folder is too large")


def test_same_passes_where_no_step_may_write(check: Check) -> None:
    assert check({"same": "tests"}).passed is True


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("a.txt: there is no such file\nuse list", "a.txt: there is no such file"),
        (
            "Traceback (most recent call last):\n  File \"x.py\"\nKeyError: 'date'\n[exit 1]",
            "KeyError: 'date' [exit 1]",
        ),
        ("1 passed\n1 failed\n\n[stopped after 5 s]\n[exit 143]", "1 failed [stopped after 5 s] [exit 143]"),
        ("[exit 1]", "[exit 1]"),
        ("", ""),
    ],
)
def test_reason_of_a_failed_step_is_an_informative_line(result: str, says: str) -> None:
    assert reason(result) == says


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["(a|a)*b", "a?" * 25 + "a" * 25 + "b", "(a|ab|b)*c", "((a)?)*b"])
async def test_short_slow_patterns_are_given_up(pattern: str) -> None:
    with within(8), suppress(OperationFailed):
        await search(pattern, "a" * 60)
