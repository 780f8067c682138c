"""`fractal dream` as a person uses it: rehearsed, done, seen, taken back, killed, done every so often."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import COMMAND, Command, environment

sys.path.insert(0, str(Path(__file__).parents[1] / "memory" / "dream"))
import nights
from warm import Process

SETTINGS = {"FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nights.filled(tmp_path / ".fractal" / "state").close()
    return tmp_path


def export(folder: Path) -> str:
    return Command(folder)("brain", "export", env=SETTINGS).out


def test_it_is_rehearsed_done_seen_and_taken_back(folder: Path) -> None:
    fractal = Command(folder)
    before = export(folder)
    rehearsal = fractal("dream", "--dry-run", env=SETTINGS)
    assert rehearsal.exit == 0
    assert "merge-neurons: 2 merged\n- " in rehearsal.out
    assert "nothing was changed" in rehearsal.err
    assert export(folder) == before
    done = fractal("dream", "--json", env=SETTINGS)
    report = json.loads(done.out)
    assert (done.exit, report["status"]) == (0, "complete")
    assert report["stages"]["merge-neurons"]["counts"] == {"merged": 2}
    assert "Dream: all phases." in fractal("ls", env=SETTINGS).out
    shown = fractal("show", report["dream"], env=SETTINGS)
    assert "2 merged" in shown.out
    undone = json.loads(fractal("dream", "undo", "--json", env=SETTINGS).out)
    assert undone["dream"] == f"system-{report['dream']}"
    assert undone["left"] == []
    assert export(folder) == before
    again = fractal("dream", "undo", env=SETTINGS)
    assert (again.exit, "no dream to undo" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--without", "mitosys"], "there is no stage mitosys"),
        (["--since", "lately"], "no date"),
        (["--every", "often"], "no span of time"),
        (["--every", "5m", "--dry-run"], "not both"),
        (["undo", "--phase", "p"], "its only option is --json"),
        (["forget"], "forget"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    tmp_path: Path, words: list[str], why: str
) -> None:
    ran = Command(tmp_path)("dream", *words, env=SETTINGS)
    assert ran.exit == 2
    assert why in ran.err
    assert not (tmp_path / ".fractal").exists()


def test_to_look_at_an_empty_memory_makes_none(tmp_path: Path) -> None:
    ran = Command(tmp_path)("dream", "--dry-run", env=SETTINGS)
    assert ran.exit == 0
    assert "merge-neurons: nothing to do" in ran.out
    assert list(tmp_path.rglob("*")) == []


def test_a_phase_and_what_is_left_out(folder: Path) -> None:
    report = json.loads(
        Command(folder)(
            "dream", "--phase", "p", "--without", "mitosis", "--dry-run", "--json", env=SETTINGS
        ).out
    )
    assert set(report["stages"]) == set(nights.PROCEDURAL) - {"decay", "mitosis"}


def test_a_signal_ends_what_dreams_every_so_often(folder: Path) -> None:
    env = environment(**SETTINGS)
    words = [*COMMAND, "dream", "--every", "0.2s"]
    process = Process(words, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    for line in process.stderr:
        if line.startswith("dream ") and "complete" in line:
            break
    os.kill(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stderr.endswith("1 dream\n")
    assert Command(folder)("dream", "undo", env=SETTINGS).exit == 0


def test_a_memory_that_cannot_be_written_is_reported_before_anything_begins(folder: Path) -> None:
    memory = folder / ".fractal" / "state" / "memory"
    (memory / "dream.lock").mkdir()
    ran = Command(folder)("dream", env=SETTINGS)
    assert ran.exit == 3
    assert str(memory / "dream.lock") in ran.err
    assert not (folder / ".fractal" / "state" / "runs").exists()
