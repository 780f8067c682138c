"""The nearest of many vectors without looking at all of them, for the time of a stage.

Vectors lie in cells around some of them, and a search looks into the nearest cells. With √n cells a dream
over n observations compares n·√n pairs instead of n². Up to `FEW` vectors all are in one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

FEW = 2_000
"""Vectors up to which all are compared."""
PROBED = 12
"""Cells that a search looks into."""


class Nearness:
    """Vectors of unit length by id."""

    def __init__(self, rows: Sequence[tuple[str, Any]] = (), coming: Sequence[Any] = ()) -> None:
        """Holds `rows`; `coming` are vectors like those that will be added."""
        samples = [*(row for _, row in rows), *coming]
        self._centres: Any = None
        if len(samples) > FEW:
            count = int(len(samples) ** 0.5) + 1
            self._centres = np.array([samples[n * len(samples) // count] for n in range(count)], np.float32)
        self._cells: dict[int, tuple[list[str], Any]] = {}  # ids, and a matrix with room for more rows
        for id, row in rows:
            self.add(id, row)

    def items(self) -> list[tuple[str, Any]]:
        """All ids and their vectors."""
        return [pair for ids, matrix in self._cells.values() for pair in zip(ids, matrix, strict=False)]

    def add(self, id: str, vector: Any) -> None:
        """Add a vector; ids are not repeated."""
        cell = 0 if self._centres is None else int(_products(self._centres, vector).argmax())
        ids, matrix = self._cells.get(cell) or ([], np.zeros((8, len(vector)), np.float32))
        if len(ids) == len(matrix):
            matrix = np.vstack([matrix, np.zeros_like(matrix)])
        matrix[len(ids)] = vector
        ids.append(id)
        self._cells[cell] = ids, matrix

    def find(self, vector: Any, limit: int) -> list[tuple[str, float]]:
        """The nearest and their cosines, the nearest first."""
        cells = [0]
        if self._centres is not None:
            products = _products(self._centres, vector)
            cells = np.argpartition(-products, min(PROBED, len(products) - 1))[:PROBED].tolist()
        hits: list[tuple[str, float]] = []
        for ids, matrix in (self._cells[cell] for cell in cells if cell in self._cells):
            products = _products(matrix[: len(ids)], vector)
            best = np.argpartition(-products, limit - 1)[:limit] if limit < len(ids) else range(len(ids))
            hits += ((ids[int(row)], float(products[row])) for row in best)
        return sorted(hits, key=lambda each: (-each[1], each[0]))[:limit]


def _products(matrix: Any, vector: Any) -> Any:
    """Without BLAS, whose threads cost more than they save on so little."""
    return np.einsum("ij,j->i", matrix, vector)
