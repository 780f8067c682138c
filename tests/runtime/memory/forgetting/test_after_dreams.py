"""Forgetting after recalls and dreams, beside other processes, and after a crash in the middle."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import pause

from bench.week import stages
from runtime.api.fractal import Fractal
from runtime.api.knowledge import mind_of, recall
from runtime.memory.dream.archive import BeforeImage
from runtime.memory.facts.records import Memory, Observation
from runtime.memory.facts.retrieval import Passage
from runtime.memory.forgetting.forgetting import Forgetting
from runtime.memory.forgetting.request import Request
from runtime.memory.store.sqlite import SqliteKeeper

PLACES = ("the shed", "the cellar", "the attic", "the garage", "the office", "the kitchen", "the hall")


@pytest.fixture
def dreamt(tmp_path: Path) -> Fractal:
    """A memory with many entries, after recalls and two dreams."""
    fractal = Fractal(tmp_path, settings={"embedder": "lexical"})
    mind = mind_of(fractal)
    for night in (1, 2):
        for n, name in enumerate(PLACES):
            at = f"2026-03-0{night}T08:{n:02}:00Z"
            mind.observe(f"Zebedee keeps {n} ladders in {name}", thread="t", turn=10 * night + n, at=at)
            mind.observe(
                f"Quentin painted {name} in the colour {n}{night}", thread="q", turn=10 * night + n, at=at
            )
        recall(fractal, "what does Zebedee keep in the cellar")
        fractal.memory.dreamer.dream(f"night-{night}", stages())
    return fractal


def holders(word: str, state: Path) -> list[str]:
    files = (path for path in state.rglob("*") if path.is_file())
    return [
        str(path.relative_to(state)) for path in files if word.lower().encode() in path.read_bytes().lower()
    ]


def test_what_was_dreamt_of_is_gone_with_what_the_dreams_made_and_archived(dreamt: Fractal):
    state, shelf = dreamt.workspace.state, dreamt.brain.shelf
    assert any("Zebedee" in (image.body or "") for image in shelf.scan(BeforeImage)) and shelf.count(Passage)
    made = shelf.count(Memory)
    done = Forgetting(dreamt.brain, state).do(Request("zebedee"))
    assert holders("zebedee", state) == [] and done.preview.archived > 0 and not done.hindered
    assert 0 < shelf.count(Memory) < made
    left = {each.id for kind in (Memory, Observation) for each in shelf.scan(kind)}
    assert {each.id.partition(":")[2] for each in shelf.scan(Passage)} <= left
    assert shelf.check() == [] and not any("Zebedee" in each.text for each in recall(dreamt, "ladders"))
    assert any("Quentin" in each.text for each in recall(dreamt, "who painted the cellar"))


def test_the_last_dream_can_still_be_taken_back_without_bringing_it_back(dreamt: Fractal):
    from runtime.api.dreaming import undo

    Forgetting(dreamt.brain, dreamt.workspace.state).do(Request("zebedee"))
    undo(dreamt)
    assert holders("zebedee", dreamt.workspace.state) == []


@pytest.mark.night
def test_who_is_killed_in_the_middle_does_it_again(dreamt: Fractal):
    state = dreamt.workspace.state
    dreamt.brain.close()
    code = (
        "import sys; from runtime.api.fractal import Fractal; "
        "from runtime.memory.forgetting.forgetting import Forgetting; "
        "from runtime.memory.forgetting.request import Request; "
        "f = Fractal(sys.argv[1], settings={'embedder': 'lexical'}); "
        "g = Forgetting(f.brain, f.workspace.state); "
        "print('go', flush=True); g.do(Request('zebedee'))"
    )
    for wait in (0.02, 0.06, 0.15):
        words = [sys.executable, "-c", code, str(dreamt.workspace.folder)]
        ran = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert ran.stdout is not None and ran.stdout.readline() == "go\n"
        pause(wait)
        os.kill(ran.pid, signal.SIGKILL)
        ran.wait()
        ran.stdout.close()
    Forgetting(dreamt.brain, state).do(Request("zebedee"))
    assert holders("zebedee", state) == [] and dreamt.brain.shelf.check() == []
    assert any(dreamt.brain.shelf.scan(Memory))


def test_a_process_that_reads_meanwhile_is_reported(dreamt: Fractal):
    state = dreamt.workspace.state
    reader = sqlite3.connect(dreamt.memory.folder / "brain.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchone()
    keeper = dreamt.brain.shelf.keeper
    assert isinstance(keeper, SqliteKeeper)
    keeper.base.execute("PRAGMA busy_timeout = 300")  # it would wait for the reader for 20 seconds
    done = Forgetting(dreamt.brain, state).do(Request("zebedee"))
    assert "another process" in done.hindered
    reader.execute("COMMIT")
    reader.close()
    dreamt.brain.shelf.rebuild()
    assert holders("zebedee", state) == []
