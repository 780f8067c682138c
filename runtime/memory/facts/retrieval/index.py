"""The index of observations and memories, updated with each change.

A row is one version of a record: a changed record gets a new row, and the old one is dead until the rows are
renumbered. An index of many records is stored in a file: see `kept`.
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
from runtime.memory.facts.records import Edge, Memory, Observation
from runtime.memory.facts.retrieval import kept
from runtime.memory.facts.retrieval.language import Language
from runtime.memory.facts.retrieval.passages import (
    Meaning,
    Passage,
    digest_of,
    forget,
    name,
    opened,
    passage_of,
)
from runtime.memory.facts.retrieval.rows import Columns, Entry, Rows, columns_of, digest, entry_of
from runtime.memory.facts.retrieval.times import Times
from runtime.memory.store import Shelf
from runtime.memory.store.record import parsed

KINDS = {Observation.KIND: Observation, Memory.KIND: Memory}
AT_ONCE = 64
"""Passages per transaction."""


@dataclass
class Index:
    """The index of one shelf for one embedder; without one it has only words."""

    shelf: Shelf
    embedder: Embedder | None
    language: Language
    at: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    meant: dict[int, Meaning] = field(default_factory=dict[int, Meaning])
    _postings: kept.Postings = field(default_factory=dict[str, Any])
    _lengths: list[int] = field(default_factory=list[int])
    _before: Columns | None = None  # of the rows that were read from the file
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
        if changed is None and not len(self.rows) and (found := self._open()):
            changed = self.shelf.keeper.since(found.mark)
        if changed is None:
            self._look_at_all()
        else:
            self._look_at(changed)
        if self._columns is None:
            self._renumber()
            if self.embedder is not None:
                self._mean()
        self._since = now
        self._keep(mark)

    def _look_at_all(self) -> None:
        for kind in KINDS:
            seen: set[str] = set()
            for row in self.shelf.rows(kind, vectors=False):
                seen.add(row.id)
                known, mark = self.at.get((kind, row.id)), digest(row.body)
                if known is None or self.rows.marks[known] != mark:
                    self._take(kind, row.id, parsed(row.body), mark)
            gone = [id for known, id in self.at if known == kind and id not in seen]
            for id in gone:
                self._drop(kind, id)
            if gone:
                forget(self.shelf, kind, gone)

    def _look_at(self, changed: list[tuple[str, str]]) -> None:
        for kind in KINDS:
            ids = [id for changed_kind, id in changed if changed_kind == kind]
            if not ids:
                continue
            there = self.shelf.told(KINDS[kind], ids)
            for id in ids:
                self._take(kind, id, there.get(id))
            if gone := [id for id in ids if id not in there]:
                forget(self.shelf, kind, gone)

    def _take(self, kind: str, id: str, told: dict[str, Any] | None, mark: int = 0) -> None:
        self._fresh += 1
        known = self.at.get((kind, id))
        entry = entry_of(kind, id, told, self.times) if told else None
        if entry is None:  # deleted, or broken: the shelf reports that
            self._drop(kind, id)
            return
        if known is not None and self.rows.signs[known] == entry.sign:
            self.rows.put(known, entry, mark)
            self._nodes = None
            return
        self._drop(kind, id)
        self._add(entry, mark)

    def _add(self, entry: Entry, mark: int) -> int:
        row = len(self.rows)
        self.rows.put(row, entry, mark)
        self.at[entry.kind, entry.id] = row
        terms = Counter(self.language.terms(entry.text))
        for term, count in terms.items():
            rows, counts = self._postings.setdefault(term, (array("i"), array("H")))
            rows.append(row)
            counts.append(min(count, 65_535))
        self._lengths.append(sum(terms.values()))
        return row

    def _drop(self, kind: str, id: str) -> None:
        row = self.at.pop((kind, id), None)
        self._columns = None
        if row is not None:
            self.meant.pop(row, None)

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
        return self.shelf.keeper.beside(f"{digest(name, False):x}.recall")

    def _open(self) -> kept.Kept | None:
        """Load the file, if there is one."""
        path = self._file
        found = kept.load(path, kept.made_for(self.language, self.embedder)) if path else None
        if found is not None:
            self._before = self._columns = found.columns
            self.rows.keys, self.rows.marks, self.rows.signs = found.keys, found.marks, found.signs
            self.rows.leads, self._postings = found.leads, found.postings
            for row in found.columns.alive.nonzero()[0].tolist():
                self.at[found.keys[row]] = row
        return found

    def _keep(self, mark: object) -> None:
        """Write the file if much is new; not in a transaction, which may be rolled back."""
        if len(self.at) < kept.LEAST or self._fresh < kept.SHARE * len(self.at) or self.shelf.writing:
            return
        if path := self._file:
            head = {"made": kept.made_for(self.language, self.embedder), "mark": mark}
            kept.save(path, head, self.rows, self.columns, self._postings)
        self._fresh = 0

    # ---- what it means -----------------------------------------------------------------------------------

    def _mean(self) -> None:
        """Load missing passages, and make those that do not exist."""
        assert self.embedder is not None
        known = self._before.count if self._before else 0
        rows = [row for row in self.at.values() if row >= known and row not in self.meant]
        self._mean_of(rows, first=not self.meant and not known)

    def meanings(self, rows: Iterable[int]) -> dict[int, Meaning]:
        """The meanings of these rows, as far as known."""
        wanted = list(rows)
        if self._before is not None:
            known = self._before.count
            self._mean_of(
                [row for row in wanted if row < known and row not in self.meant and self._lives(row)]
            )
        return {row: self.meant[row] for row in wanted if row in self.meant}

    def _lives(self, row: int) -> bool:
        return self.at.get(self.rows.keys[row]) == row

    def _mean_of(self, rows: Sequence[int], first: bool = False) -> None:
        assert self.embedder is not None
        waiting = {name(*self.rows.keys[row]): row for row in rows}
        stray: list[str] = []
        if not waiting:
            return
        self.rows.need(rows)
        for passage in self._passages(list(waiting)) if not first else self.shelf.scan(Passage):
            row = waiting.get(passage.id)
            if row is None:
                stray.append(passage.id)
            elif passage.made_by == self.embedder.name and passage.digest == digest_of(self.said(row)):
                meant = opened(passage, self.embedder.name, self.embedder.size)
                if meant is not None:
                    self.meant[row] = meant
                    del waiting[passage.id]
        if first and stray:  # their records were deleted meanwhile
            self.shelf.delete(Passage, *stray)
        rows = list(waiting.values())  # without a passage
        for start in range(0, len(rows), AT_ONCE):
            made = {row: self._passage(row) for row in rows[start : start + AT_ONCE]}
            self.shelf.put(*made.values())
            for row, passage in made.items():
                meant = opened(passage, self.embedder.name, self.embedder.size)
                assert meant is not None
                self.meant[row] = meant

    def _passages(self, ids: list[str]) -> Iterator[Passage]:
        for start in range(0, len(ids), AT_ONCE):
            yield from self.shelf.pick(Passage, ids[start : start + AT_ONCE])

    def _passage(self, row: int) -> Passage:
        assert self.embedder is not None
        entry = self.rows[row]
        return passage_of(self.embedder, self.language, entry.kind, entry.id, self.said(row))

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
            self._columns = columns_of(
                self.rows, self.at, self._lengths, self.meant, self.embedder, self._before
            )
        return self._columns

    def _renumber(self) -> None:
        """Drop the dead rows once they are the majority."""
        if len(self.rows) < 2 * len(self.at) + 64:
            return
        rows = sorted(self.at.values())
        self.rows.need(rows)
        old = [(self.rows[row], self.rows.marks[row], self.meant.get(row)) for row in rows]
        self.rows, self.at, self.meant, self._lengths, self._postings = Rows(self._read), {}, {}, [], {}
        self._before, self._fresh = None, len(old)
        for entry, mark, meant in old:
            row = self._add(entry, mark)
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
        rows, counts = self._postings.get(term, (array("i"), array("H")))
        return np.frombuffer(rows, np.int32), np.frombuffer(counts, np.uint16)
