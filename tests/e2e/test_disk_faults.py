"""A full disk, unwritable folders and files: a clear error, nothing lost, resumable."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT, PATIENCE
from processes import (
    TASK,
    document,
    fractal,
    inner_asked,
    outcome_of,
    root_of,
    run_folder,
    running,
    runs,
    script,
    stopped_in_child,
    until,
    waiting_for_answer,
)

from kernel.errors import Exit

ROOT = os.geteuid() == 0
LEFT = (2, 3, 5, 8, 9, 11, 13) if NIGHT else (2, 5, 9, 13)
"""Free pages at the start of a run on a disk that fills up."""
NO_SPACE, READ_ONLY = os.strerror(errno.ENOSPC), os.strerror(errno.EROFS if ROOT else errno.EACCES)


def _mount(*words: str) -> None:
    tried = subprocess.run(["mount", *words], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"mounting is not permitted here, so this fault cannot be made: {tried.stderr.strip()}")


@contextmanager
def small_disk(folder: Path, size: str = "400k") -> Generator[None]:
    """Mount a disk of this size at the folder."""
    if not ROOT:
        pytest.skip("a disk can only be mounted by root; see the test that takes a namespace of its own")
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(path: Path) -> Generator[None]:
    """Make a path read-only: by a mount for root, who ignores modes, else by its mode."""
    mode = path.stat().st_mode
    if ROOT:
        _mount("--bind", str(path), str(path))
        _mount("-o", "remount,ro,bind", str(path))
    else:
        path.chmod(mode & 0o555)
    try:
        yield
    finally:
        if ROOT:
            subprocess.run(["umount", "-l", str(path)], check=True)
        else:
            path.chmod(mode)


def fill(folder: Path, leave: int = 0) -> Path:
    """Fill a disk except for this many pages. Removing the file makes room."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            file.truncate(max(0, file.tell() - 4096 * leave))
    return filler


def paid(folder: Path) -> Counter[str]:
    """How often each ask got a reply."""
    lines = (run_folder(folder) / "calls.jsonl").read_text().splitlines()
    return Counter(record["key"] for record in map(json.loads, lines) if record["kind"] == "replied")


def _without_operations(left: dict[str, Any]) -> dict[str, Any]:
    """Drop operations and results: a recovered operation has another text than a recorded one."""
    kept = {name: each for name, each in left.items() if not name.startswith("op-")}
    for name, each in kept.items():
        if isinstance(each, tuple):
            status, steps, result = each
            kept[name] = (status, {n: (state, tool) for n, (state, tool, _) in steps.items()}, result)
    return kept


def assert_resumes(folder: Path, model: str, expected: dict[str, Any]) -> None:
    """Resume: the run ends as without faults, and no reply is paid twice."""
    again = fractal(folder, "resume", "--model", model)
    assert (again.returncode, again.stdout) == (Exit.ACCEPTED, "all done\n"), again.stderr
    assert _without_operations(outcome_of(folder)) == _without_operations(expected)
    assert set(paid(folder).values()) == {1}


# ---- a full disk -----------------------------------------------------------------------------------------


@pytest.mark.skipif(ROOT or not shutil.which("unshare"), reason="root mounts as it is")
def test_mount_tests_run_in_their_own_namespace() -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no user namespaces")
    words = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-k", "disk_full", __file__]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


def test_disk_full_at_the_start_leaves_nothing_behind(tmp_path: Path, model: str) -> None:
    work = tmp_path / "work"
    with small_disk(work / ".fractal" / "state"):
        filler = fill(work / ".fractal" / "state")
        ran = fractal(work, "run", "--model", model, TASK)
        assert ran.returncode == Exit.CONFIGURATION
        assert NO_SPACE in ran.stderr and "free space" in ran.stderr and str(runs(work)) in ran.stderr
        assert "resume" not in ran.stderr  # no run to resume
        assert not list(runs(work).iterdir())
        filler.unlink()
        assert fractal(work, "run", "--model", model, TASK).returncode == Exit.ACCEPTED


def test_disk_full_during_a_run_loses_nothing(tmp_path: Path, model: str, expected: dict[str, Any]) -> None:
    full: list[str] = []
    for leave in LEFT:
        work = tmp_path / f"work-{leave}"
        with small_disk(work / ".fractal" / "state"):
            filler = fill(work / ".fractal" / "state", leave)
            ran = fractal(work, "run", "--model", model, TASK)
            assert ran.returncode == Exit.CONFIGURATION, ran.stderr
            assert NO_SPACE in ran.stderr and "continue with" in ran.stderr
            full.append(ran.stderr.partition(": cannot be written")[0].rpartition("/")[2].split("-")[0])
            filler.unlink()
            assert_resumes(work, model, expected)
    # Which files fail depends on their sizes, so on the length of the folder's name.
    assert len(full) == len(LEFT) and len(set(full)) >= 2, full


def test_disk_full_while_a_reply_is_logged(tmp_path: Path, model: str, expected: dict[str, Any]) -> None:
    work = tmp_path / "work"
    slow = script(tmp_path / "slow.json", slow="inner plan", seconds=0.5)
    entries = json.loads(slow.read_text())
    entries[2]["reply"]["approach"] += "; at length" * 1000  # more than the rest of the current page
    slow.write_text(json.dumps(entries))
    with small_disk(work / ".fractal" / "state"):
        with running(work, "run", "--model", f"scripted:{slow}", TASK) as process:
            until(lambda: inner_asked(work))
            filler = fill(work / ".fractal" / "state")
            _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == Exit.CONFIGURATION
        assert f"calls.jsonl: cannot be written: {NO_SPACE}" in stderr and "internal error" not in stderr
        filler.unlink()
        assert_resumes(work, model, expected)


def test_disk_full_in_the_work_folder_fails_only_the_step(tmp_path: Path) -> None:
    work = tmp_path / "work"
    big = [{"tool": "write", "args": {"path": "disk/a.txt", "content": "x" * 6000}}]
    model = f"scripted:{script(tmp_path / 'model.json', outer=big)}"
    with small_disk(work / "disk"):
        (work / "disk" / "a.txt").write_text("as it was")
        filler = fill(work / "disk")
        ran = fractal(work, "run", "--model", model, TASK)
        assert ran.returncode in (Exit.ACCEPTED, Exit.FAILED), ran.stderr
        step = root_of(work).steps[1]
        assert step.state == "failed"
        assert NO_SPACE in str(step.result) and "nothing was changed" in str(step.result)
        assert (work / "disk" / "a.txt").read_text() == "as it was"
        assert sorted(each.name for each in (work / "disk").iterdir()) == ["a.txt", filler.name]


# ---- read-only paths ------------------------------------------------------------------------------------


def test_unwritable_state_folder(tmp_path: Path, model: str) -> None:
    work = tmp_path / "work"
    (work / ".fractal" / "state").mkdir(parents=True)
    # a run repairs the mode of state/ when it starts
    for place in (".fractal/state", ".fractal/state/runs") if ROOT else (".fractal/state/runs",):
        (work / place).mkdir(parents=True, exist_ok=True)
        with read_only(work / place):
            ran = fractal(work, "run", "--model", model, TASK)
        assert ran.returncode == Exit.CONFIGURATION
        assert READ_ONLY in ran.stderr and str(work / ".fractal" / "state") in ran.stderr
        assert not (work / "a.txt").exists()
    assert fractal(work, "run", "--model", model, TASK).returncode == Exit.ACCEPTED


@pytest.mark.parametrize("name", ["calls.jsonl", "artifacts", "lock", "tool-task-*.md", "."])
def test_unwritable_part_of_a_run(tmp_path: Path, model: str, expected: dict[str, Any], name: str) -> None:
    work = tmp_path / "work"
    folder = stopped_in_child(work, "inner plan")
    shutil.rmtree(folder / "artifacts")
    (folder / "artifacts").mkdir()
    (path,) = folder.glob(name) if name != "." else [folder]
    before = {each: each.read_bytes() for each in folder.glob("*.md")}
    with read_only(path):
        ran = fractal(work, "resume", "--model", model)
        if name == "lock" and not ROOT:
            return  # the owner may still write it
        if name == "tool-task-*.md" and not ROOT:
            assert READ_ONLY in ran.stderr or ran.returncode == Exit.ACCEPTED
        else:
            assert ran.returncode == Exit.CONFIGURATION, ran.stderr
            assert str(path) in ran.stderr and "cannot be" in ran.stderr, ran.stderr
    if name == ".":
        assert before == {each: each.read_bytes() for each in folder.glob("*.md")}
    assert_resumes(work, model, expected)


def test_unwritable_inbox(tmp_path: Path) -> None:
    work = tmp_path / "work"
    run = waiting_for_answer(work)
    inbox = run / "inbox"
    inbox.mkdir(exist_ok=True)
    with read_only(inbox):
        refused = fractal(work, "answer", run.name, "this one")
        assert refused.returncode == Exit.CONFIGURATION
        assert str(inbox) in refused.stderr and READ_ONLY in refused.stderr
    assert not list(inbox.iterdir())
    assert fractal(work, "answer", run.name, "this one").returncode == Exit.ACCEPTED
    model = f"scripted:{script(tmp_path / 'model.json')}"
    with read_only(inbox):  # the answer can be read but not removed
        refused = fractal(work, "resume", "--model", model)
        assert refused.returncode == Exit.CONFIGURATION
        assert str(inbox) in refused.stderr and READ_ONLY in refused.stderr
    again = fractal(work, "resume", "--model", model)
    assert again.returncode == Exit.ACCEPTED, again.stderr
    root = root_of(work)
    assert [note.text for note in root.section(1).notes if note.key == "answer"] == ["this one"]


def test_unwritable_work_folder_fails_the_step(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    step = [{"tool": "write", "args": {"path": "sub/a.txt", "content": "x"}}]
    model = f"scripted:{script(tmp_path / 'model.json', outer=step)}"
    with read_only(work / "sub"):
        ran = fractal(work, "run", "--model", model, TASK)
    assert ran.returncode in (Exit.ACCEPTED, Exit.FAILED), ran.stderr
    assert READ_ONLY in str(root_of(work).steps[1].result)
    assert document(work, "op-write").is_file()
