"""An index of many records as a file beside the store, so that a new process need not rebuild it.

It is only a cache: what the store has changed since is taken in. An incomplete file, or one made for other
words or vectors, is ignored. The file has arrays as `numpy.save` writes them, first of all JSON, and then the
vectors, which are read piece by piece to save memory.
"""

from __future__ import annotations

import dataclasses
import json
import os
from array import array
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kernel import disk
from runtime.memory.embed import Embedder
from runtime.memory.facts.retrieval.language import Language
from runtime.memory.facts.retrieval.rows import KINDS, ROW, Columns, Rows, digest

FORMAT = 6
LEAST = 5_000
"""Records from which a file is worth it."""
SHARE = 0.02
"""The share of new records from which the file is rewritten."""
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

    def part(self, start: int, count: int) -> Any:
        """`count` rows of the file from `start`."""
        raw = os.pread(self._file.fileno(), 4 * self.size * count, self._offset + 4 * self.size * start)
        return np.frombuffer(raw, "<f4").reshape(-1, self.size)

    def __matmul__(self, vector: Any) -> Any:
        """The dot product of each row, as an array has it."""
        starts = range(0, self.count, AT_ONCE)
        parts = (self.part(start, min(AT_ONCE, self.count - start)) for start in starts)
        return np.concatenate([*(part @ vector for part in parts), self.behind @ vector])

    def __getitem__(self, rows: Any) -> Any:
        """One row by its number, or several by a list."""
        if isinstance(rows, (list, np.ndarray)):
            return np.stack([self[int(row)] for row in rows])
        return self.part(int(rows), 1)[0] if rows < self.count else self.behind[rows - self.count]


def made_for(language: Language, embedder: Embedder | None) -> str:
    """What an index depends on besides the records."""
    lists = dataclasses.asdict(language)
    words = {name: sorted(each) if isinstance(each, frozenset) else each for name, each in lists.items()}
    name = f"{embedder.name} {embedder.size}" if embedder is not None else ""
    return f"{FORMAT} {name} {digest(json.dumps(words))}"


def load(path: Path, made: str, read: Any) -> tuple[Rows, Any, list[int], Any] | None:
    """The rows, their vectors, the living ones and the mark of the store, if there is a file for this."""
    try:
        with path.open("rb") as file:
            head = json.loads(np.load(file).tobytes())
            if head["made"] != made:
                return None
            table, alive, signs, spans, ends, having, counts = (np.load(file) for _ in range(7))
            begin, size = file.tell(), head["size"]
        if path.stat().st_size != begin + 4 * size * len(table):
            return None
        table, names = table.view(ROW), list(KINDS)
        rows = Rows(
            read,
            keys=[(names[kind], id) for kind, id in zip(table["kind"].tolist(), head["ids"], strict=True)],
            signs=array("q", signs.tobytes()),
            speakers=head["speakers"],
            threads=head["threads"],
            nodes=head["nodes"],
            named=head["named"],
            postings={
                term: (array("i", having[a:b].tobytes()), array("H", counts[a:b].tobytes()))
                for term, (a, b) in zip(head["terms"], pairwise(ends.tolist()), strict=True)
            },
            table=table,
            spans=spans,
        )
        vectors = Vectors(path, begin, len(rows), size) if size else None
        return rows, vectors, alive.nonzero()[0].tolist(), head["mark"]
    except (OSError, EOFError, ValueError, LookupError, TypeError):
        return None  # it is rebuilt


def save(path: Path, made: str, mark: Any, rows: Rows, columns: Columns) -> None:
    """Write the index whole or not at all; a full disk is ignored."""
    vectors = columns.vectors
    if isinstance(vectors, Vectors):
        parts = [vectors.part(0, vectors.count), vectors.behind]
    else:
        parts = [np.zeros((0, 0), np.float32) if vectors is None else vectors]
    head = {
        "made": made,
        "mark": mark,
        "size": parts[0].shape[1],
        "ids": [id for _, id in rows.keys],
        "speakers": rows.speakers,
        "threads": rows.threads,
        "nodes": rows.nodes,
        "named": rows.named,
        "terms": list(rows.postings),
    }
    having, counts = zip(*rows.postings.values(), strict=True) if rows.postings else ((), ())
    arrays = (
        np.frombuffer(json.dumps(head).encode(), np.uint8),
        rows.table.view(f"V{ROW.itemsize}"),
        columns.alive,
        np.array(rows.signs, np.int64),
        rows.spans,
        np.cumsum([0, *map(len, counts)], dtype=np.int64),
        np.concatenate([np.zeros(0, np.int32), *having]),
        np.concatenate([np.zeros(0, np.uint16), *counts]),
    )
    temporary = disk.temporary_path(path)
    try:
        with temporary.open("wb") as file:
            for each in arrays:
                np.save(file, each)
            for part in parts:
                file.write(np.ascontiguousarray(part).data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600)
        disk.move(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
