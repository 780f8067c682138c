"""The vectors of one kind and one embedder as one matrix: exact nearness, kept up to date row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.embedding.threads import one_thread
from runtime.store.record import Vector


class Matrix:
    """Rows by number. A row of another size than the first is not taken: it was made by something else."""

    def __init__(self) -> None:
        self._rows: Vector = np.zeros((0, 0), np.float32)
        self._numbers = np.zeros(0, np.int64)
        self._at: dict[int, int] = {}

    @staticmethod
    def of(numbers: Any, rows: Vector) -> Matrix:
        """A matrix of what is there already; it grows into memory of its own when something is added."""
        matrix = Matrix()
        matrix._rows, matrix._numbers = rows, np.array(numbers)
        matrix._at = dict(zip(matrix._numbers.tolist(), range(len(rows)), strict=True))
        return matrix

    def content(self) -> tuple[Any, Vector]:
        """The numbers, and the row of each."""
        return self._numbers[: len(self._at)], self._rows[: len(self._at)]

    def __len__(self) -> int:
        return len(self._at)

    @property
    def size(self) -> int:
        """Dimensions, 0 as long as there is no row."""
        return self._rows.shape[1]

    def put(self, number: int, raw: bytes) -> bool:
        """Take a row in, or in the place of the one with this number; False when its size is another."""
        if not raw or len(raw) % 4:  # damaged: `check` tells it
            self.drop(number)
            return False
        row = np.frombuffer(raw, "<f4")
        if not self._at and self.size != len(row):
            self._rows = np.zeros((16, len(row)), np.float32)
            self._numbers = np.zeros(16, np.int64)
        if len(row) != self.size:
            self.drop(number)
            return False
        at = self._at.get(number)
        if at is None:
            at = len(self._at)
            self._room(at + 1)
            self._at[number] = at
            self._numbers[at] = number
        self._rows[at] = row
        return True

    def fill(self, numbers: Sequence[int], raws: Sequence[bytes]) -> list[int]:
        """Take many rows in, new ones at once; returns the numbers of those not taken."""
        sizes = {len(raw) for raw in raws}
        if len(sizes) != 1 or sizes != {self.size * 4} or not self._at.keys().isdisjoint(numbers):
            return [number for number, raw in zip(numbers, raws, strict=True) if not self.put(number, raw)]
        start, end = len(self._at), len(self._at) + len(raws)
        self._room(end)
        self._rows[start:end] = np.frombuffer(b"".join(raws), "<f4").reshape(len(raws), -1)
        self._numbers[start:end] = numbers
        self._at.update(zip(numbers, range(start, end), strict=True))
        return []

    def reserve(self, count: int, size: int) -> None:
        """Make room for so many rows of that size, in an empty matrix."""
        if not self._at:
            self._rows, self._numbers = np.zeros((count, size), np.float32), np.zeros(count, np.int64)

    def drop(self, number: int) -> None:
        """Take a row out; the last one moves into its place."""
        at = self._at.pop(number, None)
        if at is None:
            return
        last = len(self._at)
        if at != last:
            self._rows[at] = self._rows[last]
            moved = int(self._numbers[last])
            self._numbers[at] = moved
            self._at[moved] = at

    def nearest(self, vector: Vector, most: int) -> list[tuple[int, float]]:
        """Numbers and products, the highest first; of equal ones perhaps more, for who orders them."""
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

    def _room(self, needed: int) -> None:
        if needed > len(self._rows):
            wider = max(16, needed, len(self._rows) * 3 // 2)
            self._rows = _grown(self._rows, wider)
            self._numbers = _grown(self._numbers, wider)


def _grown(array: Any, length: int) -> Any:
    grown = np.zeros((length, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
