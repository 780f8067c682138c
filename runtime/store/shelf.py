"""The shelf: records of all kinds by id, by filter, by nearness, by words; and what a store does for it.

A store (`Keeper`) sees rows and knows no models: in memory, in files, in SQLite, later in Postgres.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernel.errors import UsageError
from runtime.store.news import News, Since
from runtime.store.record import R, Record, Row, Vector, Where, pack, suits, to_record, to_row

PAGE = 256
"""Rows that a scan reads at a time."""


@dataclass(frozen=True)
class Hit:
    """A record that was found: the higher the score, the better."""

    id: str
    score: float


@dataclass(frozen=True)
class Fault:
    """Something on the shelf that cannot be used: where it is, and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Keeper(Protocol):
    """Where rows are kept. Between `begin` and `commit` or `rollback` nobody else sees what is written.

    What cannot be read is left out of every answer and told by `faults`.
    """

    place: str

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows in, each in the place of the one with its kind and id."""
        ...

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Take rows out; returns how many were there."""
        ...

    def read(self, kind: str, ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows that there are."""
        ...

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """Of the rows that there are, a JSON list that begins with these fields' values."""
        ...

    def page(
        self, kind: str, where: Where, after: str | None, most: int, vectors: bool = True
    ) -> tuple[list[Row], str | None]:
        """Rows by id, in the order of code points, those behind `after`; and where to go on, None at the end.

        It may hold rows that the filter does not mean, and must hold all that it means. Without `vectors`
        it need not read them.
        """
        ...

    def nearest(self, kind: str, embedder: str, vector: bytes, most: int) -> list[Hit]:
        """By dot product with the vectors of this embedder, the highest first, then by id."""
        ...

    def search(self, kind: str, text: str, most: int) -> list[Hit]:
        """By BM25 over the words of the text, any of them, the best first, then by id."""
        ...

    def kinds(self) -> Mapping[str, int]:
        """How many rows of each kind there are."""
        ...

    def mark(self) -> object:
        """Another one after every change, by whatever process."""
        ...

    def since(self, mark: Any) -> list[tuple[str, str]] | None:
        """What was put or deleted since the store had this mark, by any process; None where it is not known.

        The mark may have been a file meanwhile: a tuple of it may have become a list.
        """
        ...

    def beside(self, name: str) -> Path | None:
        """Where a copy of something may lie as a file, made by who asks and made again when it is gone."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def commit(self) -> None:
        """Keep what was written, durably."""
        ...

    def rollback(self) -> None:
        """Forget what was written since `begin`."""
        ...

    def faults(self) -> list[Fault]:
        """Look at everything, and say what is wrong."""
        ...

    def rebuild(self) -> list[Fault]:
        """Make every index anew from the rows, put aside what cannot be read, and say what that was."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class Shelf:
    """All records in one place, for one process's threads; other processes may have the same place open.

    A record that is broken, or has other fields than its model, is left out of every answer and told in
    `faults`. Inside a transaction no other thread gets at the shelf: keep it short, and await nothing there.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.faults: dict[str, Fault] = {}
        self.beside: dict[Any, Any] = {}  # what others made of it and keep as long as it is open
        self._lock = threading.RLock()
        self._depth = 0
        self._doomed = False
        self._news = News()

    # ---- writing -----------------------------------------------------------------------------------------

    def put(self, *records: Record) -> None:
        """Keep records, all or none, each in the place of the one with its kind and id."""
        rows = [to_row(record) for record in records]
        if rows:
            with self.transaction():
                self.keeper.write(rows)
                self._news.note((row.kind, row.id) for row in rows)

    def delete(self, kind: type[Record], *ids: str) -> int:
        """Take records away; returns how many there were."""
        with self.transaction():
            self._news.note((kind.KIND, id) for id in ids)
            return self.keeper.erase(kind.KIND, ids)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Everything inside is kept when it ends well, else nothing of it; one inside another joins it."""
        with self._lock:
            if self._depth == 0:
                self.keeper.begin()
                self._news.begin(self.keeper.mark())
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                self._doomed = self._depth > 0
                if not self._doomed:
                    self._news.drop()
                    self.keeper.rollback()
                raise
            self._depth -= 1
            if self._depth == 0:
                self._end()

    @property
    def writing(self) -> bool:
        """Whether a transaction is open."""
        return self._depth > 0

    def _end(self) -> None:
        doomed, self._doomed = self._doomed, False
        try:
            if doomed:
                raise UsageError("a part of this transaction failed, so nothing of it is kept")
            mark = self.keeper.mark()
            self.keeper.commit()
        except BaseException:
            self._news.drop()
            self.keeper.rollback()
            raise
        self._news.end(mark)

    # ---- reading -----------------------------------------------------------------------------------------

    def get(self, kind: type[R], id: str) -> R | None:
        """One record, or None."""
        return next(iter(self.pick(kind, [id])), None)

    def pick(self, kind: type[R], ids: Iterable[str]) -> list[R]:
        """The records with these ids, in this order; those that are not there are left out."""
        wanted = list(ids)
        with self._lock:
            rows = self.keeper.read(kind.KIND, wanted)
        return [record for id in wanted if id in rows and (record := self._understood(kind, rows[id]))]

    def fields(
        self, kind: type[Record], ids: Iterable[str], names: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """These fields as JSON has them, None for what is not there: quick, without the records' model.

        The model may not take them all.
        """
        with self._lock:
            found = self.keeper.fields(kind.KIND, list(ids), names)
        told = ((id, _json(values)) for id, values in found.items())
        return {id: dict(zip(names, each, strict=False)) for id, each in told if isinstance(each, list)}

    def told(self, kind: type[Record], ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """All fields of these records as JSON has them, but for vectors, without their model."""
        with self._lock:
            rows = self.keeper.read(kind.KIND, list(ids))
        return {id: told for id, row in rows.items() if isinstance(told := _json(row.body), dict)}

    def scan(self, kind: type[R], where: Where | None = None, *, after: str | None = None) -> Iterator[R]:
        """The records that suit the filter, by id; what is put or deleted meanwhile may or may not be met."""
        for row in self.rows(kind.KIND, where, after=after):
            if record := self._understood(kind, row):
                yield record

    def rows(
        self, kind: str, where: Where | None = None, *, after: str | None = None, vectors: bool = True
    ) -> Iterator[Row]:
        """The same without their models, for who moves or checks them."""
        while True:
            with self._lock:
                rows, after = self.keeper.page(kind, where or {}, after, PAGE, vectors)
            yield from (row for row in rows if not where or self._suits(row, where))
            if after is None:
                return

    def nearest(
        self, kind: type[Record], embedder: str, vector: Vector, limit: int = 10, where: Where | None = None
    ) -> list[Hit]:
        """The records nearest to a vector of unit length by cosine, of those with one of this embedder."""
        raw = pack(vector)
        return self._best(
            kind, where, limit, lambda most: self.keeper.nearest(kind.KIND, embedder, raw, most)
        )

    def search(self, kind: type[Record], text: str, limit: int = 10, where: Where | None = None) -> list[Hit]:
        """The records whose text has words of this one, by BM25."""
        return self._best(kind, where, limit, lambda most: self.keeper.search(kind.KIND, text, most))

    def _best(self, kind: type[Record], where: Where | None, limit: int, ask: Any) -> list[Hit]:
        """With a filter, as many as it takes to find enough that suit."""
        if limit < 1:
            raise UsageError(f"limit: {limit} is not 1 or more")
        most = limit if not where else limit * 4
        while True:
            with self._lock:
                hits: list[Hit] = ask(most)
                rows = self.keeper.read(kind.KIND, [hit.id for hit in hits]) if where else {}
            if not where:
                return hits
            suiting = [hit for hit in hits if hit.id in rows and self._suits(rows[hit.id], where)]
            if len(suiting) >= limit or len(hits) < most:
                return suiting[:limit]
            most *= 4

    def count(self, kind: type[Record]) -> int:
        """How many records of a kind there are."""
        return self.kinds().get(kind.KIND, 0)

    def kinds(self) -> Mapping[str, int]:
        """How many records of each kind there are."""
        with self._lock:
            return self.keeper.kinds()

    def news(self, since: Since | None = None) -> tuple[Since, list[tuple[str, str]] | None]:
        """Where the changes have come to, and what was put or deleted since: kinds and ids.

        None where that is not known, as at first and after another process wrote: look at everything then.
        """
        with self._lock:
            return self._news.told(self.keeper.mark(), since)

    def _understood(self, kind: type[R], row: Row) -> R | None:
        try:
            return to_record(kind, row)
        except (ValueError, RecursionError) as error:
            self._leave_out(row, error)
            return None

    def _suits(self, row: Row, where: Where) -> bool:
        try:
            return suits(row.body, where)
        except (ValueError, RecursionError) as error:
            self._leave_out(row, error)
            return False

    def _leave_out(self, row: Row, error: Exception) -> None:
        where = f"{self.keeper.place}: {row.kind} {row.id}"
        self.faults[where] = Fault(where, " ".join(str(error).split())[:300])

    # ---- care --------------------------------------------------------------------------------------------

    def check(self) -> list[Fault]:
        """Look at every row and index, and say what is wrong."""
        with self._lock:
            return self.keeper.faults()

    def rebuild(self) -> list[Fault]:
        """Make every index anew; returns what could not be read and was put aside."""
        with self._lock:
            return self.keeper.rebuild()

    def close(self) -> None:
        """Let go of the place."""
        with self._lock:
            self.keeper.close()


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None  # a broken row, which is told elsewhere
