"""Vectors are read once per process; the users of one store in a process share it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from shelves import Note, unit

from runtime.memory.store import Shelf, open_shelf, pack, share_shelf

SIZE = 48


def clustered(count: int) -> Any:
    """Vectors that lie together as those of texts do."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(2000, SIZE)).astype(np.float32)
    rows = centres[rng.integers(len(centres), size=count)] + 0.6 * rng.normal(size=(count, SIZE))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def filled(folder: Path, rows: Any) -> Shelf:
    shelf = open_shelf("sqlite", folder, fsync=False)
    for start in range(0, len(rows), 5000):
        part = rows[start : start + 5000]
        shelf.put(*(Note(id=f"{start + n:06}", vectors={"m": pack(row)}) for n, row in enumerate(part)))
    return shelf


def test_vectors_of_one_process_are_read_once(tmp_path: Path) -> None:
    """Only what changed is read for the next question: the rest may be unreadable by then."""
    with closing(filled(tmp_path, clustered(300))) as shelf:
        before = shelf.nearest(Note, "m", clustered(300)[5], 300)
        with closing(sqlite3.connect(tmp_path / "brain.sqlite3")) as base:
            base.execute("UPDATE vectors SET vector = X'00' WHERE number > 1")
            base.commit()
        assert shelf.nearest(Note, "m", clustered(300)[5], 300) == before
        shelf.put(Note(id="new", vectors={"m": pack(unit(*range(1, SIZE + 1)))}))
        assert len(shelf.nearest(Note, "m", clustered(300)[5], 400)) == 301


def test_one_process_opens_a_store_once(tmp_path: Path) -> None:
    first, second = (share_shelf("sqlite", tmp_path) for _ in range(2))
    assert first is second
    first.close()
    second.put(Note(id="a"))  # still open for the other one
    second.close()
    with closing(share_shelf("sqlite", tmp_path)) as third:
        assert third is not first
        assert third.get(Note, "a")
        (tmp_path / "brain.sqlite3").rename(tmp_path / "old.sqlite3")
        with closing(share_shelf("sqlite", tmp_path)) as fourth:  # another file has taken its place
            assert fourth is not third
            assert fourth.get(Note, "a") is None


def test_a_store_in_memory_is_nobody_elses(tmp_path: Path) -> None:
    assert share_shelf("memory", tmp_path) is not share_shelf("memory", tmp_path)
