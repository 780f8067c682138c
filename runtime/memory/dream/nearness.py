"""The nearest of many vectors without looking at all of them, for the time of a stage.

Vectors lie in cells around some of them; a search looks into the cells that are nearest. With √n cells a
dream over n observations compares n·√n pairs and not n². Up to `FEW` vectors everything is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FEW = 2_000
"""Vectors that are all looked at: the products of fewer cost less than choosing among them."""
PROBED = 12
"""Cells that a search looks into."""


class Nearness:
    """Vectors of unit length by id; one that is put again is moved."""

    def __init__(self, expected: int, centres: Sequence[Any] = ()) -> None:
        """`expected` vectors may come, and `centres` are some that lie as they will."""
        self._centres: Any = None
        if expected > FEW and len(centres) > 1:
            import numpy as np

            count = min(len(centres), int(expected**0.5) + 1)
            chosen = [centres[place * len(centres) // count] for place in range(count)]
            self._centres = np.array(chosen, np.float32)
        self._cells: dict[int, _Cell] = {}
        self._at: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    def items(self) -> list[tuple[str, Any]]:
        """All ids and their vectors."""
        return [(id, cell.matrix[row]) for cell in self._cells.values() for id, row in cell.rows.items()]

    def put(self, id: str, vector: Any) -> None:
        """Take a vector in."""
        cell = 0 if self._centres is None else int(_products(self._centres, vector).argmax())
        before = self._at.get(id)
        if before is not None and before != cell:
            self._cells[before].drop(id)
        self._at[id] = cell
        self._cells.setdefault(cell, _Cell()).put(id, vector)

    def find(self, vector: Any, limit: int) -> list[tuple[str, float]]:
        """The nearest and their cosines, the nearest first."""
        import numpy as np

        if self._centres is None:
            cells = [0]
        else:
            products = _products(self._centres, vector)
            most = min(PROBED, len(products))
            cells = np.argpartition(-products, most - 1)[:most].tolist()
        found = [
            hit for cell in cells if cell in self._cells for hit in self._cells[cell].find(vector, limit)
        ]
        return sorted(found, key=lambda each: (-each[1], each[0]))[:limit]


class _Cell:
    """Some vectors, in a matrix that grows by doubling."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.matrix: Any = None

    def put(self, id: str, vector: Any) -> None:
        import numpy as np

        row = self.rows.get(id)
        if row is None:
            row = self.rows[id] = len(self.ids)
            self.ids.append(id)
        if self.matrix is None:
            self.matrix = np.zeros((8, len(vector)), np.float32)
        elif row >= len(self.matrix):
            self.matrix = np.vstack([self.matrix, np.zeros_like(self.matrix)])
        self.matrix[row] = vector

    def drop(self, id: str) -> None:
        row = self.rows.pop(id)
        last = self.ids.pop()
        if last != id:
            self.ids[row], self.rows[last] = last, row
            self.matrix[row] = self.matrix[len(self.ids)]

    def find(self, vector: Any, limit: int) -> list[tuple[str, float]]:
        import numpy as np

        count = len(self.ids)
        if not count:
            return []
        products = _products(self.matrix[:count], vector)
        best = np.argpartition(-products, limit - 1)[:limit] if limit < count else range(count)
        return [(self.ids[int(row)], float(products[row])) for row in best]


def _products(matrix: Any, vector: Any) -> Any:
    """Without the threads of BLAS, which cost more than they bring for so little."""
    import numpy as np

    return np.einsum("ij,j->i", matrix, vector)
