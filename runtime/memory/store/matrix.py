"""Exact nearness: the vectors of one kind and embedder as a matrix that follows the changes of the store."""

from __future__ import annotations

import sqlite3

import numpy as np

from runtime.memory.embed.threads import one_thread
from runtime.memory.store.record import Vector


class Matrix:
    """Rows by number. The first row sets the size; rows of another size are not taken."""

    def __init__(self) -> None:
        self.change = 0  # the change of the database up to which it was read
        self._rows: Vector = np.zeros((0, 0), np.float32)
        self._numbers = np.zeros(0, np.int64)
        self._at: dict[int, int] = {}

    def put(self, number: int, raw: bytes | None) -> None:
        """Set the row with this number; without a usable vector, drop it."""
        if not raw or len(raw) % 4 or (self._at and len(raw) != 4 * self._rows.shape[1]):
            self._drop(number)
            return
        if not self._at and self._rows.shape[1] != len(raw) // 4:
            self._rows, self._numbers = np.zeros((16, len(raw) // 4), np.float32), np.zeros(16, np.int64)
        at = self._at.setdefault(number, len(self._at))
        self._grow(at + 1)
        self._rows[at], self._numbers[at] = np.frombuffer(raw, "<f4"), number

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
        if not count or len(vector) != self._rows.shape[1]:
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
            count = max(16, needed, len(self._rows) * 3 // 2)
            self._rows.resize((count, self._rows.shape[1]), refcheck=False)  # in place: no second copy
            self._numbers.resize(count, refcheck=False)


class Matrices:
    """The matrices of one database. Each reads only what changed since the last question."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        self._epoch = -1
        self._matrices: dict[tuple[str, str], Matrix] = {}

    def nearest(self, kind: str, embedder: str, raw: bytes, most: int) -> list[tuple[int, float]]:
        """Numbers and products, the highest first."""
        (epoch,) = self._base.execute("SELECT value FROM counters WHERE name = 'epoch'").fetchone()
        if epoch != self._epoch:
            self._epoch, self._matrices = epoch, {}
        matrix = self._matrices.setdefault((kind, embedder), Matrix())
        query = (
            "SELECT number, vector, change FROM vectors WHERE kind = ? AND embedder = ? AND change > ? "
            "ORDER BY change"
        )
        change = matrix.change
        for number, vector, at in self._base.execute(query, (kind, embedder, change)):
            matrix.put(number, vector)
            change = at
        matrix.change = change  # set last: an interrupted reader starts again
        return matrix.nearest(np.frombuffer(raw, "<f4"), most)
