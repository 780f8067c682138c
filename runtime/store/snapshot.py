"""A matrix of vectors as a file beside the database, mapped into memory: a process begins with it at once.

It is only a copy, made by whoever had to read many vectors; what changed since is read from the database. A
file that does not fit the database, or is not whole, is not used.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernel import disk
from runtime.store.matrix import Matrix

LEAST = 20_000
"""Vectors from which on it is worth a file."""
SHARE = 0.2
"""Of them must have been read from the database before the file is written anew."""
_HEAD = 256


@dataclass(frozen=True)
class Snapshot:
    """Up to which change of which epoch the matrix is."""

    matrix: Matrix
    change: int


def load(path: Path, epoch: int) -> Snapshot | None:
    """The matrix of this epoch, if there is one."""
    try:
        with path.open("rb") as file:
            told = json.loads(file.read(_HEAD))
        count, size = int(told["count"]), int(told["size"])
        if told["epoch"] != epoch or path.stat().st_size != _HEAD + count * (8 + 4 * size):
            return None
        numbers = np.memmap(path, "<i8", "r", _HEAD, (count,))
        rows = np.memmap(path, "<f4", "c", _HEAD + 8 * count, (count, size))  # a change stays in this process
        return Snapshot(Matrix.of(numbers, rows), int(told["change"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, matrix: Matrix, epoch: int, change: int) -> None:
    """Write it whole or not at all; a full disk is no reason to stop."""
    numbers, rows = matrix.content()
    head = {"epoch": epoch, "change": change, "count": len(numbers), "size": matrix.size}
    temporary = disk.beside(path)
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(head).ljust(_HEAD).encode())
            numbers.astype("<i8").tofile(file)
            rows.astype("<f4", copy=False).tofile(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600)
        disk.move(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
