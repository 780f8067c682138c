"""What the kernel finds out by itself: the folder before and after, and which criteria hold."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import OperationFailed
from kernel.evidence import (
    Change,
    Entry,
    Snapshot,
    Verdict,
    changes,
    check_criterion,
    describe,
    reason,
    search,
)
from kernel.operations import OperationContext
from kernel.sandbox import Sandbox

BOXED = Sandbox("auto")
WHY = BOXED.available()
boxed = pytest.mark.skipif(WHY is not None, reason=f"no sandbox here: {WHY}")
Check = Callable[..., Verdict]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "folder"
    inside.mkdir()
    return inside


@pytest.fixture
def check(folder: Path) -> Check:
    """Check a criterion over the folder, without a sandbox unless one is given."""

    def check(
        criterion: Mapping[str, Any],
        results: Mapping[int, str] | None = None,
        first: Snapshot | None = None,
        **context: Any,
    ) -> Verdict:
        ctx = replace(OperationContext(folder, Sandbox("off"), timeout=20), **context)
        return asyncio.run(check_criterion(criterion, ctx, (results or {}).get, first))

    return check


def put(folder: Path, name: str, content: str | bytes = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ---- snapshots --------------------------------------------------------------------------------------------


def test_a_snapshot_holds_files_with_size_time_and_hash_and_texts_when_asked(folder: Path) -> None:
    put(folder, "a.txt", "one\n")
    put(folder, "b/c.bin", b"\0\1")
    put(folder, "b/big.txt", "x" * 40_000)
    put(folder, ".env", "KEY=1")
    plain, full = Snapshot.take(folder), Snapshot.take(folder, texts=True)
    assert list(full.files) == [".env", "a.txt", "b/big.txt", "b/c.bin"]
    assert {name: entry.text for name, entry in full.files.items()} == {
        ".env": None,
        "a.txt": "one\n",
        "b/big.txt": None,
        "b/c.bin": None,
    }
    assert all(entry.text is None for entry in plain.files.values())
    assert plain.files["a.txt"] == replace(full.files["a.txt"], text=None)
    assert full.files["a.txt"].size == 4
    assert full.files["a.txt"].mtime_ns == (folder / "a.txt").stat().st_mtime_ns
    assert len(full.files["b/big.txt"].digest) == 16


def test_histories_caches_and_protected_paths_are_left_out(folder: Path) -> None:
    for name in (".git/HEAD", "sub/.git", "__pycache__/x", "a/node_modules/x", ".venv/x", "state/x", "own/x"):
        put(folder, name)
    put(folder, "a/state/x")
    taken = Snapshot.take(folder, [folder / "state", folder / "own"])
    assert list(taken.files) == ["a/state/x"]


def test_links_pipes_and_loops_neither_block_nor_lead_outside(folder: Path, tmp_path: Path) -> None:
    put(tmp_path, "out/secret.txt", "secret")
    (folder / "out").symlink_to(tmp_path / "out")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    taken = Snapshot.take(folder, texts=True)
    assert list(taken.files) == ["loop", "out", "pipe"]
    assert "secret" not in json.dumps(taken.to_json())
    (folder / "out").unlink()
    (folder / "out").symlink_to("/etc")
    assert [change.path for change in changes(taken, Snapshot.take(folder))] == ["out"]


def test_the_texts_of_many_files_stay_within_a_megabyte(folder: Path) -> None:
    for number in range(60):
        put(folder, f"{number:02}.txt", "x" * 30_000)
    texts = [entry.text or "" for entry in Snapshot.take(folder, texts=True).files.values()]
    assert 900_000 < sum(map(len, texts)) <= 1_000_000


def test_a_snapshot_that_was_cut_says_so_and_invents_no_change(folder: Path) -> None:
    for number in range(10):
        put(folder, f"d{number}/x")
    before = Snapshot.take(folder, limit=5)
    assert before.cut == "only the first 5 files were looked at"
    put(folder, "d0/new")
    after = Snapshot.take(folder, limit=5)
    assert [(change.kind, change.path) for change in changes(before, after)] == [("new", "d0/new")]
    assert [(change.kind, change.path) for change in changes(after, before)] == [("removed", "d0/new")]


entries = st.builds(
    Entry, st.integers(0), st.integers(), st.text("0123456789abcdef", max_size=16), st.none() | st.text()
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff"), min_size=1)


@given(st.dictionaries(NAMES, entries), st.text())
def test_a_snapshot_survives_json(files: dict[str, Entry], cut: str) -> None:
    taken = Snapshot(files, cut)
    assert Snapshot.from_json(json.loads(json.dumps(taken.to_json()))) == taken


def test_names_that_are_no_utf8_survive_json(folder: Path) -> None:
    Path(os.fsdecode(bytes(folder) + b"/\xff\xfe.txt")).write_text("x")
    taken = Snapshot.take(folder, texts=True)
    assert Snapshot.from_json(json.loads(json.dumps(taken.to_json()))) == taken


# ---- changes ----------------------------------------------------------------------------------------------


def test_new_changed_and_removed_files_are_told_with_a_diff(folder: Path) -> None:
    put(folder, "changed.txt", "one\ntwo\nthree\nfour\n")
    put(folder, "removed.txt", "gone\n")
    put(folder, "same.txt", "same\n")
    before = Snapshot.take(folder, texts=True)
    put(folder, "changed.txt", "one\ntwo\n3\nfour\n")
    (folder / "removed.txt").unlink()
    put(folder, "new.txt", "a\nb\n")
    assert changes(before, Snapshot.take(folder, texts=True)) == (
        Change("changed", "changed.txt", 15, 19, "@@ -2,3 +2,3 @@\n two\n-three\n+3\n four"),
        Change("new", "new.txt", 4, 0, "@@ -0,0 +1,2 @@\n+a\n+b"),
        Change("removed", "removed.txt", 0, 5, "@@ -1 +0,0 @@\n-gone"),
    )


def test_a_file_that_was_only_touched_is_no_change_and_a_forged_time_hides_none(folder: Path) -> None:
    touched, forged = put(folder, "touched", "1"), put(folder, "forged", "1")
    before = Snapshot.take(folder)
    os.utime(touched, ns=(1, 1))
    stamp = forged.stat()
    forged.write_text("2")
    os.utime(forged, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert [change.path for change in changes(before, Snapshot.take(folder))] == ["forged"]


def test_a_change_of_the_last_line_break_alone_is_told(folder: Path) -> None:
    put(folder, "a", "x\n")
    before = Snapshot.take(folder, texts=True)
    put(folder, "a", "x")
    (change,) = changes(before, Snapshot.take(folder, texts=True))
    assert change.diff == "(only the line break at the end differs)"


def test_a_long_diff_keeps_its_head_and_names_what_was_cut(folder: Path) -> None:
    before = Snapshot.take(folder, texts=True)
    put(folder, "a", "".join(f"{number:04}\n" for number in range(2_000)))
    (change,) = changes(before, Snapshot.take(folder, texts=True))
    head, _, rest = change.diff.partition("\n[… ")
    assert len(change.diff) <= 4_000
    assert head.startswith("@@ -0,0 +1,2000 @@\n+0000\n")
    assert rest.split()[1:3] == ["characters", "cut;"]
    assert rest.endswith("+1999")
    assert len(head) > 1.9 * len(rest.partition(" …]\n")[2])


@pytest.mark.parametrize("lines", [("a\n", "b\n"), ("\n", "x\n"), ("a\nb\n", "b\na\n")])
def test_a_diff_takes_no_long_time_whatever_the_text(folder: Path, lines: tuple[str, str]) -> None:
    one, two = ((line * 20_000)[:32_000] for line in lines)
    put(folder, "a", one)
    before = Snapshot.take(folder, texts=True)
    put(folder, "a", two + "end")
    began = time.perf_counter()
    assert len(changes(before, Snapshot.take(folder, texts=True))) == 1
    assert time.perf_counter() - began < 3


def test_a_diff_shows_neither_secrets_nor_terminal_escapes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tell-nobody-this")
    before = Snapshot.take(folder, texts=True)
    put(folder, "a", "x=tell-nobody-this\x1b[2J\n")
    (change,) = changes(before, Snapshot.take(folder, texts=True))
    assert change.diff.endswith("+x=[redacted SOME_TOKEN]␛[2J")


# ---- criteria ---------------------------------------------------------------------------------------------


def test_a_command_holds_when_it_exits_with_zero(check: Check) -> None:
    assert check({"run": "echo fine"}) == Verdict(True, "exit 0, without a sandbox: fine")
    assert check({"run": "echo bad >&2; exit 2"}) == Verdict(False, "exit 2, without a sandbox: bad")
    assert check({"run": "true"}).note == "exit 0, without a sandbox"


@boxed
def test_a_command_runs_read_only(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "as it was")
    verdict = check({"run": "echo x > a.txt"}, sandbox=BOXED)
    assert verdict.passed is False
    assert "Read-only file system" in verdict.note
    assert check({"run": "grep -q was a.txt && echo t > /tmp/t"}, sandbox=BOXED) == Verdict(True, "exit 0")
    assert (folder / "a.txt").read_text() == "as it was"


def test_of_a_failing_command_the_end_of_its_output_is_told(check: Check) -> None:
    note = check({"run": "seq 1 2000; echo decisive; exit 1"}).note
    assert note.endswith("2000\ndecisive")
    assert "characters cut" in note
    assert len(note) < 560


def test_a_command_that_takes_too_long_does_not_hold(check: Check) -> None:
    verdict = check({"run": "echo begun; sleep 69.07"}, timeout=0.5)
    assert verdict == Verdict(False, "stopped after 0.5 s, without a sandbox: begun")


def test_without_a_sandbox_that_works_a_command_is_not_decided(
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
def test_files_and_results_are_looked_at(
    check: Check, folder: Path, criterion: dict[str, Any], passed: bool | None, note: str
) -> None:
    put(folder, "a.txt", "one\ntwo\n\n")
    put(folder, "empty")
    put(folder, "sub/x")
    (folder / "bare").mkdir()
    os.mkfifo(folder / "pipe")
    assert check(criterion, {1: "I saw 12 files."}) == Verdict(passed, note)


def test_what_is_outside_wrong_or_unknown_does_not_hold(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "x")
    for criterion, why in [
        ({"file": "../x"}, "outside the folder"),
        ({"same": "/etc"}, "outside the folder"),
        ({"file": "a.txt", "has": "("}, "is not a regular expression"),
        ({"wish": "luck"}, "none of run, file, step, same, judge"),
    ]:
        verdict = check(criterion, first=Snapshot())
        assert verdict.passed is False
        assert why in verdict.note


def test_a_pattern_that_would_take_for_ever_is_given_up(check: Check, folder: Path) -> None:
    put(folder, "a.txt", "a" * 5_000 + "b")
    began = time.perf_counter()
    verdict = check({"file": "a.txt", "has": "^(a+)+$"})
    assert time.perf_counter() - began < 12
    assert verdict.passed is False
    assert "took longer than 5 s; use a simpler pattern" in verdict.note


async def test_others_go_on_while_a_pattern_is_searched() -> None:
    slow = asyncio.create_task(search("^(a+)+$", "a" * 5_000 + "b"))
    began = time.perf_counter()
    assert await search("x|y", "y") == "y"
    assert time.perf_counter() - began < 4
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


@pytest.mark.parametrize("text", ["", "ü🌳", "\x00\ud800x", "line\r\n\u2028"])
async def test_any_text_can_be_searched(text: str) -> None:
    assert await search("(?s).*", text) == text
    assert await search("nowhere.", text) is None


async def test_a_pattern_nested_too_deep_is_refused() -> None:
    with pytest.raises(OperationFailed, match="not a regular expression"):
        await search("(" * 499 + ")" * 500, "x")


def test_what_stayed_the_same_is_told_by_its_content(check: Check, folder: Path) -> None:
    for name in ("tests/a.py", "tests/deep/b.py", "tests-other.txt", "single.txt"):
        put(folder, name, "1")
    first = Snapshot.take(folder)
    os.utime(folder / "tests/a.py", ns=(1, 1))
    put(folder, "tests-other.txt", "2")
    put(folder, "tests/__pycache__/a.pyc")
    assert check({"same": "tests"}, first=first) == Verdict(True, "2 files unchanged")
    assert check({"same": "./tests/"}, first=first) == Verdict(True, "2 files unchanged")
    assert check({"same": "single.txt"}, first=first) == Verdict(True, "1 file unchanged")
    assert check({"same": "."}, first=first) == Verdict(False, "changed: tests-other.txt")
    put(folder, "tests/new.py")
    put(folder, "tests/a.py", "2")
    (folder / "tests/deep/b.py").unlink()
    verdict = check({"same": "tests"}, first=first)
    assert verdict == Verdict(False, "changed: tests/a.py, tests/deep/b.py, tests/new.py")
    assert check({"same": "missing"}, first=first).passed is False


def test_what_a_cut_snapshot_did_not_reach_is_not_decided(check: Check, folder: Path) -> None:
    for number in range(6):
        put(folder, f"{number}/x")
    first = Snapshot.take(folder, limit=3)
    assert check({"same": "0"}, first=first).passed is True
    for path in ("2", "5", "."):
        assert check({"same": path}, first=first) == Verdict(
            None, "not known: only the first 3 files were looked at"
        )


def test_where_no_step_could_change_anything_all_is_the_same(check: Check) -> None:
    assert check({"same": "tests"}).passed is True


@pytest.mark.parametrize(
    ("criterion", "line"),
    [
        ({"run": "pytest -q\n  tests"}, "run pytest -q tests"),
        ({"file": "a.txt"}, "file a.txt"),
        ({"file": "a.txt", "has": "x+"}, "file a.txt has /x+/"),
        ({"step": 2, "has": "ok"}, "step 2 has /ok/"),
        ({"same": "tests/"}, "same tests/"),
        ({"judge": "is it\x1b[2J clear?"}, "judge is it␛[2J clear?"),
        ({"wish": "luck"}, '{"wish": "luck"}'),
    ],
)
def test_a_criterion_is_described_in_one_line(criterion: dict[str, Any], line: str) -> None:
    assert describe(criterion) == line


def test_a_long_criterion_is_described_within_two_hundred_characters() -> None:
    line = describe({"run": "x" * 5_000})
    assert len(line) <= 200
    assert line.startswith("run xxx")


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
def test_the_reason_of_a_failed_step_is_a_line_that_tells_something(result: str, says: str) -> None:
    assert reason(result) == says


@pytest.mark.parametrize("pattern", ["(a|a)*b", "a?" * 25 + "a" * 25 + "b", "(a|ab|b)*c", "((a)?)*b"])
async def test_a_pattern_of_few_signs_that_takes_for_ever_is_given_up_too(pattern: str) -> None:
    began = time.monotonic()
    with suppress(OperationFailed):
        await search(pattern, "a" * 60)
    assert time.monotonic() - began < 8
