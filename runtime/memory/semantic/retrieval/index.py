"""Everything that retrieval asks of observations and memories, in memory and kept up to date by what changes.

A row is one version of a record; a record that changes gets a new row, and the old one is dead until the rows
are counted anew.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.memory.semantic.records import Edge, Memory, Observation
from runtime.memory.semantic.retrieval.language import Language
from runtime.memory.semantic.retrieval.passages import (
    Meaning,
    Passage,
    digest_of,
    forget,
    name,
    opened,
    passage_of,
)
from runtime.memory.semantic.retrieval.rows import Columns, Entry, columns_of, entry_of
from runtime.memory.semantic.retrieval.times import Times
from runtime.store import Shelf

if TYPE_CHECKING:
    from runtime.embedding import Embedder
    from runtime.store.news import Since

KINDS = {Observation.KIND: Observation, Memory.KIND: Memory}
AT_ONCE = 64
"""Passages that are made in one transaction."""


@dataclass
class Index:
    """Of one shelf and embedder; without an embedder it knows words alone."""

    shelf: Shelf
    embedder: Embedder | None
    language: Language
    rows: list[Entry] = field(default_factory=list[Entry])
    at: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    edges: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    meant: dict[int, Meaning] = field(default_factory=dict[int, Meaning])
    _postings: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict[str, Any])
    _lengths: list[int] = field(default_factory=list[int])
    _since: Since | None = None
    _columns: Columns | None = None
    _linked: dict[str, list[tuple[str, dict[str, Any]]]] | None = None
    _nodes: tuple[Columns, Any] | None = None

    def __post_init__(self) -> None:
        self.times = Times(self.language)

    # ---- what is new -------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what has changed on the shelf since the last time."""
        now, changed = self.shelf.news(self._since)
        if changed is None:
            self._look_at_all()
        else:
            self._look_at(changed)
        if self._columns is None and self.embedder is not None:
            self._mean()
        self._since = now

    def _look_at_all(self) -> None:
        for kind in KINDS:
            seen: set[str] = set()
            for row in self.shelf.rows(kind):
                seen.add(row.id)
                known, mark = self.at.get((kind, row.id)), hash(row.body)
                if known is None or self.rows[known].body != mark:
                    self._take(kind, row.id, _json(row.body), mark)
            for known, id in [key for key in self.at if key[0] == kind and key[1] not in seen]:
                self._drop(known, id)
        self.edges.clear()
        for row in self.shelf.rows(Edge.KIND):
            self._take_edge(row.id, _json(row.body))

    def _look_at(self, changed: list[tuple[str, str]]) -> None:
        for kind in (*KINDS, Edge.KIND):
            ids = [id for changed_kind, id in changed if changed_kind == kind]
            if not ids:
                continue
            there = self.shelf.told(KINDS.get(kind, Edge), ids)
            for id in ids:
                if kind == Edge.KIND:
                    self._take_edge(id, there.get(id))
                else:
                    self._take(kind, id, there.get(id))
            if kind != Edge.KIND and (gone := [id for id in ids if id not in there]):
                forget(self.shelf, kind, gone)

    def _take(self, kind: str, id: str, told: dict[str, Any] | None, mark: int = 0) -> None:
        known = self.at.get((kind, id))
        entry = entry_of(kind, id, told, mark, self.times) if told else None
        if entry is None:  # gone, or broken: the shelf tells of that
            self._drop(kind, id)
            return
        if known is not None and self.rows[known].text == entry.text and self.rows[known].who == entry.who:
            self.rows[known] = entry  # its words are the same
            self._columns = None
            return
        self._drop(kind, id)
        self._add(entry)

    def _add(self, entry: Entry) -> int:
        row = len(self.rows)
        self.rows.append(entry)
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

    def _take_edge(self, id: str, told: dict[str, Any] | None) -> None:
        self._linked = None
        if told:
            self.edges[id] = told
        else:
            self.edges.pop(id, None)

    @property
    def linked(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """By the id of a record: the records that an edge joins it with, and the edge."""
        if self._linked is None:
            self._linked = {}
            for _, edge in sorted(self.edges.items()):
                one, other = str(edge.get("source")), str(edge.get("target"))
                self._linked.setdefault(one, []).append((other, edge))
                self._linked.setdefault(other, []).append((one, edge))
        return self._linked

    # ---- what it means -----------------------------------------------------------------------------------

    def _mean(self) -> None:
        """Read the passages of the rows that have none here, and make those that are missing."""
        assert self.embedder is not None
        waiting = {name(kind, id): row for (kind, id), row in self.at.items() if row not in self.meant}
        stray: list[str] = []
        if not waiting:
            return
        first = not self.meant
        for passage in self._kept(list(waiting)) if not first else self.shelf.scan(Passage):
            row = waiting.get(passage.id)
            if row is None:
                stray.append(passage.id)
            elif passage.made_by == self.embedder.name and passage.digest == digest_of(self.said(row)):
                meant = opened(passage, self.embedder.name, self.embedder.size)
                if meant is not None:
                    self.meant[row] = meant
                    del waiting[passage.id]
        if first and stray:  # what they were made of was forgotten while nobody looked
            self.shelf.delete(Passage, *stray)
        rows = list(waiting.values())
        for start in range(0, len(rows), AT_ONCE):
            made = {row: self._passage(row) for row in rows[start : start + AT_ONCE]}
            self.shelf.put(*made.values())
            for row, passage in made.items():
                meant = opened(passage, self.embedder.name, self.embedder.size)
                assert meant is not None
                self.meant[row] = meant

    def _kept(self, ids: list[str]) -> Iterator[Passage]:
        for start in range(0, len(ids), AT_ONCE * 8):
            yield from self.shelf.pick(Passage, ids[start : start + AT_ONCE * 8])

    def _passage(self, row: int) -> Passage:
        assert self.embedder is not None
        entry = self.rows[row]
        return passage_of(self.embedder, self.language, entry.kind, entry.id, self.said(row))

    def said(self, row: int) -> str:
        """What is embedded: who says it belongs to what it means."""
        entry = self.rows[row]
        who = str(entry.fields.get("who") or "")
        return f"{who}: {entry.text}" if who else entry.text

    # ---- as arrays ---------------------------------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """The rows as arrays."""
        if self._columns is None:
            self._count_anew()
            self._columns = columns_of(self.rows, self.at, self._lengths, self.meant, self.embedder)
        return self._columns

    def _count_anew(self) -> None:
        """Leave the dead rows out when they are most."""
        if len(self.rows) < 2 * len(self.at) + 64:
            return
        kept = [(self.rows[row], self.meant.get(row)) for row in sorted(self.at.values())]
        self.rows, self.at, self.meant, self._lengths, self._postings = [], {}, {}, [], {}
        for entry, meant in kept:
            row = self._add(entry)
            if meant is not None:
                self.meant[row] = meant

    @property
    def nodes(self) -> Any:
        """For each row the row of its node: that of the memory which leads to it, or its own."""
        import numpy as np

        if self._nodes is None or self._nodes[0] is not self.columns:
            found = np.arange(self.columns.count)
            for (kind, _), row in self.at.items():
                memory = self.rows[row].fields.get("memory") if kind == Observation.KIND else None
                found[row] = self.at.get((Memory.KIND, str(memory)), row) if memory else row
            self._nodes = (self.columns, found)
        return self._nodes[1]

    @property
    def apart(self) -> Any:
        """For each row whether it leads to no other."""
        import numpy as np

        own = np.arange(len(self.nodes))
        found = np.ones(len(own), bool)
        found[self.nodes[self.nodes != own]] = False
        return found

    def counts(self, term: str) -> tuple[Any, Any]:
        """The rows that have a term, dead ones too, and how often."""
        import numpy as np

        rows, counts = self._postings.get(term, (array("i"), array("H")))
        return np.frombuffer(rows, np.int32), np.frombuffer(counts, np.uint16)


def _json(body: str) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
