"""The index of observations and memories, updated with each change.

A row is one version of a record: a changed record gets a new row, and the old one is dead. An index of which
most rows are dead is built again. One of many records is stored in a file: see `index_file`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.retrieval import index_file
from runtime.memory.facts.retrieval.language import Language
from runtime.memory.facts.retrieval.passages import (
    Meaning,
    Passage,
    forget,
    name,
    opened,
    passage_of,
)
from runtime.memory.facts.retrieval.rows import KINDS, Columns, Entry, Rows, digest, entry_of
from runtime.memory.facts.retrieval.times import Times
from runtime.memory.store import Shelf

AT_ONCE = 64
"""Records per transaction."""


@dataclass
class Index:
    """The index of one shelf for one embedder; without one it has only words."""

    shelf: Shelf
    embedder: Embedder | None
    language: Language

    def __post_init__(self) -> None:
        self.times = Times(self.language)
        self.rows = Rows(self._read)
        self.at: dict[tuple[str, str], int] = {}  # the living row of each record
        self.meant: dict[int, Meaning] = {}
        self._stored: Any = None  # the vectors of the first rows, if these were read from the file
        self._fresh = 0  # records taken in since the file was written
        self._since: Any = None  # the mark of the store up to which all is taken in
        self._columns: Columns | None = None

    def _read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Entry]:
        """Entries of the shelf; an empty one for a record deleted meanwhile."""
        found: dict[tuple[str, str], Entry] = {}
        for kind in KINDS:
            ids = [id for of, id in keys if of == kind]
            there = self.shelf.fields(KINDS[kind], ids)
            for id in ids:
                found[kind, id] = entry_of(kind, id, there.get(id, {})) or Entry(kind, id)
        return found

    def refresh(self) -> None:
        """Update from what has changed on the shelf."""
        mark = self.shelf.keeper.mark()
        now, changed = self.shelf.news(self._since)
        if changed is None or len(self.rows) > 2 * len(self.at) + 64:  # most rows are dead
            changed = self._start(self._since is None)
        for kind in KINDS:
            ids = [id for of, id in changed if of == kind]
            for start in range(0, len(ids), AT_ONCE):
                self._look_at(kind, ids[start : start + AT_ONCE])
        if self._columns is None:
            rows = [row for row in self.at.values() if row >= self._known and row not in self.meant]
            self._understand(rows, first=not self.meant and not self._known)
        self._since = now
        self._keep(mark)

    def _start(self, use_file: bool) -> Sequence[tuple[str, str]]:
        """Begin with what the file has, or with nothing; returns the records to look at."""
        path, changed = self._file, None
        found = index_file.load(path, self._made_for, self._read) if use_file and path else None
        if found is not None:
            self.rows, self._stored, living, mark = found
            self.at = {self.rows.keys[row]: row for row in living}
            changed = self.shelf.keeper.since(mark)
        if changed is None:
            self.rows, self._stored, self.at = Rows(self._read), None, {}
            changed = [(kind, row.id) for kind in KINDS for row in self.shelf.rows(kind, vectors=False)]
        self.meant, self._columns, self._fresh = {}, None, 0
        return changed

    def _look_at(self, kind: str, ids: Sequence[str]) -> None:
        there = self.shelf.fields(KINDS[kind], ids)
        self._fresh += len(ids)
        for id in ids:
            row = self.at.get((kind, id))
            entry = entry_of(kind, id, there[id]) if id in there else None
            if entry is not None and row is not None and self.rows.signs[row] == entry.sign:
                self.rows.entries[row] = entry
                continue
            self._columns = None
            if row is not None:
                del self.at[kind, id]
                self.meant.pop(row, None)
            if entry is not None:  # else deleted, or broken: the shelf reports that
                self.at[kind, id] = self.rows.add(entry, self.times)
        if gone := [id for id in ids if id not in there]:
            forget(self.shelf, kind, gone)

    @property
    def _file(self) -> Path | None:
        name = self.embedder.name if self.embedder is not None else "words"
        return self.shelf.keeper.beside(f"{digest(name) % 2**64:x}.recall")

    @property
    def _made_for(self) -> str:
        return index_file.made_for(self.language, self.embedder)

    def _keep(self, mark: object) -> None:
        """Write the file if much is new; not in a transaction, which may be rolled back."""
        many = len(self.at) >= index_file.LEAST and self._fresh >= index_file.SHARE * len(self.at)
        if many and not self.shelf.writing:
            if path := self._file:
                index_file.save(path, self._made_for, mark, self.rows, self.columns)
            self._fresh = 0

    @property
    def _known(self) -> int:
        """The number of rows that were read from the file."""
        return self._stored.count if self._stored is not None else 0

    def meanings(self, rows: Sequence[int]) -> dict[int, Meaning]:
        """The meanings of these rows, as far as known."""
        self._understand([row for row in rows if row not in self.meant and self.columns.alive[row]])
        return {row: self.meant[row] for row in rows if row in self.meant}

    def _understand(self, rows: Sequence[int], first: bool = False) -> None:
        """Read the passages of these rows, and make those that do not exist; at first, delete all others."""
        embedder, names = self.embedder, {name(*self.rows.keys[row]): row for row in rows}
        if not names or embedder is None:
            return
        found = self.shelf.scan(Passage) if first else self.shelf.pick(Passage, names)
        stored = {passage.id: passage for passage in found}
        self.shelf.delete(Passage, *(stored.keys() - names.keys()))
        self.rows.need(rows)
        missing: list[int] = []
        for id, row in names.items():
            passage = stored.get(id)
            meant = opened(passage, embedder, self.said(row)) if passage else None
            if meant is None:
                missing.append(row)
            else:
                self.meant[row] = meant
        for start in range(0, len(missing), AT_ONCE):
            made: list[Passage] = []
            for row in missing[start : start + AT_ONCE]:
                passage, self.meant[row] = passage_of(
                    embedder, self.language, *self.rows.keys[row], self.said(row)
                )
                made.append(passage)
            self.shelf.put(*made)

    def said(self, row: int) -> str:
        """The text that is embedded, with the speaker."""
        entry = self.rows[row]
        who = str(entry.fields.get("who") or "")
        return f"{who}: {entry.text}" if who else entry.text

    @property
    def columns(self) -> Columns:
        """The rows as arrays."""
        if self._columns is None:
            vectors = None
            if self.embedder is not None:
                vectors = np.zeros((len(self.rows) - self._known, self.embedder.size), np.float32)
                for row, meant in self.meant.items():
                    if row >= self._known:
                        vectors[row - self._known] = meant.whole
                vectors = self._stored.followed_by(vectors) if self._stored is not None else vectors
            self._columns = self.rows.columns(self.at.values(), vectors)
        return self._columns

    def counts(self, term: str) -> tuple[Any, Any]:
        """The rows that have a term, dead ones included, and how often."""
        rows, counts = self.rows.postings.get(term, (array("i"), array("H")))
        return np.frombuffer(rows, np.int32), np.frombuffer(counts, np.uint16)
