"""The index of observations and memories, updated with each change.

A row is one version of a record: a changed record gets a new row, and the old one is dead until the rows are
renumbered. An index of many records is stored in a file: see `index_file`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.graph import edges_of
from runtime.memory.facts.records import Edge, Memory
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
    at: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    meant: dict[int, Meaning] = field(default_factory=dict[int, Meaning])
    _kept: Any = None  # the vectors of the rows that were read from the file
    _fresh: int = 0  # taken in since the file was written
    _since: Any = None
    _columns: Columns | None = None
    _nodes: tuple[Columns, Any] | None = None

    def __post_init__(self) -> None:
        self.times = Times(self.language)
        self.rows = Rows(self._read)

    def _read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Entry]:
        """Entries of the shelf; an empty one for a record deleted meanwhile."""
        found: dict[tuple[str, str], Entry] = {}
        for kind in KINDS:
            there = self.shelf.told(KINDS[kind], [id for each, id in keys if each == kind])
            for known, id in keys:
                if known == kind:
                    entry = entry_of(kind, id, there.get(id) or {}, self.times)
                    found[kind, id] = entry or Entry(kind, id)
        return found

    # ---- what is new -------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Update from what has changed on the shelf."""
        mark = self.shelf.keeper.mark()
        now, changed = self.shelf.news(self._since)
        if changed is None and not len(self.rows) and (before := self._open()):
            changed = self.shelf.keeper.since(before)
        if changed is None:
            there = ((kind, row.id) for kind in KINDS for row in self.shelf.rows(kind, vectors=False))
            changed = list(dict.fromkeys((*there, *self.at)))
        for kind in KINDS:
            ids = [id for changed_kind, id in changed if changed_kind == kind]
            for start in range(0, len(ids), AT_ONCE):
                self._look_at(kind, ids[start : start + AT_ONCE])
        if self._columns is None:
            self._renumber()
            self._mean()
        self._since = now
        self._keep(mark)

    def _look_at(self, kind: str, ids: Sequence[str]) -> None:
        there = self.shelf.told(KINDS[kind], ids)
        self._fresh += len(ids)
        for id in ids:
            known, told = self.at.get((kind, id)), there.get(id)
            entry = entry_of(kind, id, told, self.times) if told else None
            if entry is not None and known is not None and self.rows.signs[known] == entry.sign:
                self.rows.put(known, entry)
                self._nodes = None
                continue
            row = self.at.pop((kind, id), None)
            self._columns = None
            if row is not None:
                self.meant.pop(row, None)
            if entry is not None:  # else deleted, or broken: the shelf reports that
                self._add(entry)
        if gone := [id for id in ids if id not in there]:
            forget(self.shelf, kind, gone)

    def _add(self, entry: Entry) -> int:
        row = self.rows.add(entry, Counter(self.language.terms(entry.text)))
        self.at[entry.kind, entry.id] = row
        return row

    def edges(self, ids: Iterable[str]) -> dict[str, list[tuple[str, Edge]]]:
        """By the id of each of these records: its neighbours along edges, with the edge."""
        return {
            id: [
                (end, edge)
                for edge in sorted(edges, key=lambda edge: edge.id)
                for end in (edge.target, edge.source)
                if end != id
            ]
            for id, edges in edges_of(self.shelf, ids).items()
        }

    # ---- as a file ---------------------------------------------------------------------------------------

    @property
    def _file(self) -> Path | None:
        """The file of the index."""
        name = self.embedder.name if self.embedder is not None else "words"
        return self.shelf.keeper.beside(f"{digest(name) % 2**64:x}.recall")

    @property
    def _made(self) -> str:
        return index_file.made_for(self.language, self.embedder)

    def _open(self) -> Any:
        """Load the file, if there is one; returns the mark of the store."""
        path = self._file
        if path is None or (found := index_file.load(path, self._made, self._read)) is None:
            return None
        self.rows, self._kept, living, mark = found
        self.at = {self.rows.keys[row]: row for row in living}
        return mark

    def _keep(self, mark: object) -> None:
        """Write the file if much is new; not in a transaction, which may be rolled back."""
        if (
            len(self.at) < index_file.LEAST
            or self._fresh < index_file.SHARE * len(self.at)
            or self.shelf.writing
        ):
            return
        if path := self._file:
            index_file.save(path, self._made, mark, self.rows, self.columns)
        self._fresh = 0

    # ---- what it means -----------------------------------------------------------------------------------

    def _mean(self) -> None:
        """Load missing passages, and make those that do not exist."""
        rows = [row for row in self.at.values() if row >= self._known and row not in self.meant]
        self._mean_of(rows, first=not self.meant and not self._known)

    @property
    def _known(self) -> int:
        """The number of rows that were read from the file."""
        return self._kept.count if self._kept is not None else 0

    def meanings(self, rows: Iterable[int]) -> dict[int, Meaning]:
        """The meanings of these rows, as far as known."""
        wanted = list(rows)
        if self._known:
            missing = [row for row in wanted if row < self._known and row not in self.meant]
            self._mean_of([row for row in missing if self._lives(row)])
        return {row: self.meant[row] for row in wanted if row in self.meant}

    def _lives(self, row: int) -> bool:
        return self.at.get(self.rows.keys[row]) == row

    def _mean_of(self, rows: Sequence[int], first: bool = False) -> None:
        self.rows.need(rows)
        embedder, texts = self.embedder, {row: self.said(row) for row in rows}
        waiting = {name(*self.rows.keys[row]): row for row in rows}
        if not waiting or embedder is None:
            return
        stray: list[str] = []
        for passage in self.shelf.scan(Passage) if first else self._passages(list(waiting)):
            row = waiting.get(passage.id)
            if row is None:
                stray.append(passage.id)
            elif meant := opened(passage, embedder, texts[row]):
                self.meant[row] = meant
                del waiting[passage.id]
        self.shelf.delete(Passage, *stray)  # their records were deleted meanwhile
        rows = list(waiting.values())  # without a passage
        for start in range(0, len(rows), AT_ONCE):
            made = {
                row: passage_of(embedder, self.language, *self.rows.keys[row], texts[row])
                for row in rows[start : start + AT_ONCE]
            }
            self.shelf.put(*made.values())
            for row, passage in made.items():
                meant = opened(passage, embedder, texts[row])
                assert meant is not None
                self.meant[row] = meant

    def _passages(self, ids: list[str]) -> Iterator[Passage]:
        for start in range(0, len(ids), AT_ONCE):
            yield from self.shelf.pick(Passage, ids[start : start + AT_ONCE])

    def said(self, row: int) -> str:
        """The text that is embedded, with the speaker."""
        entry = self.rows[row]
        who = str(entry.fields.get("who") or "")
        return f"{who}: {entry.text}" if who else entry.text

    # ---- as arrays ---------------------------------------------------------------------------------------

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
                vectors = self._kept.followed_by(vectors) if self._kept is not None else vectors
            self._columns = self.rows.columns(self.at.values(), vectors)
        return self._columns

    def _renumber(self) -> None:
        """Drop the dead rows once they are the majority."""
        if len(self.rows) < 2 * len(self.at) + 64:
            return
        rows = sorted(self.at.values())
        self.rows.need(rows)
        old = [(self.rows[row], self.meant.get(row)) for row in rows]
        self.rows, self.at, self.meant = Rows(self._read), {}, {}
        self._kept, self._fresh = None, len(old)
        for entry, meant in old:
            row = self._add(entry)
            if meant is not None:
                self.meant[row] = meant

    @property
    def nodes(self) -> Any:
        """For each row the row of its node: the memory that leads to it, or itself."""
        if self._nodes is None or self._nodes[0] is not self.columns:
            found = np.arange(self.columns.count)
            for row, memory in self.rows.leads.items():
                if self._lives(row):
                    found[row] = self.at.get((Memory.KIND, memory), row)
            self._nodes = (self.columns, found)
        return self._nodes[1]

    def counts(self, term: str) -> tuple[Any, Any]:
        """The rows that have a term, dead ones included, and how often."""
        rows, counts = self.rows.postings.get(term, (array("i"), array("H")))
        return np.frombuffer(rows, np.int32), np.frombuffer(counts, np.uint16)
