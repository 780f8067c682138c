"""Exact nearness: the vectors of one kind and embedder as a matrix that follows the changes of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runtime.memory.embed.threads import one_thread
from runtime.memory.store.record import Vector

AT_ONCE = 5000
"""Vectors that are read at a time."""


class Matrix:
    """Rows by number. The first row sets the size; rows of another size are not taken."""

    def __init__(self) -> None:
        self._rows: Vector = np.zeros((0, 0), np.float32)
        self._numbers = np.zeros(0, np.int64)
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    @property
    def size(self) -> int:
        """Dimensions; 0 before the first row."""
        return self._rows.shape[1]

    def put(self, number: int, raw: bytes | None) -> None:
        """Set the row with this number; without a usable vector, drop it."""
        if not raw or len(raw) % 4 or (self._at and len(raw) != self.size * 4):
            self._drop(number)
            return
        if not self._at and self.size != len(raw) // 4:
            self.reserve(16, len(raw) // 4)
        at = self._at.setdefault(number, len(self._at))
        self._grow(at + 1)
        self._rows[at], self._numbers[at] = np.frombuffer(raw, "<f4"), number

    def fill(self, numbers: Sequence[int], raws: Sequence[bytes | None]) -> None:
        """Set many rows; new ones of the right size in one step."""
        sizes = {len(raw or b"") for raw in raws}
        if sizes != {self.size * 4} or not self.size or not self._at.keys().isdisjoint(numbers):
            for number, raw in zip(numbers, raws, strict=True):
                self.put(number, raw)
            return
        start, end = len(self._at), len(self._at) + len(raws)
        self._grow(end)
        self._rows[start:end] = np.frombuffer(b"".join(raw or b"" for raw in raws), "<f4").reshape(
            len(raws), -1
        )
        self._numbers[start:end] = numbers
        self._at.update(zip(numbers, range(start, end), strict=True))

    def reserve(self, count: int, size: int) -> None:
        """Make room for `count` rows of that size in an empty matrix."""
        if not self._at and self._rows.shape != (count, size):
            self._rows, self._numbers = np.zeros((count, size), np.float32), np.zeros(count, np.int64)

    def _drop(self, number: int) -> None:
        """Remove a row; the last one moves into its place."""
        at = self._at.pop(number, None)
        last = len(self._at)
        if at is not None and at != last:
            moved = int(self._numbers[last])
            self._rows[at], self._numbers[at], self._at[moved] = self._rows[last], moved, at

    def nearest(self, vector: Vector, most: int) -> list[tuple[int, float]]:
        """Numbers and products, the highest first; with ties perhaps more than `most`."""
        count = len(self._at)
        if not count or len(vector) != self.size:
            return []
        with one_thread():
            scores = self._rows[:count] @ vector
        if most < count:
            edge = np.partition(scores, count - most)[count - most]
            (best,) = np.nonzero(scores >= edge - np.float32(1e-6))
        else:
            best = np.arange(count)
        best = best[np.argsort(-scores[best], kind="stable")]
        return [(int(self._numbers[at]), float(scores[at])) for at in best]

    def _grow(self, needed: int) -> None:
        if needed > len(self._rows):
            more = max(16, needed, len(self._rows) * 3 // 2) - len(self._rows)
            self._rows = np.pad(self._rows, ((0, more), (0, 0)))
            self._numbers = np.pad(self._numbers, (0, more))


@dataclass
class _Held:
    """A matrix, and up to which change of which epoch of the database it was read."""

    epoch: int
    matrix: Matrix = field(default_factory=Matrix)
    change: int = 0


class Matrices:
    """The matrices of one SQLite file. Each reads only what changed since the last question."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        self._held: dict[tuple[str, str], _Held] = {}

    def nearest(self, kind: str, embedder: str, raw: bytes, most: int) -> list[tuple[int, float]]:
        """Numbers and products, the highest first."""
        return self._fresh(kind, embedder).nearest(np.frombuffer(raw, "<f4"), most)

    def _fresh(self, kind: str, embedder: str) -> Matrix:
        (epoch,) = self._base.execute("SELECT value FROM counters WHERE name = 'epoch'").fetchone()
        held = self._held.get((kind, embedder))
        if held is None or held.epoch != epoch:
            held = self._held[kind, embedder] = _Held(epoch)
        new = "FROM vectors WHERE kind = ? AND embedder = ? AND change > ?"
        which: Any = (kind, embedder, held.change)
        if not held.matrix:
            count, size = self._base.execute(f"SELECT count(*), max(length(vector)) {new}", which).fetchone()
            held.matrix.reserve(count, (size or 0) // 4)
        news = self._base.execute(f"SELECT number, vector, change {new} ORDER BY change", which)
        change = held.change
        while rows := news.fetchmany(AT_ONCE):
            change = rows[-1][2]
            held.matrix.fill([number for number, _, _ in rows], [raw for _, raw, _ in rows])
        held.change = change  # set last: an interrupted reader starts again
        return held.matrix
