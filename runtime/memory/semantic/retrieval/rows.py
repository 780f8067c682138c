"""A record as retrieval sees it, and all of them as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.memory.semantic.records import Observation
from runtime.memory.semantic.retrieval.language import words
from runtime.memory.semantic.retrieval.times import Span, Times, day_of

if TYPE_CHECKING:
    from runtime.embedding import Embedder
    from runtime.memory.semantic.retrieval.passages import Meaning

REACH = 2
"""Turns before and after one that count as its neighbours."""
LEAST_BEST = 1e-6
"""A smaller best is none."""
_ENDS_ASKING = re.compile(r"\?\W*$")


@dataclass(frozen=True, eq=False)
class Entry:
    """A record as far as retrieval looks at it."""

    kind: str
    id: str
    text: str
    who: str
    day: int  # the ordinal of the day on which it was said, 0 for none
    thread: str
    order: tuple[int, str]  # in its thread
    names: frozenset[str]
    spans: tuple[Span, ...]  # the days that it speaks of
    first_person: bool
    asks: bool  # ends with a question
    told: bool  # tells a time
    fields: Mapping[str, Any]
    body: int  # a hash of its row, 0 where that was not looked at


def entry_of(kind: str, id: str, told: dict[str, Any], body: int, times: Times) -> Entry | None:
    """The entry of a row's fields; None when they are not those of an observation or memory."""
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
            body=body,
        )
    except (ValueError, TypeError):
        return None


@dataclass(eq=False)
class Columns:
    """All rows as arrays, dead ones among them. What stands behind the last row is nobody."""

    count: int
    alive: Any
    kind: Any  # a number for each kind
    counted: Any  # what words are counted over: living observations; all that lives where there are none
    length: Any  # words that tell something
    day: Any
    thread: Any  # a number for each; a row without one has one of its own
    heads: Any  # a row of each thread that is counted
    near: dict[int, Any]  # by how many turns away: the row there, `count` for none
    who: Any  # a number for each speaker, 0 for none
    speakers: dict[str, int]
    first_person: Any
    asks: Any  # ends with a question
    told: Any  # speaks of days
    spans: Any  # first day, last day and row of each span
    named: Mapping[str, Sequence[tuple[tuple[str, ...], int]]]  # by a name's first word: all of them, the row
    vectors: Any  # of the embedder, rows of unit length; None without one

    def shares(self, values: Any, among: Any) -> Any:
        """Values as shares of the best of these rows; each kind has a best of its own.

        What a cosine is worth differs between questions, embedders and kinds: a memory, which says more at
        once, is no measure of a turn.
        """
        return values / self.bests(values, among)

    def bests(self, values: Any, among: Any) -> Any:
        """For each row the best value of its kind among these rows; infinite where that is nothing."""
        import numpy as np

        kinds = self.kind[among]
        most = np.zeros(int(self.kind.max(initial=0)) + 1, np.float32)
        np.maximum.at(most, kinds, values[among])
        return np.where(most > LEAST_BEST, most, np.float32(np.inf))[self.kind]


def columns_of(
    entries: Sequence[Entry],
    at: Mapping[tuple[str, str], int],
    lengths: Sequence[int],
    meant: Mapping[int, Meaning],
    embedder: Embedder | None,
) -> Columns:
    """The arrays of these rows; `at` has those that are alive."""
    import numpy as np

    count = len(entries)
    living = sorted(at.values())
    alive = np.zeros(count, bool)
    alive[living] = True
    kinds: dict[str, int] = {}
    kind = np.array([kinds.setdefault(each.kind, len(kinds)) for each in entries], np.int32)
    seen = alive & (kind == kinds.get(Observation.KIND, -1))
    counted = seen if seen.any() else alive
    counting = np.flatnonzero(counted)
    speakers = {"": 0}
    who = np.array([speakers.setdefault(each.who, len(speakers)) for each in entries], np.int32)
    threads: dict[str, int] = {}
    thread = np.array(
        [threads.setdefault(each.thread or f"\0{row}", len(threads)) for row, each in enumerate(entries)],
        np.int32,
    )
    named: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for row in living:
        for name in entries[row].names:
            if told := tuple(words(name)):
                named.setdefault(told[0], []).append((told, row))
    spans = [(each.first, each.last, row) for row in living for each in entries[row].spans]
    vectors = None
    if embedder is not None:
        vectors = np.zeros((count, embedder.size), np.float32)
        for row, meaning in meant.items():
            vectors[row] = meaning.whole
    return Columns(
        count=count,
        alive=alive,
        kind=kind,
        counted=counted,
        length=np.array(lengths, np.float32),
        day=np.array([each.day for each in entries], np.int32),
        thread=thread,
        heads=counting[np.unique(thread[counting], return_index=True)[1]],
        near=_near(entries, living, thread),
        who=who,
        speakers=speakers,
        first_person=np.array([each.first_person for each in entries], bool),
        asks=np.array([each.asks for each in entries], bool),
        told=np.array([each.told for each in entries], bool),
        spans=np.array(spans, np.int64).reshape(-1, 3),
        named=named,
        vectors=vectors,
    )


def _near(entries: Sequence[Entry], alive: list[int], thread: Any) -> dict[int, Any]:
    import numpy as np

    count = len(entries)
    order = sorted(alive, key=lambda row: (int(thread[row]), entries[row].order, entries[row].id))
    ordered = np.array(order, np.int64)
    threads = thread[ordered] if len(ordered) else np.zeros(0, np.int32)
    near: dict[int, Any] = {}
    for step in range(1, REACH + 1):
        before = np.full(count, count, np.int64)
        after = before.copy()
        if len(ordered) > step:
            same = threads[step:] == threads[:-step]
            before[ordered[step:][same]] = ordered[:-step][same]
            after[ordered[:-step][same]] = ordered[step:][same]
        near[-step], near[step] = before, after
    return near
