"""Records as retrieval sees them, one by one and as arrays."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from runtime.memory.facts.records import Memory, Observation, moment
from runtime.memory.facts.retrieval.language import words
from runtime.memory.facts.retrieval.times import Times, day_of

KINDS = {Observation.KIND: Observation, Memory.KIND: Memory}
REACH = 2
"""Turns before and after one that count as its neighbours."""
LEAST_BEST = 1e-6
"""A smaller best is none."""
ROW = np.dtype(
    [
        ("kind", np.int32),  # its place in `KINDS`
        ("length", np.float32),  # meaningful words
        ("day", np.int32),  # the ordinal of the day on which it was said, 0 for none
        ("thread", np.int32),  # the first row of its thread; a row without a thread has its own
        ("node", np.int32),  # the first row of its node, likewise
        ("turn", np.int64),
        ("at", np.float64),  # seconds, which decide between equal turns
        ("who", np.int32),  # a number for each speaker, 0 for none
        ("first_person", np.bool_),
        ("asks", np.bool_),  # it ends with a question
        ("told", np.bool_),  # it mentions a time
    ],
    align=True,
)
"""A row as numbers; see `Entry`."""
_ENDS_ASKING = re.compile(r"\?\W*$")


@dataclass(frozen=True, eq=False)
class Entry:
    """What retrieval uses of a record."""

    kind: str
    id: str
    text: str = ""
    who: str = ""
    at: str = ""  # when it was said
    thread: str = ""
    turn: int = 0  # its place in its thread
    names: frozenset[str] = frozenset()
    node: str = ""  # the id of the memory that an observation is found through; of a memory its own
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sign(self) -> int:
        """A hash of everything that rows depend on."""
        said = (self.text, self.who, self.at, self.thread, self.turn, sorted(self.names), self.node)
        return digest(repr(said))


def digest(text: str) -> int:
    """A hash that is the same in every process."""
    raw = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little", signed=True)


def entry_of(kind: str, id: str, fields: Mapping[str, Any]) -> Entry | None:
    """The entry of a record; None if its fields are not those of an observation or memory."""
    with suppress(ValueError, TypeError):
        return Entry(
            kind=kind,
            id=id,
            text=str(fields.get("text") or ""),
            who=str(fields.get("who") or "").strip().casefold(),
            at=str(fields.get("at") or fields.get("since") or ""),
            thread=str(fields.get("thread") or ""),
            turn=int(fields.get("turn") or 0),
            names=frozenset(" ".join(words(str(name))) for name in fields.get("names") or ()),
            node=id if kind == Memory.KIND else str(fields.get("memory") or ""),
            fields={name: value for name, value in fields.items() if name != "text"},
        )
    return None


Postings = dict[str, tuple["array[int]", "array[int]"]]
"""By term: the rows that have it, and how often."""


@dataclass(eq=False)
class Rows:
    """What is known of each row, dead ones included; entries are read from the shelf on demand."""

    read: Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], Entry]]
    keys: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # kind and id
    signs: array[int] = field(default_factory=lambda: array("q"))
    speakers: dict[str, int] = field(default_factory=lambda: {"": 0})
    threads: dict[str, int] = field(default_factory=dict[str, int])
    nodes: dict[str, int] = field(default_factory=dict[str, int])
    named: dict[str, list[int]] = field(default_factory=dict[str, list[int]])  # by name: who mentions it
    postings: Postings = field(default_factory=dict[str, Any])
    table: Any = field(default_factory=lambda: np.zeros(0, ROW))
    spans: Any = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # first day, last day and row

    def __post_init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._new: list[tuple[Any, ...]] = []
        self._new_spans: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> Entry:
        self.need([row])
        return self.entries[row]

    def need(self, rows: Iterable[int]) -> None:
        """Read the entries of these rows together."""
        missing = [row for row in rows if row not in self.entries]
        found = self.read([self.keys[row] for row in missing]) if missing else {}
        self.entries |= {row: found[self.keys[row]] for row in missing}

    def add(self, entry: Entry, times: Times) -> int:
        """A new row."""
        row = len(self.keys)
        self.keys.append((entry.kind, entry.id))
        self.signs.append(entry.sign)
        self.entries[row] = entry
        terms = Counter(times.language.terms(entry.text))
        for term, count in terms.items():
            rows, counts = self.postings.setdefault(term, (array("i"), array("H")))
            rows.append(row)
            counts.append(min(count, 65_535))
        for name in entry.names - {""}:
            self.named.setdefault(name, []).append(row)
        day, seconds = day_of(entry.at), 0.0
        with suppress(ValueError, OverflowError):
            seconds = moment(entry.at).timestamp()
        self._new.append(
            (
                [*KINDS].index(entry.kind),
                terms.total(),
                day,
                self.threads.setdefault(entry.thread, row) if entry.thread else row,
                self.nodes.setdefault(entry.node, row) if entry.node else row,
                entry.turn,
                seconds,
                self.speakers.setdefault(entry.who, len(self.speakers)),
                times.language.of_itself(entry.text),
                bool(_ENDS_ASKING.search(entry.text[-200:])),
                times.tells(entry.text),
            )
        )
        self._new_spans += [(span.first, span.last, row) for span in times.spans(entry.text, day)]
        return row

    def columns(self, alive: Iterable[int], vectors: Any) -> Columns:
        """The rows as arrays."""
        self.table = np.concatenate([self.table, np.array(self._new, ROW)])
        self.spans = np.concatenate([self.spans, np.array(self._new_spans, np.int64).reshape(-1, 3)])
        self._new, self._new_spans = [], []
        living = np.zeros(len(self), bool)
        living[list(alive)] = True
        return Columns(self.table, living, self.spans, vectors)


@dataclass(eq=False)
class Columns:
    """All rows as arrays, dead ones included; `columns[name]` is a column of `ROW`."""

    table: Any
    alive: Any
    spans: Any
    vectors: Any  # of the embedder, rows of unit length, as an array or `Vectors`; None without one

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.table)

    @cached_property
    def counted(self) -> Any:
        """Rows that words are counted over: living observations, or all that live if there are none."""
        seen = self.alive & (self["kind"] == 0)
        return seen if seen.any() else self.alive

    @cached_property
    def near(self) -> dict[int, Any]:
        """By how many turns away: the row there, `count` for none."""
        rows = np.flatnonzero(self.alive)
        order = rows[np.lexsort((self["at"][rows], self["turn"][rows], self["thread"][rows]))]
        threads = self["thread"][order]
        near: dict[int, Any] = {}
        for step in range(1, REACH + 1):
            near[-step], near[step] = (np.full(self.count, self.count, np.int32) for _ in range(2))
            same = threads[step:] == threads[:-step]
            near[-step][order[step:][same]] = order[:-step][same]
            near[step][order[:-step][same]] = order[step:][same]
        return near

    def shares(self, values: Any, among: Any) -> Any:
        """Values as shares of the best of these rows of the same kind.

        Cosines are not comparable between questions, embedders and kinds: a memory says more than a turn.
        """
        return values / self.bests(values, among)

    def bests(self, values: Any, among: Any) -> Any:
        """For each row the best value of its kind among these rows; infinite if that is zero."""
        most = np.zeros(len(KINDS), np.float32)
        np.maximum.at(most, self["kind"][among], values[among])
        return np.where(most > LEAST_BEST, most, np.float32(np.inf))[self["kind"]]
