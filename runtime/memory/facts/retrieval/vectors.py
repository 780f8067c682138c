"""Vectors of which the first are in a file, which is read piece by piece to save memory."""

from __future__ import annotations

import os
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

AT_ONCE = 512
"""Vectors that are read at a time."""


class Vectors:
    """Rows of float32 in an open file, and more rows in memory."""

    def __init__(self, path: Path, offset: int, count: int, size: int) -> None:
        self._file = path.open("rb")
        self._offset, self.count, self.size = offset, count, size
        self.behind: Any = np.zeros((0, size), np.float32)

    def followed_by(self, behind: Any) -> Vectors:
        """The rows of the file, with these behind them."""
        made = copy(self)
        made.behind = behind
        return made

    def __len__(self) -> int:
        return self.count + len(self.behind)

    def part(self, start: int, count: int) -> Any:
        """`count` rows of the file from `start`."""
        raw = os.pread(self._file.fileno(), 4 * self.size * count, self._offset + 4 * self.size * start)
        return np.frombuffer(raw, "<f4").reshape(-1, self.size)

    def __matmul__(self, vector: Any) -> Any:
        """The dot product of each row, as an array has it."""
        found = np.empty(len(self), np.float32)
        for start in range(0, self.count, AT_ONCE):
            end = min(start + AT_ONCE, self.count)
            found[start:end] = self.part(start, end - start) @ vector
        found[self.count :] = self.behind @ vector
        return found

    def __getitem__(self, rows: Any) -> Any:
        """One row by its number, or several by a list."""
        if isinstance(rows, (list, np.ndarray)):
            return np.stack([self[int(row)] for row in rows])
        return self.part(int(rows), 1)[0] if rows < self.count else self.behind[rows - self.count]
