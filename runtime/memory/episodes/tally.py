"""Counts of all experiences, kept up to date by the store's log of changes.

Reading ten thousand records takes a second; statistics of them are wanted at any time.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.memory.context.awareness import Record
from runtime.memory.episodes.experience import Experience
from runtime.memory.store import Shelf

_FIELDS = ("type", "agent", "success", "seconds")


class Tally:
    """How many experiences a shelf has, of whom and of what, and how they went. Safe for threads."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._lock = threading.Lock()
        self._mark: Any = None
        self._clear()

    @classmethod
    def of(cls, shelf: Shelf) -> Tally:
        """The one of a shelf, as the store is now."""
        tally = shelf.beside.setdefault(cls, cls(shelf))
        tally.catch_up()
        return tally

    def _clear(self) -> None:
        self._rows: dict[str, tuple[Any, ...]] = {}  # by id, what was counted
        self.agents: Counter[str] = Counter()  # may count 0 of one
        self.types: Counter[str] = Counter()
        self.ended: Counter[bool] = Counter()  # by success, where it is known
        self._records: defaultdict[str, dict[str, Record]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._rows)

    def records(self, type: str) -> Mapping[str, Record]:
        """How agents did at tasks of a type, in all spaces."""
        with self._lock:
            return {agent: each for agent, each in self._records.get(type, {}).items() if each.samples}

    def catch_up(self) -> None:
        """Count what has changed in the store."""
        with self._lock:
            mark, changed = self._shelf.news(self._mark)
            if changed is None:
                self._clear()
                ids = [row.id for row in self._shelf.rows(Experience.KIND, vectors=False)]
            else:
                ids = [id for kind, id in changed if kind == Experience.KIND]
            self._refresh(ids)
            self._mark = mark

    def _refresh(self, ids: Sequence[str]) -> None:
        found = self._shelf.fields(Experience, ids, _FIELDS) if ids else {}
        for id in ids:
            if before := self._rows.pop(id, None):
                self._count(-1, *before)
            if fields := found.get(id):
                self._rows[id] = row = tuple(fields[name] for name in _FIELDS)
                self._count(1, *row)

    def _count(self, n: int, type: str, agent: str, success: bool | None, seconds: float) -> None:
        self.agents[agent] += n
        self.types[type] += n
        if success is None:  # cancelled: the outcome is unknown
            return
        self.ended[success] += n
        record = self._records[type].setdefault(agent, Record())
        record.successes += n * success
        record.failures += n * (not success)
        record.seconds += n * seconds
