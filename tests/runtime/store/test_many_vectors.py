"""Beyond very many vectors an index of usearch answers, nearly as the exact look at all of them does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shelves import Note, unit

from runtime.store import Shelf, open_shelf, pack
from runtime.store.snapshot import LEAST
from runtime.store.sqlite import SqliteKeeper

SIZE = 48


def clustered(count: int) -> Any:
    """Vectors that lie together as those of texts do."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(2000, SIZE)).astype(np.float32)
    rows = centres[rng.integers(len(centres), size=count)] + 0.6 * rng.normal(size=(count, SIZE))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def opened(folder: Path) -> Shelf:
    """A shelf that has very many vectors sooner than others."""
    return Shelf(SqliteKeeper(folder / "brain.sqlite3", fsync=False, many=8000))


def filled(folder: Path, rows: Any) -> Shelf:
    shelf = opened(folder)
    for start in range(0, len(rows), 5000):
        part = rows[start : start + 5000]
        shelf.put(*(Note(id=f"{start + n:06}", vectors={"m": pack(row)}) for n, row in enumerate(part)))
    return shelf


def test_beyond_very_many_vectors_an_index_finds_what_matters(tmp_path: Path) -> None:
    pytest.importorskip("usearch", reason="usearch is not installed (extra ann)")
    rows = clustered(12_000)
    with closing(filled(tmp_path, rows)) as shelf:
        shelf.rebuild()
        assert len(list(tmp_path.glob("*.usearch"))) == 1
        queries = rows[::150] + 0.02
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        found = 0
        for query in queries:
            known = {f"{n:06}" for n in np.argsort(-(rows @ query))[:10]}
            hits = shelf.nearest(Note, "m", query, 10)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            found += len(known & {hit.id for hit in hits})
        assert found / (10 * len(queries)) >= 0.98
        best = shelf.nearest(Note, "m", rows[7], 1)[0].id
        assert best == "000007"
        shelf.delete(Note, best)  # what changed after the index was made is looked at exactly
        shelf.put(
            Note(id="new", vectors={"m": pack(rows[7])}), Note(id="000008", vectors={"m": pack(rows[7])})
        )
        assert [hit.id for hit in shelf.nearest(Note, "m", rows[7], 2)] == ["000008", "new"]
        assert shelf.nearest(Note, "m", rows[8], 1)[0].id != "000008"
    with closing(opened(tmp_path)) as shelf:
        assert [hit.id for hit in shelf.nearest(Note, "m", rows[7], 2)] == ["000008", "new"]
        (index,) = tmp_path.glob("*.usearch")
        index.write_bytes(index.read_bytes()[:1000])
    with closing(opened(tmp_path)) as shelf:  # a broken index is not used
        assert [hit.id for hit in shelf.nearest(Note, "m", rows[7], 2)] == ["000008", "new"]


def test_a_process_begins_with_the_matrix_that_another_wrote(tmp_path: Path) -> None:
    rows = clustered(LEAST + 100)
    with closing(open_shelf("sqlite", tmp_path, fsync=False)) as shelf:
        shelf.put(*(Note(id=f"{n:06}", vectors={"m": pack(row)}) for n, row in enumerate(rows)))

    def best(most: int = 3) -> list[str]:
        with closing(open_shelf("sqlite", tmp_path)) as shelf:
            return [hit.id for hit in shelf.nearest(Note, "m", rows[7], most)]

    before = best()
    (kept,) = tmp_path.glob("*.matrix")
    with closing(
        sqlite3.connect(tmp_path / "brain.sqlite3")
    ) as base:  # so it is not from there that they come
        base.execute("UPDATE vectors SET vector = X'00' WHERE number != 8")
        base.commit()
    assert best() == before
    with closing(open_shelf("sqlite", tmp_path)) as shelf:
        shelf.put(
            Note(id="000008", vectors={"m": pack(rows[7])}), Note(id="new", vectors={"m": pack(rows[7])})
        )
        shelf.delete(Note, before[1])
    assert best() == ["000007", "000008", "new"]
    raw = kept.read_bytes()
    for broken in (raw[:-1], b"{" * 256 + raw[256:], b"", raw[:100]):
        kept.write_bytes(broken)
        assert best(9)[:3] == ["000007", "000008", "new"]
    with closing(open_shelf("sqlite", tmp_path)) as shelf:
        shelf.rebuild()
    assert best() == ["000007", "000008", "new"]


def test_up_to_that_many_every_vector_is_looked_at(tmp_path: Path) -> None:
    with closing(filled(tmp_path, clustered(300))) as shelf:
        shelf.rebuild()
        assert list(tmp_path.glob("*.usearch")) == []


def test_vectors_of_one_process_are_read_once(tmp_path: Path) -> None:
    """Only what changed is read for the next question: the rest may be unreadable by then."""
    with closing(filled(tmp_path, clustered(300))) as shelf:
        before = shelf.nearest(Note, "m", clustered(300)[5], 300)
        with closing(sqlite3.connect(tmp_path / "brain.sqlite3")) as base:
            base.execute("UPDATE vectors SET vector = X'00' WHERE number > 1")
            base.commit()
        assert shelf.nearest(Note, "m", clustered(300)[5], 300) == before
        shelf.put(Note(id="new", vectors={"m": pack(unit(*range(1, SIZE + 1)))}))
        assert len(shelf.nearest(Note, "m", clustered(300)[5], 400)) == 301
