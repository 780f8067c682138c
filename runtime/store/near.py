"""Nearness over the vectors of a SQLite file: a matrix for each kind and embedder that reads only the news.

Beyond `MANY` vectors an index of usearch answers where one was made (`fractal brain rebuild`); what came
after it is looked at exactly, and what it finds is ordered by exact products.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kernel import disk
from runtime.store import snapshot
from runtime.store.matrix import Matrix
from runtime.store.record import Vector

MANY = 100_000
"""Vectors of a kind up to which every one is looked at."""
AT_ONCE = 5000
"""Vectors that are read at a time."""
WIDER = 8
"""How many times more an index is asked for than is wanted, before the exact products choose."""
CONNECTIVITY, EFFORT_BUILD, EFFORT_FIND = 32, 256, 384
"""Of the index: links of a vector, and vectors looked at when one is put in and when one is looked for."""


@dataclass
class _Held:
    """What of one kind and embedder is in memory, up to which change."""

    matrix: Matrix = field(default_factory=Matrix)
    change: int = 0
    epoch: int = -1
    index: Any = None
    newer: set[int] = field(default_factory=set)


class Near:
    """All matrices of one file."""

    def __init__(self, base: sqlite3.Connection, path: Path, many: int = MANY) -> None:
        self._base = base
        self._many = many
        self._path = path
        self._held: dict[tuple[str, str], _Held] = {}

    def forget(self) -> None:
        """Read again at the next question."""
        self._held.clear()

    def find(self, kind: str, embedder: str, raw: bytes, most: int) -> list[tuple[int, float]]:
        """Numbers and products, the highest first."""
        vector = np.frombuffer(raw, "<f4")
        held = self._fresh(kind, embedder)
        found = held.matrix.nearest(vector, most)
        if held.index is None or len(vector) != held.index.ndim:
            return found
        numbers = held.index.search(vector, most * WIDER + len(held.newer)).keys
        older = [int(number) for number in numbers if int(number) not in held.newer][: most * WIDER]
        return sorted([*found, *self._exactly(embedder, vector, older)], key=lambda each: (-each[1], each[0]))

    def _exactly(self, embedder: str, vector: Vector, numbers: list[int]) -> list[tuple[int, float]]:
        matrix = Matrix()
        for start in range(0, len(numbers), 500):
            part = numbers[start : start + 500]
            marks = ",".join("?" * len(part))
            query = f"SELECT number, vector FROM vectors WHERE embedder = ? AND number IN ({marks})"
            for number, raw in self._base.execute(query, (embedder, *part)):
                if raw is not None:
                    matrix.put(number, raw)
        return matrix.nearest(vector, len(numbers))

    def _fresh(self, kind: str, embedder: str) -> _Held:
        """The matrix with what has changed since, by whatever process: one look into an index of SQLite."""
        (epoch,) = self._base.execute("SELECT value FROM counters WHERE name = 'epoch'").fetchone()
        held = self._held.get((kind, embedder))
        if held is None or held.epoch != epoch:
            held = self._held[kind, embedder] = _Held(epoch=epoch)
            self._open_index(kind, embedder, held)
            if held.index is None and (kept := snapshot.load(self._files(kind, embedder)[2], epoch)):
                held.matrix, held.change = kept.matrix, kept.change
        self._take_news(kind, embedder, held)
        return held

    def _take_news(self, kind: str, embedder: str, held: _Held) -> None:
        if not len(held.matrix):
            (count, size) = self._base.execute(
                "SELECT count(*), max(length(vector)) FROM vectors "
                "WHERE kind = ? AND embedder = ? AND change > ?",
                (kind, embedder, held.change),
            ).fetchone()
            held.matrix.reserve(count, (size or 0) // 4)
        news = self._base.execute(
            "SELECT number, vector, change FROM vectors WHERE kind = ? AND embedder = ? AND change > ? "
            "ORDER BY change",
            (kind, embedder, held.change),
        )
        change, read = held.change, 0
        while rows := news.fetchmany(AT_ONCE):
            change, read = rows[-1][2], read + len(rows)
            if held.index is not None:
                held.newer.update(number for number, _, _ in rows)
            for number, raw, _ in rows:
                if raw is None:
                    held.matrix.drop(number)
            there = [(number, raw) for number, raw, _ in rows if raw is not None]
            held.matrix.fill([number for number, _ in there], [raw for _, raw in there])
        held.change = change  # only now: who is interrupted reads it all again
        worth = max(snapshot.LEAST, len(held.matrix)) * snapshot.SHARE
        if len(held.matrix) >= snapshot.LEAST and read > worth and not self._base.in_transaction:
            snapshot.save(self._files(kind, embedder)[2], held.matrix, held.epoch, change)

    # ---- the index -----------------------------------------------------------------------------------------

    def _files(self, kind: str, embedder: str) -> tuple[Path, Path, Path]:
        plain = "".join(
            sign if sign.isalnum() and sign.isascii() else f"_{ord(sign):x}_" for sign in embedder
        )
        stem = f"{self._path.stem}.{kind}.{plain}"
        index, about, matrix = (f"{stem}.{ending}" for ending in ("usearch", "usearch.json", "matrix"))
        return self._path.with_name(index), self._path.with_name(about), self._path.with_name(matrix)

    def _open_index(self, kind: str, embedder: str, held: _Held) -> None:
        """Map the index that fits, if there is one and who reads it."""
        path, about, _ = self._files(kind, embedder)
        if not about.is_file() or find_spec("usearch") is None:
            return
        try:
            told = json.loads(about.read_bytes())
            if told["epoch"] != held.epoch or told["size"] != path.stat().st_size:
                return
            held.index = _index().restore(str(path), view=True)
            held.index.expansion_search = EFFORT_FIND
            held.change = told["change"]
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            held.index = None  # every vector is looked at instead

    def build(self) -> list[str]:
        """Make an index for each kind and embedder that has very many vectors; returns which."""
        (epoch,) = self._base.execute("SELECT value FROM counters WHERE name = 'epoch'").fetchone()
        query = "SELECT kind, embedder, count(*) FROM vectors WHERE vector NOTNULL GROUP BY kind, embedder"
        made: list[str] = []
        for kind, embedder, count in self._base.execute(query).fetchall():
            path, about, matrix = self._files(kind, embedder)
            matrix.unlink(missing_ok=True)
            about.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            if count > self._many and find_spec("usearch"):
                change = self._build(kind, embedder, path)
                told = {"epoch": epoch, "change": change, "size": path.stat().st_size}
                disk.put(about, json.dumps(told).encode(), mode=0o600)
                made.append(f"{kind} {embedder}")
        self.forget()
        return made

    def _build(self, kind: str, embedder: str, path: Path) -> int:
        index: Any = None
        change, last = 0, 0
        while True:
            rows = self._base.execute(
                "SELECT number, vector, change FROM vectors WHERE kind = ? AND embedder = ? "
                "AND vector NOTNULL AND number > ? ORDER BY number LIMIT 20000",
                (kind, embedder, last),
            ).fetchall()
            if not rows:
                break
            last, change = rows[-1][0], max(change, *(row[2] for row in rows))
            size = len(rows[0][1]) // 4
            if index is None:
                index = _index()(
                    ndim=size,
                    metric="ip",
                    dtype="f16",
                    connectivity=CONNECTIVITY,
                    expansion_add=EFFORT_BUILD,
                    expansion_search=EFFORT_FIND,
                )
            rows = [row for row in rows if len(row[1]) == index.ndim * 4]
            vectors = np.frombuffer(b"".join(row[1] for row in rows), "<f4").reshape(-1, index.ndim)
            index.add(np.array([row[0] for row in rows], np.uint64), vectors)
        temporary = disk.beside(path)
        index.save(str(temporary))
        disk.move(temporary, path)
        return change


def _index() -> Any:
    return import_module("usearch.index").Index
