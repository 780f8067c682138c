"""Vectors of which the first are in a file, which is read piece by piece to save memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

AT_ONCE = 512
"""Vectors that are read at a time."""


class InFile:
    """Rows of float32 in an open file."""

    def __init__(self, path: Path, offset: int, count: int, size: int) -> None:
        self._file = path.open("rb")
        self._offset, self.shape = offset, (count, size)

    def __len__(self) -> int:
        return self.shape[0]

    def part(self, start: int, count: int) -> Any:
        """`count` rows from `start`."""
        size = self.shape[1]
        raw = os.pread(self._file.fileno(), 4 * size * count, self._offset + 4 * size * start)
        return np.frombuffer(raw, "<f4").reshape(-1, size)


class Vectors:
    """Rows in a file, and more rows in memory."""

    def __init__(self, before: InFile | Vectors, behind: Any) -> None:
        inner = before if isinstance(before, InFile) else before.kept
        self.kept, self.behind = inner, behind

    def __len__(self) -> int:
        return len(self.kept) + len(self.behind)

    def __matmul__(self, vector: Any) -> Any:
        """The dot product of each row, as an array has it."""
        found = np.empty(len(self), np.float32)
        for start in range(0, len(self.kept), AT_ONCE):
            end = min(start + AT_ONCE, len(self.kept))
            found[start:end] = self.kept.part(start, end - start) @ vector
        found[len(self.kept) :] = self.behind @ vector
        return found

    def __getitem__(self, rows: Any) -> Any:
        """One row by its number, or several by a list."""
        if isinstance(rows, (list, np.ndarray)):
            return np.stack([self[int(row)] for row in rows])
        count = len(self.kept)
        return self.kept.part(int(rows), 1)[0] if rows < count else self.behind[rows - count]
