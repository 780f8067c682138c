"""The shelf: records of all kinds by id, by filter, by nearness, by words, on top of a keeper of rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from runtime.memory.embed import Embedder
from runtime.memory.store.filters import Where, suits
from runtime.memory.store.record import (
    Fault,
    Hit,
    R,
    Record,
    Row,
    Vector,
    pack,
    parsed,
    to_record,
    to_row,
)
from runtime.secrets.redaction import redactor

if TYPE_CHECKING:
    from runtime.memory.store.sqlite import SqliteKeeper

EMBEDDED = 64
"""Texts that are embedded together."""
PAGE = 256
"""Rows that a scan reads at a time."""


class Shelf:
    """All records in one place, for the threads of one process; other processes may have it open as well.

    A record that is broken, or does not fit its model, is skipped and reported in `faults`. A transaction
    blocks the other threads: keep it short and do not await inside.
    """

    def __init__(self, keeper: SqliteKeeper) -> None:
        self.keeper = keeper
        self.faults: dict[str, Fault] = {}
        self.beside: dict[Any, Any] = {}  # caches of others that live as long as the shelf is open
        self._lock = threading.RLock()
        self._depth = 0
        self._doomed = False
        self._users = 1
        self._begun: Any = None  # the mark at which the open transaction began

    def put(self, *records: Record) -> None:
        """Put records, all or none, replacing those with the same kind and id."""
        redact = redactor()
        rows = [to_row(record, redact) for record in records]
        if rows:
            with self.transaction():
                self.keeper.write(rows)

    def delete(self, kind: type[Record], *ids: str) -> int:
        """Delete records; returns how many existed."""
        with self.transaction():
            return self.keeper.erase(kind.KIND, ids)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Keep everything inside or nothing. A transaction inside another joins it."""
        with self._lock:
            if self._depth == 0:
                self.keeper.begin()
                self._begun = self.keeper.mark()
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                self._doomed = self._depth > 0
                if not self._doomed:
                    self.keeper.rollback()
                raise
            self._depth -= 1
            if self._depth == 0:
                self._end()

    def embed(self, kind: type[R], ids: Sequence[str], embedder: Embedder) -> None:
        """Give records a vector of their text; others may write while the embedder works."""
        for start in range(0, len(ids), EMBEDDED):
            part = self.pick(kind, ids[start : start + EMBEDDED])
            rows = embedder.embed([each.text for each in part])
            with self.transaction():
                now = {each.id: each for each in self.pick(kind, [each.id for each in part])}
                for each, row in zip(part, rows, strict=True):
                    if each.id in now and now[each.id].text == each.text:
                        vectors = {**now[each.id].vectors, embedder.name: pack(row)}
                        self.put(now[each.id].model_copy(update={"vectors": vectors}))

    @property
    def writing(self) -> bool:
        """Whether a transaction is open."""
        return self._depth > 0

    def _end(self) -> None:
        doomed, self._doomed = self._doomed, False
        try:
            if doomed:
                raise UsageError("a part of this transaction failed, so nothing of it is kept")
            self.keeper.commit()
        except BaseException:
            self.keeper.rollback()
            raise

    def get(self, kind: type[R], id: str) -> R | None:
        """One record, or None."""
        return next(iter(self.pick(kind, [id])), None)

    def pick(self, kind: type[R], ids: Iterable[str]) -> list[R]:
        """The records with these ids that exist, in this order."""
        wanted = list(ids)
        with self._lock:
            rows = self.keeper.read(kind.KIND, wanted)
        return [record for id in wanted if id in rows and (record := self._understood(kind, rows[id]))]

    def fields(
        self, kind: type[Record], ids: Iterable[str], names: Sequence[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """These fields (or all but vectors) as JSON values, None if missing, without validation by the model.

        A few fields are read much faster than all of them.
        """
        with self._lock:
            if names is None:
                rows = self.keeper.read(kind.KIND, list(ids))
                return {id: values for id, row in rows.items() if (values := parsed(row.body)) is not None}
            found = self.keeper.fields(kind.KIND, list(ids), names)
        return {
            id: dict(zip(names, json.loads(values), strict=False)) for id, values in found.items() if values
        }

    def scan(self, kind: type[R], where: Where | None = None, *, after: str | None = None) -> Iterator[R]:
        """The records that match the filter, by id; changes made meanwhile may or may not be met."""
        for row in self.rows(kind.KIND, where, after=after):
            if record := self._understood(kind, row):
                yield record

    def rows(
        self, kind: str, where: Where | None = None, *, after: str | None = None, vectors: bool = True
    ) -> Iterator[Row]:
        """The same as rows, for callers without the model."""
        while True:
            with self._lock:
                rows, after = self.keeper.page(kind, where or {}, after, PAGE, vectors)
            yield from (row for row in rows if not where or self._suits(row, where))
            if after is None:
                return

    def nearest(
        self, kind: type[Record], embedder: str, vector: Vector, limit: int = 10, where: Where | None = None
    ) -> list[Hit]:
        """The records nearest to a unit vector by cosine, among those with a vector of this embedder."""
        raw = pack(vector)
        return self._best(
            kind, where, limit, lambda most: self.keeper.nearest(kind.KIND, embedder, raw, most)
        )

    def search(self, kind: type[Record], text: str, limit: int = 10, where: Where | None = None) -> list[Hit]:
        """The records whose text shares words with this one, by BM25."""
        return self._best(kind, where, limit, lambda most: self.keeper.search(kind.KIND, text, most))

    def _best(
        self, kind: type[Record], where: Where | None, limit: int, ask: Callable[[int], list[Hit]]
    ) -> list[Hit]:
        """The best hits; with a filter, more are asked for until enough match."""
        if limit < 1:
            raise UsageError(f"limit: {limit} is not 1 or more")
        most = limit if not where else limit * 4
        while True:
            with self._lock:
                hits = ask(most)
                rows = self.keeper.read(kind.KIND, [hit.id for hit in hits]) if where else {}
            if not where:
                return hits
            suiting = [hit for hit in hits if hit.id in rows and self._suits(rows[hit.id], where)]
            if len(suiting) >= limit or len(hits) < most:
                return suiting[:limit]
            most *= 4

    def has(self, kind: type[Record]) -> bool:
        """Whether there is a record of a kind; many times faster than counting."""
        with self._lock:
            return bool(self.keeper.page(kind.KIND, {}, None, 1, vectors=False)[0])

    def count(self, kind: type[Record]) -> int:
        """The number of records of a kind."""
        return self.kinds().get(kind.KIND, 0)

    def kinds(self) -> Mapping[str, int]:
        """The number of records of each kind."""
        with self._lock:
            return self.keeper.kinds()

    def news(self, since: Any = None) -> tuple[Any, list[tuple[str, str]] | None]:
        """The present mark, and the kinds and ids changed since an earlier one.

        None where that is unknown, as at first: then look at everything. What an open transaction has
        changed is news only after it.
        """
        with self._lock:
            now = self._begun if self._depth else self.keeper.mark()
            return now, None if since is None else self.keeper.since(since, now)

    def _understood(self, kind: type[R], row: Row) -> R | None:
        try:
            return to_record(kind, row)
        except (ValueError, RecursionError) as error:
            self._skip(row, error)
            return None

    def _suits(self, row: Row, where: Where) -> bool:
        try:
            return suits(row.body, where)
        except (ValueError, RecursionError) as error:
            self._skip(row, error)
            return False

    def _skip(self, row: Row, error: Exception) -> None:
        where = f"{self.keeper.place}: {row.kind} {row.id}"
        self.faults[where] = Fault(where, " ".join(str(error).split())[:300])

    def check(self) -> list[Fault]:
        """Check every row and index, and report what is wrong."""
        with self._lock:
            return self.keeper.faults()

    def rebuild(self) -> list[Fault]:
        """Rebuild every index; returns what could not be read and was put aside."""
        with self._lock:
            return self.keeper.rebuild()

    def share(self) -> bool:
        """Count one more user, who closes the shelf as well; False if it is closed already."""
        with self._lock:
            self._users += self._users > 0
            return self._users > 0

    def close(self) -> None:
        """Close the store, unless others still use it."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self.keeper.close()
