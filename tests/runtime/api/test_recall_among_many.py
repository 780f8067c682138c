"""`fractal recall` as a whole process with very many records: its cost, and that it still finds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from runtime.memory.embed import choose
from runtime.memory.facts.records import MadeBy, Memory, Observation
from runtime.memory.facts.retrieval.passages import Passage, digest_of, name
from runtime.memory.store import Record, open_shelf, pack

FEW, MANY = 10_000, 50_000
NEEDLE = "The spare key of the boathouse hangs behind the blue door."
_WORDS = [a + b + c for a in ("ba", "de", "fi", "go") for b in "bdfgklmn" for c in ("ra", "so", "ti")]


@dataclass(frozen=True)
class Cost:
    """CPU seconds and megabytes of a process, and what it printed."""

    seconds: float
    megabytes: float
    output: str


def _records(count: int) -> Iterator[list[Record]]:
    """Turns in threads, a fifth of them memories, with random vectors, so that they are made quickly."""
    random, numbers = Random(1), np.random.default_rng(1)
    embedder = choose("lexical")
    yield [MadeBy(id="semantic", embedder=embedder.name)]
    for start in range(0, count, 500):
        records: list[Record] = []
        for n in range(start, start + 500):
            text = NEEDLE if n == count // 2 else " ".join(random.choices(_WORDS, k=12))
            row = numbers.standard_normal(embedder.size).astype(np.float32)
            vectors = {embedder.name: pack(row / np.linalg.norm(row))}
            at = f"2025-{n % 12 + 1:02}-{n % 28 + 1:02}T10:00:00.000Z"
            if n % 5:
                turn_fields = {"at": at, "thread": f"t{n // 20}", "turn": n % 20}
                each: Record = Observation(id=f"o{n}", text=text, vectors=vectors, **turn_fields)
            else:
                each = Memory(id=f"m{n}", text=text, vectors=vectors, since=at, created=at)
            states = numbers.integers(-127, 127, (12, embedder.size), dtype=np.int8).tobytes()
            passage_fields = {"made_by": embedder.name, "digest": digest_of(text), "states": states}
            records += [each, Passage(id=name(each.KIND, each.id), vectors=vectors, **passage_fields)]
        yield records


def _workspace(folder: Path, count: int) -> Path:
    shelf = open_shelf("sqlite", folder / ".fractal" / "state" / "memory", fsync=False)
    for records in _records(count):
        shelf.put(*records)
    shelf.close()
    return folder


def _fractal(folder: Path, *words: str) -> Cost:
    process = subprocess.Popen(
        [sys.executable, "-m", "runtime.cli", "-C", str(folder), *words],
        env={**os.environ, "FRACTAL_EMBEDDER": "lexical"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, output)


def _costs(folder: Path, count: int) -> tuple[Cost, Cost]:
    """The costs of a recall among 500 records and of one among `count`, each after an earlier recall."""
    question = ("recall", "where does the spare key of the boathouse hang?")
    few = _workspace(folder / "few", 500)
    many = _workspace(folder / "many", count)
    for each in (few, many):
        assert NEEDLE in _fractal(each, *question).output
    _fractal(many, "remember", "The ferry to the island leaves at noon.")
    assert "leaves at noon" in _fractal(many, "recall", "when does the ferry to the island leave?").output
    bare, found = _fractal(few, *question), _fractal(many, *question)
    assert NEEDLE in bare.output and NEEDLE in found.output
    return bare, found


@pytest.mark.night
def test_a_recall_among_ten_thousand_costs_little_more_than_among_few(tmp_path: Path) -> None:
    bare, found = _costs(tmp_path, FEW)
    assert found.seconds <= bare.seconds + 0.25
    assert found.megabytes <= bare.megabytes + 25


@pytest.mark.night
@pytest.mark.timeout(600)
def test_a_recall_among_fifty_thousand_takes_a_second_and_two_hundred_megabytes(tmp_path: Path) -> None:
    _, found = _costs(tmp_path, MANY)
    assert found.seconds <= 1.0
    assert found.megabytes <= 200
