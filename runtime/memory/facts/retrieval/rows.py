"""Records as retrieval sees them, one by one and as arrays."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from runtime.memory.embed import Embedder
from runtime.memory.facts.records import Observation
from runtime.memory.facts.retrieval.language import words
from runtime.memory.facts.retrieval.passages import Meaning
from runtime.memory.facts.retrieval.times import Span, Times, day_of

REACH = 2
"""Turns before and after one that count as its neighbours."""
LEAST_BEST = 1e-6
"""A smaller best is none."""
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
    order: tuple[int, str] = (0, "")  # in its thread
    names: frozenset[str] = frozenset()
    spans: tuple[Span, ...] = ()  # the days that it mentions
    first_person: bool = False
    asks: bool = False  # ends with a question
    told: bool = False  # mentions a time
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sign(self) -> int:
        """A hash of everything that arrays and words depend on."""
        told = (self.text, self.who, self.day, self.thread, self.order, sorted(self.names))
        return digest(repr(told))

    @property
    def leads(self) -> str:
        """The id of the memory through which an observation is found."""
        return str(self.fields.get("memory") or "") if self.kind == Observation.KIND else ""


def digest(text: str, signed: bool = True) -> int:
    """A hash that is the same in every process."""
    raw = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little", signed=signed)


class Rows:
    """The entries by row. Those of an index in a file are read from the shelf on demand."""

    def __init__(self, read: Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], Entry]]) -> None:
        self._read = read
        self._here: dict[int, Entry] = {}
        self.keys: list[tuple[str, str]] = []  # kind and id
        self.marks = array("q")  # a hash of the body, 0 if unknown
        self.signs = array("q")  # a hash of what arrays and words depend on
        self.leads: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> Entry:
        if row not in self._here:
            self.need([row])
        return self._here[row]

    def need(self, rows: Iterable[int]) -> None:
        """Read these in one go."""
        missing = [row for row in rows if row not in self._here]
        found = self._read([self.keys[row] for row in missing]) if missing else {}
        self._here |= {row: found[self.keys[row]] for row in missing}

    def put(self, row: int, entry: Entry, mark: int) -> None:
        """Replace an entry, or append one."""
        if row == len(self.keys):
            self.keys.append((entry.kind, entry.id))
            self.marks.append(mark)
            self.signs.append(entry.sign)
        self._here[row], self.marks[row] = entry, mark
        self.leads.pop(row, None)
        if entry.leads:
            self.leads[row] = entry.leads


def entry_of(kind: str, id: str, told: dict[str, Any], times: Times) -> Entry | None:
    """The entry of a row's fields; None if they are not those of an observation or memory."""
    try:
        text, at = str(told.get("text") or ""), str(told.get("at") or told.get("since") or "")
        day = day_of(at)
        return Entry(
            kind=kind,
            id=id,
            text=text,
            who=str(told.get("who") or "").strip().casefold(),
            day=day,
            thread=str(told.get("thread") or ""),
            order=(int(told.get("turn") or 0), at),
            names=frozenset(str(each).casefold() for each in told.get("names") or ()),
            spans=times.spans(text, day),
            first_person=times.language.of_itself(text),
            asks=bool(_ENDS_ASKING.search(text[-200:])),
            told=times.tells(text),
            fields={key: value for key, value in told.items() if key != "text"},
        )
    except (ValueError, TypeError):
        return None


@dataclass(eq=False)
class Columns:
    """All rows as arrays, dead ones included. The number behind the last row stands for nobody."""

    count: int
    alive: Any
    kind: Any  # a number for each kind
    counted: Any  # rows that words are counted over: living observations, or all that live if there are none
    length: Any  # meaningful words
    day: Any
    thread: Any  # a number for each thread; a row without one has its own
    near: dict[int, Any]  # by how many turns away: the row there, `count` for none
    who: Any  # a number for each speaker, 0 for none
    speakers: dict[str, int]
    threads: dict[str, int]  # those that have a name
    kinds: dict[str, int]
    first_person: Any
    asks: Any  # ends with a question
    told: Any  # mentions a time
    spans: Any  # first day, last day and row of each span
    named: Mapping[str, Sequence[tuple[tuple[str, ...], int]]]  # by a name's first word: all of them, the row
    vectors: Any  # of the embedder, rows of unit length, as an array or `Vectors`; None without one

    def shares(self, values: Any, among: Any) -> Any:
        """Values as shares of the best of these rows of the same kind.

        Cosines are not comparable between questions, embedders and kinds: a memory says more than a turn.
        """
        return values / self.bests(values, among)

    def bests(self, values: Any, among: Any) -> Any:
        """For each row the best value of its kind among these rows; infinite if that is zero."""
        kinds = self.kind[among]
        most = np.zeros(int(self.kind.max(initial=0)) + 1, np.float32)
        np.maximum.at(most, kinds, values[among])
        return np.where(most > LEAST_BEST, most, np.float32(np.inf))[self.kind]


def columns_of(
    entries: Rows,
    at: Mapping[tuple[str, str], int],
    lengths: Sequence[int],
    meant: Mapping[int, Meaning],
    embedder: Embedder | None,
    before: Columns | None = None,
) -> Columns:
    """The arrays of these rows; `at` has the living ones, `before` the arrays of the first rows."""
    first, count = before.count if before else 0, len(entries)
    new = [entries[row] for row in range(first, count)]
    living = np.sort(np.fromiter(at.values(), np.int64, len(at)))
    alive = np.zeros(count, bool)
    alive[living] = True

    def joined(name: str, values: list[Any], kind: Any) -> Any:
        added = np.array(values, kind)
        return np.concatenate([getattr(before, name), added]) if before else added

    kinds = dict(before.kinds) if before else {}
    kind = joined("kind", [kinds.setdefault(each.kind, len(kinds)) for each in new], np.int32)
    seen = alive & (kind == kinds.get(Observation.KIND, -1))
    counted = seen if seen.any() else alive
    speakers = dict(before.speakers) if before else {"": 0}
    who = joined("who", [speakers.setdefault(each.who, len(speakers)) for each in new], np.int32)
    threads = dict(before.threads) if before else {}
    free = int(before.thread.max(initial=-1)) + 1 if before else 0
    numbers: list[int] = []
    for each in new:
        number = threads.get(each.thread, free) if each.thread else free
        free += number == free
        if each.thread:
            threads[each.thread] = number
        numbers.append(number)
    thread = joined("thread", numbers, np.int32)
    named = {name: list(rows) for name, rows in before.named.items()} if before else {}
    spans: list[tuple[int, int, int]] = []
    for row in living[living >= first].tolist():
        for name in entries[row].names:
            if told := tuple(words(name)):
                named.setdefault(told[0], []).append((told, row))
        spans += [(each.first, each.last, row) for each in entries[row].spans]
    vectors = None
    if embedder is not None:
        vectors = np.zeros((len(new), embedder.size), np.float32)
        for row in range(first, count):
            if row in meant:
                vectors[row - first] = meant[row].whole
        if before is not None:
            vectors = before.vectors.followed_by(vectors)
    array = np.array(spans, np.int64).reshape(-1, 3)
    return Columns(
        count=count,
        alive=alive,
        kind=kind,
        counted=counted,
        length=joined("length", list(lengths), np.float32),
        day=joined("day", [each.day for each in new], np.int32),
        thread=thread,
        near=_near(entries, living, thread, before),
        who=who,
        speakers=speakers,
        threads=threads,
        kinds=kinds,
        first_person=joined("first_person", [each.first_person for each in new], bool),
        asks=joined("asks", [each.asks for each in new], bool),
        told=joined("told", [each.told for each in new], bool),
        spans=np.concatenate([before.spans, array]) if before else array,
        named=named,
        vectors=vectors,
    )


def _near(entries: Rows, alive: Any, thread: Any, before: Columns | None) -> dict[int, Any]:
    """The neighbours of each row; of the rows `before`, only changed threads are ordered again."""
    count = len(thread)
    near = {step: np.full(count, count, np.int32) for step in range(-REACH, REACH + 1) if step}
    if before is not None:
        living = np.zeros(count, bool)
        living[alive] = True
        dead = np.flatnonzero(before.alive & ~living[: before.count])
        changed = np.isin(thread, np.unique(np.concatenate([thread[dead], thread[before.count :]])))
        for step, there in near.items():
            old = before.near[step]
            there[: before.count] = np.where(changed[: before.count] | (old == before.count), count, old)
        alive = alive[changed[alive]]
        entries.need(alive.tolist())
    order = sorted(alive.tolist(), key=lambda row: (int(thread[row]), entries[row].order, entries[row].id))
    ordered = np.array(order, np.int64)
    threads = thread[ordered] if len(ordered) else np.zeros(0, np.int32)
    for step in range(1, REACH + 1):
        if len(ordered) > step:
            same = threads[step:] == threads[:-step]
            near[-step][ordered[step:][same]] = ordered[:-step][same]
            near[step][ordered[:-step][same]] = ordered[step:][same]
    return near
