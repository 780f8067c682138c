"""A stopped run leaves no open asks in the mailbox."""

from __future__ import annotations

import signal

import pytest
from lanes import PATIENCE
from processes import fractal, run_folder, running, until

from kernel.errors import Exit


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def asks(folder):
    return [path.name for path in (folder / ".fractal" / "state" / "mailbox").glob("*.md")]


def asking(folder):
    return running(folder, "run", "--model", "mailbox", "have a look at the notes")


def test_interrupted_run_removes_its_asks(work):
    with asking(work) as process:
        until(lambda: asks(work))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == Exit.INTERRUPTED
    assert asks(work) == []


def test_cancelled_run_removes_its_asks(work):
    with asking(work) as process:
        until(lambda: asks(work))
        fractal(work, "cancel", run_folder(work).name)
        process.wait(PATIENCE)
    assert asks(work) == []


def test_asks_of_a_killed_process_are_removed_when_its_run_ends(work):
    with asking(work):
        until(lambda: asks(work))
    assert len(asks(work)) == 1, "the process could not remove it"
    other = work / ".fractal" / "state" / "mailbox" / "system-other.1.plan.md"
    other.write_text('---\nformat: 1\nrun: "other"\n---\nanother run\n')
    fractal(work, "cancel", run_folder(work).name)
    fractal(work, "resume", "--model", "mailbox")
    assert asks(work) == [other.name]
