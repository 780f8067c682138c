"""A matrix of vectors as a file beside the database, mapped into memory: a process begins with it at once.

It is only a copy, made by whoever had to read many vectors; what changed since is read from the database. A
file that does not fit the database, or is not whole, is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime.store import arrays
from runtime.store.matrix import Matrix

LEAST = 20_000
"""Vectors from which on it is worth a file."""
SHARE = 0.2
"""Of them must have been read from the database before the file is written anew."""


@dataclass(frozen=True)
class Snapshot:
    """Up to which change of which epoch the matrix is."""

    matrix: Matrix
    change: int


def load(path: Path, epoch: int) -> Snapshot | None:
    """The matrix of this epoch, if there is one."""
    found = arrays.load(path)
    if found is None or found[0].get("epoch") != epoch:
        return None
    head, parts = found
    return Snapshot(Matrix.of(parts["numbers"], parts["rows"]), int(head["change"]))


def save(path: Path, matrix: Matrix, epoch: int, change: int) -> None:
    """Write it whole or not at all. A full disk is no error."""
    numbers, rows = matrix.content()
    parts = {"numbers": [numbers.astype("<i8")], "rows": [rows.astype("<f4", copy=False)]}
    arrays.save(path, {"epoch": epoch, "change": change}, parts)
