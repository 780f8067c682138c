"""`fractal brain export --sqlite`: what memory decided, how it grew and what it dreamt, for plain SQL."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from playing import REVERSE, put

from runtime.memory.store import open_shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.snapshots import Problems

QUICK = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false"}


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as base:
        return base.execute(query).fetchall()


def run(fractal: Command) -> None:
    """A task that a model solves the first time, and memory later."""
    put(fractal.folder, "notes.md", "one\ntwo\n")
    model = fractal.script("model.yaml", {"fused": REVERSE})
    env = {**QUICK, "FRACTAL_CHECK": "auto", "FRACTAL_SNAPSHOT_EVERY": "2"}
    ran = fractal("run", "--model", model, "Mirror the lines of notes.md into back.md", env=env)
    assert ran.exit == 0, ran.err


def test_runs_and_a_dream_are_read_with_sql(tmp_path: Path, fractal: Command) -> None:
    for _ in range(3):
        run(fractal)
    assert fractal("dream", env=QUICK).exit == 0
    path = tmp_path / "brain.sqlite3"
    for _ in range(2):  # the second time in the place of the first
        ran = fractal("brain", "export", "--sqlite", str(path))
        assert ran.exit == 0 and f"to {path}" in ran.err
    events = rows(
        path,
        "SELECT execution_path, recall_type, calls, calls_before, candidate_count, working_memory_size, "
        "predicted_confidence IS NULL, recall_ms > 0, total_brain_ms >= recall_ms "
        "FROM brain_events ORDER BY at",
    )
    assert events == [
        ("llm", "novel", 1, 0, None, 0, 1, None, None),
        ("neuron_exact", "exact", 0, 1, 1, 1, 0, 1, 1),
        ("neuron_exact", "exact", 0, 1, 1, 1, 0, 1, 1),
    ]
    report = json.loads(fractal("brain", "report", "--json").out)
    saved = "SELECT count(*), sum(calls), sum(max(calls_before - calls, 0)) FROM brain_events"
    assert rows(path, saved) == [(report["decisions"], report["calls"], report["calls_saved"])]
    assert rows(path, "SELECT n, trees, answered_share FROM brain_snapshots") == [(2, 1, 0.5)]
    assert ("report",) in rows(path, "SELECT stage FROM dream_events WHERE seconds >= 0 AND dream != ''")


def test_problems_stay_counted_when_their_decisions_are_gone(fractal: Command) -> None:
    for _ in range(2):
        run(fractal)
    folder = fractal.folder / ".fractal" / "state" / "memory"
    with closing(open_shelf("sqlite", folder)) as shelf:
        shelf.put(Problems(id="problems", n=5))  # as a version before this one counted
        shelf.delete(Decision, *(each.id for each in shelf.scan(Decision, {"path": "novel"})))
    run(fractal)
    with closing(open_shelf("sqlite", folder)) as shelf:
        shelf.delete(Decision, *(each.id for each in shelf.scan(Decision)))
    run(fractal)
    with closing(open_shelf("sqlite", folder)) as shelf:
        known = shelf.get(Problems, "problems")
    assert known and (known.n, known.paths) == (7, {"exact": 3})


@pytest.mark.parametrize("words", [["--sqlite"], ["--sqlite", "--files", "x"], ["--sqlite", "nowhere/x"]])
def test_tables_that_cannot_be_written_say_why(fractal: Command, words: list[str]) -> None:
    with closing(open_shelf("sqlite", fractal.folder / ".fractal" / "state" / "memory")) as shelf:
        shelf.put(Decision(id="a", text="half \ud800 a letter"))
    ran = fractal("brain", "export", *words)
    assert (ran.exit != 0 and "--" in ran.err) or "nowhere: the tables cannot be written" in ran.err
    assert not (fractal.folder / "x").exists()
    assert fractal("brain", "export", "--sqlite", "whole").exit == 0
    assert rows(fractal.folder / "whole", "SELECT task FROM brain_events") == [("half ? a letter",)]
