"""Records as retrieval sees them, one by one and as arrays."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from runtime.memory.facts.records import Memory, Observation, moment
from runtime.memory.facts.retrieval.language import words
from runtime.memory.facts.retrieval.times import Span, Times, day_of

KINDS = {Observation.KIND: Observation, Memory.KIND: Memory}
REACH = 2
"""Turns before and after one that count as its neighbours."""
LEAST_BEST = 1e-6
"""A smaller best is none."""
ROW = np.dtype(
    [
        ("kind", np.int32),  # its place in `KINDS`
        ("length", np.float32),  # meaningful words
        ("day", np.int32),
        ("thread", np.int32),  # the first row of its thread; a row without a thread has its own
        ("turn", np.int64),
        ("at", np.float64),
        ("who", np.int32),  # a number for each speaker, 0 for none
        ("first_person", np.bool_),
        ("asks", np.bool_),
        ("told", np.bool_),
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
    day: int = 0  # the ordinal of the day on which it was said, 0 for none
    thread: str = ""
    turn: int = 0  # its place in its thread
    at: float = 0.0  # seconds, which decide between equal turns
    names: frozenset[str] = frozenset()
    spans: tuple[Span, ...] = ()  # the days that it mentions
    first_person: bool = False
    asks: bool = False  # ends with a question
    told: bool = False  # mentions a time
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sign(self) -> int:
        """A hash of everything that arrays and words depend on."""
        told = (self.text, self.who, self.day, self.thread, self.turn, self.at, sorted(self.names))
        return digest(repr(told))

    @property
    def leads(self) -> str:
        """The id of the memory through which an observation is found."""
        return str(self.fields.get("memory") or "") if self.kind == Observation.KIND else ""


def digest(text: str) -> int:
    """A hash that is the same in every process."""
    raw = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little", signed=True)


def entry_of(kind: str, id: str, told: dict[str, Any], times: Times) -> Entry | None:
    """The entry of a row's fields; None if they are not those of an observation or memory."""
    try:
        text, at = str(told.get("text") or ""), str(told.get("at") or told.get("since") or "")
        day, seconds = day_of(at), 0.0
        with suppress(ValueError, OverflowError):
            seconds = moment(at).timestamp()
        return Entry(
            kind=kind,
            id=id,
            text=text,
            who=str(told.get("who") or "").strip().casefold(),
            day=day,
            thread=str(told.get("thread") or ""),
            turn=int(told.get("turn") or 0),
            at=seconds,
            names=frozenset(" ".join(words(str(each))) for each in told.get("names") or ()),
            spans=times.spans(text, day),
            first_person=times.language.of_itself(text),
            asks=bool(_ENDS_ASKING.search(text[-200:])),
            told=times.tells(text),
            fields={key: value for key, value in told.items() if key != "text"},
        )
    except (ValueError, TypeError):
        return None


Postings = dict[str, tuple["array[int]", "array[int]"]]
"""By term: the rows that have it, and how often."""


@dataclass(eq=False)
class Rows:
    """What is known of each row, dead ones included; entries are read from the shelf on demand."""

    read: Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], Entry]]
    keys: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # kind and id
    signs: array[int] = field(default_factory=lambda: array("q"))
    leads: dict[int, str] = field(default_factory=dict[int, str])
    speakers: dict[str, int] = field(default_factory=lambda: {"": 0})
    threads: dict[str, int] = field(default_factory=dict[str, int])
    named: dict[str, list[int]] = field(default_factory=dict[str, list[int]])  # by name: who mentions it
    postings: Postings = field(default_factory=dict[str, Any])
    table: Any = field(default_factory=lambda: np.zeros(0, ROW))
    spans: Any = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # first day, last day and row

    def __post_init__(self) -> None:
        self._here: dict[int, Entry] = {}
        self._new: list[tuple[Any, ...]] = []
        self._new_spans: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> Entry:
        self.need([row])
        return self._here[row]

    def need(self, rows: Iterable[int]) -> None:
        """Read these in one go."""
        missing = [row for row in rows if row not in self._here]
        found = self.read([self.keys[row] for row in missing]) if missing else {}
        self._here |= {row: found[self.keys[row]] for row in missing}

    def put(self, row: int, entry: Entry) -> None:
        """Replace an entry by one with the same sign."""
        self._here[row] = entry
        self.leads.pop(row, None)
        if entry.leads:
            self.leads[row] = entry.leads

    def add(self, entry: Entry, terms: Mapping[str, int]) -> int:
        """A new row."""
        row = len(self.keys)
        self.keys.append((entry.kind, entry.id))
        self.signs.append(entry.sign)
        self.put(row, entry)
        for term, count in terms.items():
            rows, counts = self.postings.setdefault(term, (array("i"), array("H")))
            rows.append(row)
            counts.append(min(count, 65_535))
        for name in entry.names - {""}:
            self.named.setdefault(name, []).append(row)
        thread = self.threads.setdefault(entry.thread, row) if entry.thread else row
        who = self.speakers.setdefault(entry.who, len(self.speakers))
        kind, length = [*KINDS].index(entry.kind), sum(terms.values())
        said = (entry.first_person, entry.asks, entry.told)
        self._new.append((kind, length, entry.day, thread, entry.turn, entry.at, who, *said))
        self._new_spans += [(each.first, each.last, row) for each in entry.spans]
        return row

    def columns(self, alive: Iterable[int], vectors: Any) -> Columns:
        """The rows as arrays."""
        self.table = np.concatenate([self.table, np.array(self._new, ROW)])
        self.spans = np.concatenate([self.spans, np.array(self._new_spans, np.int64).reshape(-1, 3)])
        self._new, self._new_spans = [], []
        living = np.zeros(len(self), bool)
        living[list(alive)] = True
        return Columns(self.table, living, self.spans, self.speakers, self.named, vectors)


@dataclass(eq=False)
class Columns:
    """All rows as arrays, dead ones included; `columns[name]` is a column of `ROW`."""

    table: Any
    alive: Any
    spans: Any
    speakers: Mapping[str, int]
    named: Mapping[str, Sequence[int]]
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
