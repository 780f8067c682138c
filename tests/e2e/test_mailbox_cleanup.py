"""A run that has stopped leaves no open asks in the mailbox, however it stopped."""

from __future__ import annotations

import signal

import pytest
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


def test_an_interrupted_run_takes_its_asks_back(work):
    with asking(work) as process:
        until(lambda: asks(work))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == Exit.INTERRUPTED
    assert asks(work) == []


def test_a_cancelled_run_takes_its_asks_back(work):
    with asking(work) as process:
        until(lambda: asks(work))
        fractal(work, "cancel", run_folder(work).name)
        process.wait(20)
    assert asks(work) == []


def test_what_a_killed_process_asked_is_gone_once_its_run_has_ended(work):
    with asking(work):
        until(lambda: asks(work))
    assert len(asks(work)) == 1, "nobody was there to take it back"
    other = work / ".fractal" / "state" / "mailbox" / "system-other.1.plan.md"
    other.write_text('---\nformat: 1\nrun: "other"\n---\nanother run\n')
    fractal(work, "cancel", run_folder(work).name)
    fractal(work, "resume", "--model", "mailbox")
    assert asks(work) == [other.name]
