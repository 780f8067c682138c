"""The shelf in memory: for tests, for what is thrown away, and behind the shelf of files."""

from __future__ import annotations

import itertools
import sqlite3
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.store.cells import values_of
from runtime.store.record import Row, Where
from runtime.store.shelf import Fault, Hit
from runtime.store.words import Words

if TYPE_CHECKING:
    from runtime.store.matrix import Matrix


class MemoryKeeper:
    """Rows in dicts; a transaction keeps what it replaced."""

    place = "memory"

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Row]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._names: dict[int, str] = {}
        self._next = itertools.count(1)
        self._matrices: dict[tuple[str, str], Matrix] = {}
        self._words = Words(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        self._undo: list[tuple[str, str, Row | None]] | None = None
        self._changes = 0

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows in; the indexes follow."""
        for row in rows:
            self._set(row.kind, row.id, row)

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Take rows out."""
        there = [id for id in dict.fromkeys(ids) if id in self._rows.get(kind, {})]
        for id in there:
            self._set(kind, id, None)
        return len(there)

    def _set(self, kind: str, id: str, row: Row | None) -> None:
        rows = self._rows.setdefault(kind, {})
        old = rows.get(id)
        if self._undo is not None:
            self._undo.append((kind, id, old))
        if (old is None) != (row is None):
            self._sorted.pop(kind, None)
        self._changes += 1
        if row is None:
            rows.pop(id, None)
        else:
            rows[id] = row
        self._index(kind, id, old, row)

    def _index(self, kind: str, id: str, old: Row | None, row: Row | None) -> None:
        number = self._numbers.get((kind, id))
        if number is None:
            number = self._numbers[kind, id] = next(self._next)
            self._names[number] = id
        if (row.text if row else "") != (old.text if old else ""):
            self._words.put(kind, number, row.text if row else "")
        for embedder in {*(old.vectors if old else ()), *(row.vectors if row else ())}:
            if (matrix := self._matrices.get((kind, embedder))) is not None:
                raw = row.vectors.get(embedder) if row else None
                if raw is None:
                    matrix.drop(number)
                else:
                    matrix.put(number, raw)

    def read(self, kind: str, ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows that there are."""
        rows = self._rows.get(kind, {})
        return {id: rows[id] for id in ids if id in rows}

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """The values of these fields."""
        return {id: values_of(row.body, names) for id, row in self.read(kind, ids).items()}

    def page(
        self, kind: str, where: Where, after: str | None, most: int, vectors: bool = True
    ) -> tuple[list[Row], str | None]:
        """Rows by id."""
        rows = self._rows.get(kind, {})
        names = self._sorted.setdefault(kind, sorted(rows))
        start = 0 if after is None else bisect_right(names, after)
        taken = names[start : start + most]
        return [rows[id] for id in taken], taken[-1] if start + most < len(names) else None

    def nearest(self, kind: str, embedder: str, vector: bytes, most: int) -> list[Hit]:
        """By a matrix that is made at the first question."""
        import numpy as np

        from runtime.store.matrix import Matrix

        if (matrix := self._matrices.get((kind, embedder))) is None:
            matrix = self._matrices[kind, embedder] = Matrix()
            for id, row in self._rows.get(kind, {}).items():
                if embedder in row.vectors:
                    matrix.put(self._numbers[kind, id], row.vectors[embedder])
        return ordered(matrix.nearest(np.frombuffer(vector, "<f4"), most), self._names, most)

    def search(self, kind: str, text: str, most: int) -> list[Hit]:
        """By BM25."""
        return ordered(self._words.find(kind, text, most), self._names, most, digits=12)

    def kinds(self) -> Mapping[str, int]:
        """How many rows of each kind there are."""
        return {kind: len(rows) for kind, rows in sorted(self._rows.items()) if rows}

    def mark(self) -> object:
        """How many changes there were."""
        return self._changes

    def since(self, mark: object) -> None:
        """Not known."""

    def beside(self, name: str) -> None:
        """Nowhere."""

    def begin(self) -> None:
        """Keep from now on what is replaced."""
        self._undo = []

    def commit(self) -> None:
        """Nothing can be taken back any more."""
        self._undo = None

    def rollback(self) -> None:
        """Put back what was replaced, the last first."""
        undo, self._undo = self._undo or [], None
        for kind, id, old in reversed(undo):
            self._set(kind, id, old)

    def touched(self) -> dict[tuple[str, str], Row | None]:
        """What this transaction has made of each row that it wrote."""
        return {(kind, id): self._rows.get(kind, {}).get(id) for kind, id, _ in self._undo or []}

    def faults(self) -> list[Fault]:
        """Nothing in memory can be broken."""
        return []

    def rebuild(self) -> list[Fault]:
        """Make matrices and tables of words anew."""
        self._matrices.clear()
        for kind in self._words.kinds():
            self._words.forget(kind)
        for kind, rows in self._rows.items():
            for id, row in rows.items():
                self._words.put(kind, self._numbers[kind, id], row.text)
        return []

    def close(self) -> None:
        """Nothing is held."""


def ordered(
    found: Sequence[tuple[int, float]], names: Mapping[int, str], most: int, *, digits: int = 6
) -> list[Hit]:
    """Hits by score, then by id; products of float32 that differ by less than it can tell count as equal."""
    hits = [Hit(names[number], score) for number, score in found if number in names]
    return sorted(hits, key=lambda hit: (-round(hit.score, digits), hit.id))[:most]
