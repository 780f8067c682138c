"""What the benchmarks measure with."""

from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import pytest

from bench.harness import bytes_written, cost


class _Unclosed:
    """A store that nobody closed; only the garbage collector finds it."""

    def __init__(self, path: Path) -> None:
        self.base, self.itself = sqlite3.connect(path), self
        self.base.execute("PRAGMA journal_mode = WAL").fetchone()
        self.base.execute("CREATE TABLE texts (text)")
        self.base.execute("INSERT INTO texts VALUES (?)", ("x" * 1_000_000,))
        self.base.commit()


@pytest.mark.skipif(not bytes_written(), reason="this system does not count written bytes")
def test_a_cost_does_not_include_what_earlier_work_left_open(tmp_path: Path) -> None:
    gc.disable()
    try:
        _Unclosed(tmp_path / "left.sqlite3")
        with cost() as spent:
            (tmp_path / "own").write_bytes(b"x" * 1_000)
            gc.collect()  # as a longer block would cause
    finally:
        gc.enable()
    assert 1_000 <= spent.bytes < 10_000
