"""A table of all experiences, held in memory and kept up to date by the store's log of changes.

Reading ten thousand records takes a second; statistics of them are wanted at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from runtime.memory.episodes.experience import Experience
from runtime.memory.store import Shelf

_FIELDS = ("text", "type", "agent", "space", "success", "tools", "seconds", "at")


class ExperienceTable:
    """The experiences of a shelf without vectors and details: see `_FIELDS`. Safe for threads."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._mark: Any = None
        self._rows: dict[str, Experience] = {}
        self._listed: tuple[Experience, ...] = ()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, shelf: Shelf) -> ExperienceTable:
        """The table of a shelf."""
        return shelf.beside.setdefault(cls, cls(shelf))

    def all(self) -> Sequence[Experience]:
        """Every experience, as the store is now."""
        with self._lock:
            mark, changed = self._shelf.news(self._mark)
            if changed is None:
                self._rows = {}
                ids = [row.id for row in self._shelf.rows(Experience.KIND, vectors=False)]
            else:
                ids = [id for kind, id in changed if kind == Experience.KIND]
            if ids or changed is None:
                self._refresh(ids)
            self._mark = mark
            return self._listed

    def _refresh(self, ids: Sequence[str]) -> None:
        found = self._shelf.fields(Experience, ids, _FIELDS)
        for id in ids:
            if fields := found.get(id):
                self._rows[id] = Experience.model_construct(id=id, **fields)
            else:
                self._rows.pop(id, None)
        self._listed = tuple(self._rows.values())
