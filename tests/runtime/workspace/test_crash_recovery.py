"""What a crashed process leaves behind, and how the next one recovers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crashing import crashes
from lanes import every, pause
from playing import ACCEPT, Play, doing, plan, rewind

from kernel.asking.responder import Ask
from kernel.document.model import Document
from kernel.errors import Exit
from kernel.store.files import FileStore
from runtime.api.fractal import shipped_system
from runtime.operations.placing import copy
from runtime.sandbox.bubblewrap import clear, enclosed
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.workspace.inbox import Inbox, drop
from runtime.workspace.ownership import is_ours
from runtime.workspace.workspace import Workspace, run_lock


def workspace(folder: Path) -> Workspace:
    return Workspace.find(folder, shipped_system())


def at_each_call(act: Callable[[], object], check: Callable[[], None]) -> int:
    """Crash before, during and after calls, at night each, and check each time. Returns their number."""
    for where in ("before", "half", "after"):
        at = 0
        while crashes(act, at + 1, where):
            at += every(2)
            check()
        check()
        assert at, "the act changed no file"
    return at


def test_workspace_is_completed_after_a_crash(tmp_path: Path) -> None:
    def check() -> None:
        workspace(tmp_path).make()
        assert sorted(each.name for each in (tmp_path / ".fractal").iterdir()) == [".gitignore", "state"]
        assert (tmp_path / ".fractal" / ".gitignore").read_text() == "*\n"
        assert is_ours(tmp_path / ".fractal" / "state")
        shutil.rmtree(tmp_path / ".fractal")

    assert at_each_call(lambda: workspace(tmp_path).make(), check) > 5


def test_run_without_a_document_is_removed(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from runtime.workspace.workspace import run_lock\n"
        "with run_lock(Path(sys.argv[1])):\n"
        "    Path(sys.argv[1], '.system-dead22.md.0123abcd.tmp').write_text('half'); print(flush=True)\n"
        "    time.sleep(60)"
    )
    runs = workspace(tmp_path).runs
    for name in ("dead22", "live22", "new222"):
        (runs / name).mkdir(parents=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(runs / "dead22")], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert holder.stdout
    holder.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with run_lock(runs / "live22"):
        run = workspace(tmp_path).new_run()
    assert sorted(each.name for each in runs.iterdir()) == sorted(["live22", "new222", run])


def test_run_that_ends_while_another_one_starts_is_kept(tmp_path: Path) -> None:
    """Who starts a run waits a moment for the lock of one without a document, which is written then."""
    runs = workspace(tmp_path).runs
    for n in range(10):
        folder = runs / f"run{n:03}"
        folder.mkdir(parents=True)
        starter = threading.Thread(target=workspace(tmp_path).new_run)
        with run_lock(folder):
            starter.start()
            pause(0.02)
            (folder / "system-a.md").write_text("kept")
        starter.join()
        assert (folder / "system-a.md").read_text() == "kept"


def test_partial_message_is_removed(tmp_path: Path) -> None:
    def check() -> None:
        FileStore(tmp_path).sweep()
        kept = list(Inbox(tmp_path).messages(("answer",)))
        assert sorted((tmp_path / "inbox").glob(".*")) == []
        assert all(message == {"kind": "answer", "text": "yes"} for _, message in kept)
        for path, _ in kept:
            path.unlink()

    assert at_each_call(lambda: drop(tmp_path, "answer", text="yes"), check) > 4


@pytest.mark.parametrize("folder", [False, True])
def test_copy_is_atomic(tmp_path: Path, folder: bool) -> None:
    source = tmp_path / "a"
    if folder:
        (source / "inner").mkdir(parents=True)
    text = "a text of some length\n" * 100
    (source / "inner" / "x" if folder else source).write_text(text)
    context = OperationContext(tmp_path, Sandbox(mode="off"))

    def check() -> None:
        target = tmp_path / "b"
        if target.exists():
            assert (target / "inner" / "x" if folder else target).read_text() == text
            shutil.rmtree(target) if folder else target.unlink()

    assert at_each_call(lambda: copy(context, **{"from": "a", "to": "b"}), check) > 5


def test_interrupted_change_of_several_files_is_completed(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    names = ("a.txt", "b.txt")
    for name in names:
        (work / name).write_text("old")
    change = {"path": ".", "old": "old", "new": "not so old", "glob": "*.txt"}
    answers = doing({"tool": "replace", "args": change})
    played = play(answers)
    rewind(played, 1)
    (work / "b.txt").write_text("old")  # the crash was between the two
    again = play(answers, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert [(work / name).read_text() for name in names] == ["not so old", "not so old"]


def test_interrupted_change_with_external_edits_asks(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("old")
    change = {"path": ".", "old": "old", "new": "new", "glob": "*.txt"}
    answers = doing({"tool": "replace", "args": change})
    played = play(answers)
    rewind(played, 1)
    (work / "b.txt").write_text("a person's own")
    again = play(answers, resume=played.result.run)
    assert again.result.exit == Exit.WAITING
    assert (work / "a.txt").read_text() == "new" and (work / "b.txt").read_text() == "a person's own"


def test_refused_step_is_repeated_while_children_hold_budget(play: Play) -> None:
    def answer(ask: Ask) -> Any:
        if ask.document.meta.depth:
            return ACCEPT if ask.phase == "check" else plan({"tool": "list", "args": {}})
        if ask.part == "do":
            return (
                "I would rather not."
                if not ask.turn
                else {"tool": "write", "args": {"path": "a", "content": "b"}}
            )
        asked = {"tool": "write", "what": "write b into a", "needs": []}
        return ACCEPT if ask.phase == "check" else plan({"subtask": "a", "needs": []}, asked)

    played = play(answer)
    assert played.result.exit == Exit.ACCEPTED, played.result.reason
    assert played.root.steps[2].state == "done"


def test_placeholder_folders_are_removed_and_real_ones_kept(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir(0o1700)
    clear(tmp_path, ())
    assert not list(tmp_path.iterdir())
    with enclosed(tmp_path, (), read_only=False, network=False, environ={}):
        assert (tmp_path / ".git").is_dir()
        clear(tmp_path, ())
        assert (tmp_path / ".git").is_dir()  # another process uses it
    (tmp_path / ".git").mkdir()
    clear(tmp_path, ())
    assert (tmp_path / ".git").is_dir()


def test_recorded_evidence_is_not_taken_for_inputs(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("text")
    steps = [
        {"tool": "copy", "args": {"from": "a.txt", "to": "b.txt"}},
        {"tool": "move", "args": {"from": "b.txt", "to": "c.txt"}},
    ]
    played = play(doing(*steps))
    store = FileStore(played.folder)
    document = store.load(played.result.id)
    done = {number: section for number, section in document.sections.items() if number < 4}
    store.save(Document(document.meta, done).having(phase="check", status="running"))
    again = play(lambda ask: ACCEPT, resume=played.result.run)
    assert again.result.exit == Exit.ACCEPTED
    assert (tmp_path / "work" / "c.txt").read_text() == "text"
