"""Workspaces: folders, protected paths, locks of runs, and the inbox."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from lanes import PATIENCE

from kernel.errors import RunLocked, UsageError
from runtime.workspace.inbox import Inbox, drop
from runtime.workspace.workspace import Workspace, is_locked, run_lock


def test_lock_names_its_holder_and_is_released(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(RunLocked, match=str(os.getpid())), run_lock(tmp_path):
            pass
    assert not is_locked(tmp_path)


def test_messages_are_read_in_order(tmp_path: Path) -> None:
    for text in ("one", "two"):
        drop(tmp_path, "answer", text=text)
    drop(tmp_path, "cancel")
    assert [message["text"] for _, message in Inbox(tmp_path).messages(("answer",))] == ["one", "two"]
    assert len(list((tmp_path / "inbox").iterdir())) == 3


def test_folder_gets_a_workspace_when_a_run_starts(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    work = tmp_path / "work"
    work.mkdir()
    workspace = Workspace.find(work, shipped)
    assert not (work / ".fractal").exists()
    run = workspace.new_run()
    assert (work / ".fractal" / ".gitignore").read_text() == "*\n"
    assert (work / ".fractal" / "state" / "runs" / run).is_dir()
    assert (work / ".fractal" / "state").stat().st_mode & 0o077 == 0
    (work / "deep").mkdir()
    assert Workspace.find(work / "deep", shipped).root == work / ".fractal"
    pattern = work.resolve() / "system" / "pattern.md"  # creating it would make the folder a workspace
    assert workspace.protected == ((work / ".fractal").resolve(), pattern)


@pytest.mark.parametrize("own", [None, "*.pyc\n", "/state/*\n!/state/README.md\n"])
def test_state_beside_settings_by_hand_is_left_out_by_git(tmp_path: Path, own: str | None) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "fractal.yaml").touch()
    if own:
        (tmp_path / ".gitignore").write_text(own)
    run = Workspace.find(tmp_path, tmp_path / "shipped").new_run()
    (tmp_path / "state" / "runs" / run / "a.md").touch()
    (tmp_path / "state" / "README.md").touch()  # `fractal init` writes one, which is to be kept
    words = ["git", "status", "--short", "-uall"]
    listed = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert [line for line in listed.stdout.splitlines() if "state" in line] == ["?? state/README.md"]


def test_a_gitignore_that_cannot_be_read_holds_up_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").touch()
    os.mkfifo(tmp_path / ".gitignore")
    workspace = Workspace.find(tmp_path, tmp_path / "shipped")
    made = threading.Thread(target=workspace.make, daemon=True)
    made.start()
    made.join(PATIENCE)
    assert not made.is_alive()


def test_workspace_protects_state_system_and_settings(tmp_path: Path) -> None:
    (tmp_path / "fractal.yaml").touch()
    workspace = Workspace.find(tmp_path, tmp_path / "shipped")
    assert {path.name for path in workspace.protected} == {"state", "system", "fractal.yaml"}


def test_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        Workspace.find(tmp_path / "missing", tmp_path)
