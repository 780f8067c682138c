"""Listing runs reads the head of each document, however much stands below it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section
from kernel.document.parser import read_head

LARGE = 50_000_000
RUNS = 5_000


def write(runs: Path, run: str, result: str, task: str = "do it") -> Path:
    meta = Meta(f"system-{run}", run, status="complete", phase="output", created="2026-01-01T00:00:00Z")
    notes = {1: Note("task", task, "person"), 5: Note("result", result, "model:m")}
    path = runs / run / f"system-{run}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(render(Document(meta, {n: Section(notes=(note,)) for n, note in notes.items()}), 1))
    return path


@pytest.mark.parametrize("task", ["do it", "## not a heading\n~~~\n", "word " * 20_000, ""])
def test_the_head_tells_meta_and_task(tmp_path: Path, task: str) -> None:
    path = write(tmp_path, "abcdef", "x" * 10_000, task)
    meta, shown_task = read_head(path)
    assert meta.status == "complete"
    assert shown_task == task or (
        len(task) > 4_000 and task.startswith(shown_task[:3_000]) and len(shown_task) > 3_000
    )


def cpu(folder: Path) -> float:
    """Seconds of CPU that `fractal ls` takes, the least of three: other work can only make it longer."""
    command = [sys.executable, "-m", "runtime.cli", "-C", str(folder), "ls"]
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        listed = subprocess.run(command, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert listed.returncode == 0, listed.stderr
        assert len(listed.stdout.splitlines()) == 21
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


@pytest.mark.night
def test_five_thousand_runs_and_a_document_of_50_megabytes_cost_at_most_what_starting_does(
    tmp_path: Path,
) -> None:
    """`ls` of twenty runs is mostly start-up: 0.52 s of CPU where `ls` of these took 0.58 s."""
    few, many = tmp_path / "few", tmp_path / "many"
    for folder, runs in ((few, 20), (many, RUNS)):
        for n in range(runs):
            write(folder / "state" / "runs", f"r{n:05d}", "x" * 100)
        (folder / "fractal.yaml").touch()
    write(many / "state" / "runs", "r00007", "x" * LARGE)
    spent = cpu(few), cpu(many)
    assert spent[1] <= 2 * spent[0], spent
