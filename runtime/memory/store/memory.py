"""The store in memory: for tests and throwaway data; the store of files builds on it."""

from __future__ import annotations

import itertools
import json
import sqlite3
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.memory.store.filters import Where
from runtime.memory.store.record import Row, parsed
from runtime.memory.store.shelf import Fault, Hit, ordered
from runtime.memory.store.words import Words

if TYPE_CHECKING:
    from runtime.memory.store.matrix import Matrix

_made = itertools.count()


class MemoryKeeper:
    """Rows in dicts; a transaction remembers what it replaced."""

    place = "memory"

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Row]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._names: dict[int, str] = {}
        self._matrices: dict[tuple[str, str], Matrix] = {}
        self._words = Words(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
        self._undo: list[tuple[str, str, Row | None]] | None = None
        self._changes: list[tuple[str, str]] = []
        self._made = next(_made)  # marks of another keeper mean nothing here

    # ---- writing -----------------------------------------------------------------------------------------

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows; the indexes follow."""
        for row in rows:
            self._set(row.kind, row.id, row)

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Delete rows."""
        there = [id for id in dict.fromkeys(ids) if id in self._rows.get(kind, {})]
        for id in there:
            self._set(kind, id, None)
        return len(there)

    def _set(self, kind: str, id: str, row: Row | None) -> None:
        rows = self._rows.setdefault(kind, {})
        old = rows.pop(id, None) if row is None else rows.get(id)
        if row is not None:
            rows[id] = row
        if self._undo is not None:
            self._undo.append((kind, id, old))
        if (old is None) != (row is None):
            self._sorted.pop(kind, None)
        self._changes.append((kind, id))
        self._index(kind, id, old, row)

    def _index(self, kind: str, id: str, old: Row | None, row: Row | None) -> None:
        number = self._numbers.setdefault((kind, id), len(self._numbers) + 1)
        self._names[number] = id
        if (row.text if row else "") != (old.text if old else ""):
            self._words.put(kind, number, row.text if row else "")
        for embedder in {*(old.vectors if old else ()), *(row.vectors if row else ())}:
            if (matrix := self._matrices.get((kind, embedder))) is not None:
                matrix.put(number, row.vectors.get(embedder) if row else None)

    def begin(self) -> None:
        """From now on remember what is replaced."""
        self._undo = []

    def commit(self) -> None:
        """Forget what was replaced."""
        self._undo = None

    def rollback(self) -> None:
        """Restore what was replaced, the last first."""
        undo, self._undo = self._undo or [], None
        before = len(self._changes) - len(undo)
        for kind, id, old in reversed(undo):
            self._set(kind, id, old)
        del self._changes[before:]

    def touched(self) -> dict[tuple[str, str], Row | None]:
        """Each row that this transaction wrote, as it is now."""
        return {(kind, id): self._rows.get(kind, {}).get(id) for kind, id, _ in self._undo or []}

    # ---- reading -----------------------------------------------------------------------------------------

    def refresh(self, kind: str = "") -> None:
        """Notice what others changed in a kind, or in all; nobody else can change rows in memory."""

    def read(self, kind: str, ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows that exist."""
        self.refresh(kind)
        rows = self._rows.get(kind, {})
        return {id: rows[id] for id in ids if id in rows}

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """The values of these fields."""
        bodies = {id: parsed(row.body) or {} for id, row in self.read(kind, ids).items()}
        return {id: json.dumps([body.get(name) for name in names]) for id, body in bodies.items() if body}

    def page(
        self, kind: str, where: Where, after: str | None, most: int, vectors: bool = True
    ) -> tuple[list[Row], str | None]:
        """Rows by id."""
        self.refresh(kind)
        rows = self._rows.get(kind, {})
        names = self._sorted.setdefault(kind, sorted(rows))
        start = 0 if after is None else bisect_right(names, after)
        taken = names[start : start + most]
        return [rows[id] for id in taken], taken[-1] if start + most < len(names) else None

    def nearest(self, kind: str, embedder: str, vector: bytes, most: int) -> list[Hit]:
        """By a matrix that is built at the first question."""
        self.refresh(kind)
        import numpy as np

        from runtime.memory.store.matrix import Matrix

        if (matrix := self._matrices.get((kind, embedder))) is None:
            matrix = self._matrices[kind, embedder] = Matrix()
            for id, row in self._rows.get(kind, {}).items():
                matrix.put(self._numbers[kind, id], row.vectors.get(embedder))
        return ordered(matrix.nearest(np.frombuffer(vector, "<f4"), most), self._names, most)

    def search(self, kind: str, text: str, most: int) -> list[Hit]:
        """By BM25."""
        self.refresh(kind)
        return ordered(self._words.find(kind, text, most), self._names, most, digits=12)

    def kinds(self) -> Mapping[str, int]:
        """The number of rows of each kind."""
        self.refresh()
        return {kind: len(rows) for kind, rows in sorted(self._rows.items()) if rows}

    def mark(self) -> tuple[int, int]:
        """Which keeper this is, and the number of its changes."""
        self.refresh()
        return self._made, len(self._changes)

    def since(self, mark: Any, until: Any = None) -> list[tuple[str, str]] | None:
        """The changes between two marks of this keeper."""
        (made, first), (_, last) = mark, until or self.mark()
        return list(dict.fromkeys(self._changes[first:last])) if made == self._made else None

    def beside(self, name: str) -> None:
        """There is no place for files."""

    # ---- care --------------------------------------------------------------------------------------------

    def faults(self) -> list[Fault]:
        """Nothing in memory can be broken."""
        return []

    def rebuild(self) -> list[Fault]:
        """Rebuild matrices and tables of words."""
        self._matrices.clear()
        for kind in self._words.kinds():
            self._words.forget(kind)
        for kind, rows in self._rows.items():
            for id, row in rows.items():
                self._words.put(kind, self._numbers[kind, id], row.text)
        return []

    def close(self) -> None:
        """Nothing is open."""
