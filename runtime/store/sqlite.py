"""The shelf in one SQLite file, the default: many processes at once, durable when a transaction ends."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import ConfigurationError, StorageError
from runtime.store import changes
from runtime.store.cells import key, text_of, unkey, wrong_with
from runtime.store.connecting import connect, immediate, is_emptied
from runtime.store.narrowing import narrowed
from runtime.store.record import FORMAT, Row, Where
from runtime.store.shelf import Fault, Hit
from runtime.store.words import Words, plain

if TYPE_CHECKING:
    from runtime.store.near import Near

AT_ONCE = 500
"""Ids asked for in one statement."""
SCHEMA = """
CREATE TABLE records (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id BLOB NOT NULL,
  body TEXT NOT NULL, UNIQUE (kind, id));
CREATE TABLE vectors (number INTEGER NOT NULL, embedder TEXT NOT NULL, kind TEXT NOT NULL,
  change INTEGER NOT NULL, vector BLOB, PRIMARY KEY (number, embedder));
CREATE INDEX changes ON vectors (kind, embedder, change);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('change', 0), ('epoch', 0);
"""
_DAMAGED = "SELECT number FROM vectors WHERE length(vector) % 4 != 0 OR length(vector) = 0 LIMIT 20"
# A vector that is gone stays as a row without one, so that other processes hear of it; `rebuild` clears them
# away and raises the epoch. Ids are UTF-8 as blobs: ordered by code points, whatever they hold.


class SqliteKeeper:
    """Rows in SQLite (WAL). A connection belongs to one process: after a fork it is opened anew."""

    def __init__(self, path: Path, *, fsync: bool = True, many: int | None = None) -> None:
        self.path = path
        self.place = str(path)
        self._fsync = fsync
        self._many = many
        self._forked: list[sqlite3.Connection] = []
        self._process = 0
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if is_emptied(self.path):
                raise StorageError(
                    f"{self.path}: is empty (0 bytes), so what it held is lost; put a copy back, or begin "
                    "anew: fractal brain rebuild"
                )
            self._base = connect(self.path, self._fsync)
            self._words = Words(self._base)
            self._near: Near | None = None
            self._version()

    def _version(self) -> None:
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        if version == 0:
            with immediate(self._base):
                (version,) = self._base.execute("PRAGMA user_version").fetchone()
                if version == 0:
                    for statement in SCHEMA.split(";\n"):
                        self._base.execute(statement)
                    self._base.execute(f"PRAGMA user_version = {FORMAT}")
                    version = FORMAT
        if version == FORMAT and not changes.noted(self._base):
            with immediate(self._base):
                changes.note(self._base)
        if version != FORMAT:
            self._base.close()
            raise ConfigurationError(
                f"{self.path}: its format is {version}, and this Fractal reads {FORMAT}; export it with the "
                "Fractal that wrote it (fractal brain export), and import that"
            )

    def _nearness(self) -> Near:
        if self._near is None:
            from runtime.store.near import MANY, Near  # numpy comes with it, and only who asks waits for it

            self._near = Near(self._base, self.path, self._many or MANY)
        return self._near

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell what SQLite refuses as an error of ours, with the place and a mend."""
        try:
            if self._process != os.getpid():
                self._forked.append(self._base)  # never closed here: that would let go of the parent's locks
                self._open()
            yield
        except sqlite3.OperationalError as error:
            said = str(error)
            mend = "make room on that disk, then try again"
            if "locked" in said or "busy" in said:
                mend = "another process holds it; try again when that is done"
            elif "full" not in said:
                mend = "mend that, then try again"
            raise StorageError(f"{self.path}: {said}; {mend}") from error
        except sqlite3.DatabaseError as error:
            mend = "to save what can be read: fractal brain rebuild"
            raise StorageError(f"{self.path}: {error}; {mend}") from error
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}; mend that, then try again") from error

    # ---- writing -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Writers wait for each other here, so that no transaction fails in its middle."""
        with self._told():
            self._base.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """With fsync, it is on the disk when this returns."""
        with self._told():
            self._base.execute("COMMIT")

    def rollback(self) -> None:
        """SQLite may have done so by itself, on a full disk."""
        with suppress(sqlite3.Error):
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
        self._words.unsure()
        self._near = None

    def write(self, rows: Sequence[Row]) -> None:
        """The rows, their words and their vectors."""
        with self._told():
            change = self._changed() if rows else 0
            for row in rows:
                id = key(row.id)
                (number,) = self._base.execute(
                    "INSERT INTO records (kind, id, body) VALUES (?, ?, ?) "
                    "ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body RETURNING number",
                    (row.kind, id, row.body),
                ).fetchone()
                self._words.put(row.kind, number, row.text)
                self._write_vectors(row, number, change)

    def _write_vectors(self, row: Row, number: int, change: int) -> None:
        known = dict(self._base.execute("SELECT embedder, vector FROM vectors WHERE number = ?", (number,)))
        for embedder in {*known, *row.vectors}:
            raw = row.vectors.get(embedder)
            if embedder not in known or known[embedder] != raw:
                self._base.execute(
                    "INSERT OR REPLACE INTO vectors (number, embedder, kind, change, vector) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (number, embedder, row.kind, change, raw),
                )

    def _changed(self) -> int:
        """The number of this change: writers take turns, so it only grows."""
        return self._base.execute(
            "UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value"
        ).fetchone()[0]

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """The rows, their words; their vectors become known as gone."""
        with self._told():
            gone = [
                found[0]
                for id in dict.fromkeys(ids)
                if (
                    found := self._base.execute(
                        "DELETE FROM records WHERE kind = ? AND id = ? RETURNING number", (kind, key(id))
                    ).fetchone()
                )
            ]
            change = self._changed() if gone else 0
            for number in gone:
                self._words.drop(kind, number)
                self._base.execute(
                    "UPDATE vectors SET vector = NULL, change = ? WHERE number = ?", (change, number)
                )
            return len(gone)

    # ---- reading -----------------------------------------------------------------------------------------

    def read(self, kind: str, ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows that there are."""
        keys = [key(id) for id in dict.fromkeys(ids)]
        rows: list[Row] = []
        with self._told():
            for start in range(0, len(keys), AT_ONCE):
                part = keys[start : start + AT_ONCE]
                marks = ",".join("?" * len(part))
                rows += self._whole(
                    kind,
                    f"SELECT number, id, body FROM records WHERE kind = ? AND id IN ({marks})",
                    (kind, *part),
                )
        return {row.id: row for row in rows}

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """Taken out by SQLite, which reads a large body many times faster."""
        paths = [f"$.{name}" for name in (*names, "id")]  # of a single path it would give no list
        taken = f"CASE WHEN json_valid(body) THEN json_extract(body, {','.join('?' * len(paths))}) END"
        keys = [key(id) for id in dict.fromkeys(ids)]
        found: dict[str, str] = {}
        with self._told():
            for start in range(0, len(keys), AT_ONCE):
                part = keys[start : start + AT_ONCE]
                query = (
                    f"SELECT id, {taken} FROM records WHERE kind = ? AND id IN ({','.join('?' * len(part))})"
                )
                rows = self._base.execute(query, (*paths, kind, *part))
                found |= {unkey(id): values or "" for id, values in rows}
        return found

    def page(
        self, kind: str, where: Where, after: str | None, most: int, vectors: bool = True
    ) -> tuple[list[Row], str | None]:
        """Rows by id, most of those that do not suit left out by SQLite."""
        clauses, values = narrowed(where)
        query = " AND ".join(["kind = ?", "id > ?", *clauses])
        start = key(after) if after is not None else b""
        statement = f"SELECT number, id, body FROM records WHERE {query} ORDER BY id LIMIT ?"
        with self._told():
            try:
                rows = self._whole(kind, statement, (kind, start, *values, most), vectors)
            except sqlite3.OperationalError as error:
                if "malformed JSON" not in str(error):
                    raise
                return self.page(
                    kind, {}, after, most, vectors
                )  # one body is broken: it is left out further up
        return rows, rows[-1].id if len(rows) == most else None

    def _whole(self, kind: str, query: str, values: Sequence[Any], whole: bool = True) -> list[Row]:
        """Rows with their text and, where the whole is wanted, vectors."""
        found = self._base.execute(query, values).fetchall()
        vectors: dict[int, dict[str, bytes]] = {}
        for start in range(0, len(found) if whole else 0, AT_ONCE):
            numbers = [number for number, _, _ in found[start : start + AT_ONCE]]
            marks = ",".join("?" * len(numbers))
            for number, embedder, raw in self._base.execute(
                f"SELECT number, embedder, vector FROM vectors WHERE number IN ({marks}) AND vector NOTNULL",
                numbers,
            ):
                vectors.setdefault(number, {})[embedder] = raw
        return [Row(kind, unkey(id), body, None, vectors.get(number, {})) for number, id, body in found]

    def nearest(self, kind: str, embedder: str, vector: bytes, most: int) -> list[Hit]:
        """Exact, or where there are very many and an index was made, nearly."""
        with self._told():
            return self._hits(self._nearness().find(kind, embedder, vector, most), most, 6)

    def search(self, kind: str, text: str, most: int) -> list[Hit]:
        """By FTS5."""
        with self._told():
            return self._hits(self._words.find(kind, text, most), most, 12)

    def _hits(self, found: Sequence[tuple[int, float]], most: int, digits: int) -> list[Hit]:
        from runtime.store.memory import ordered

        names: dict[int, str] = {}
        for start in range(0, len(found), AT_ONCE):
            numbers = [number for number, _ in found[start : start + AT_ONCE]]
            marks = ",".join("?" * len(numbers))
            query = f"SELECT number, id FROM records WHERE number IN ({marks})"
            names |= {number: unkey(id) for number, id in self._base.execute(query, numbers)}
        return ordered(found, names, most, digits=digits)

    def kinds(self) -> Mapping[str, int]:
        """How many rows of each kind there are."""
        with self._told():
            return dict(self._base.execute("SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind"))

    def mark(self) -> object:
        """How many changes there were, how often all was made anew, and since which change there is a log."""
        with self._told():
            return changes.mark(self._base)

    def since(self, mark: Any) -> list[tuple[str, str]] | None:
        """By the log of changes; None after a rebuild, and for what was before the log began."""
        with self._told():
            return changes.since(self._base, tuple(mark))

    def beside(self, name: str) -> Path | None:
        """A file that begins as the database does: who forgets something removes it."""
        return self.path.with_name(f"{self.path.stem}.{name}")

    # ---- care --------------------------------------------------------------------------------------------

    def faults(self) -> list[Fault]:
        """The pages of the file, each row, and each index against the rows."""
        try:
            faults = [Fault(self.place, line) for line in self._damages()]
            for kind in self.kinds():
                faults += self._faults_of(kind)
            stray = self._base.execute(
                "SELECT count(*) FROM vectors "
                "WHERE vector NOTNULL AND number NOT IN (SELECT number FROM records)"
            ).fetchone()[0]
            damaged = [f"record {number}" for (number,) in self._base.execute(_DAMAGED)]
        except (sqlite3.DatabaseError, StorageError) as error:
            return [Fault(self.place, str(error))]
        if stray:
            faults.append(Fault(self.place, f"{stray} vectors belong to no record"))
        return faults + [Fault(self.place, f"a damaged vector of {name}") for name in damaged]

    def _damages(self) -> list[str]:
        """What SQLite says of the file itself; nothing when it is whole."""
        try:
            said = [line for (line,) in self._base.execute("PRAGMA integrity_check(20)")]
            there = {name for (name,) in self._base.execute("SELECT name FROM sqlite_master")}
        except sqlite3.DatabaseError as error:
            return [str(error)]
        missing = [f"the table {name} is missing" for name in ("records", "vectors", "counters")]
        return [line for line in said if line != "ok"] + [
            each for each in missing if each.split()[2] not in there
        ]

    def _faults_of(self, kind: str) -> list[Fault]:
        faults: list[Fault] = []
        if not self._words.whole(kind):
            faults.append(Fault(self.place, f"the index of words of {kind} is damaged"))
        indexed = dict(self._words.texts(kind))
        query = "SELECT number, id, body FROM records WHERE kind = ?"
        for number, id, body in self._base.execute(query, (kind,)):
            where = f"{self.place}: {kind} {unkey(id)}"
            words = indexed.pop(number, "")
            if wrong := wrong_with(id, body):
                faults.append(Fault(where, wrong))
            elif words != plain(text_of(body)):
                faults.append(Fault(where, "its words are not in the index"))
        return faults + [Fault(self.place, f"words of a {kind} that is not there") for _ in indexed]

    def rebuild(self) -> list[Fault]:
        """Words and vectors anew; a file that is broken is put aside, and what can be read of it is saved."""
        from runtime.store.salvage import salvage

        lost: list[Fault] = []
        if self._damages():
            self._base.close()
            lost = salvage(self.path)
            self._open()
        self.begin()
        try:
            lost += self._put_aside()
            for kind in {*self._words.kinds(), *self.kinds()}:
                self._words.forget(kind)
                for number, body in self._base.execute(
                    "SELECT number, body FROM records WHERE kind = ?", (kind,)
                ).fetchall():
                    self._words.put(kind, number, text_of(body))
            self._base.execute(
                "DELETE FROM vectors WHERE vector IS NULL OR length(vector) % 4 != 0 OR length(vector) = 0 "
                "OR number NOT IN (SELECT number FROM records)"
            )
            self._base.execute("UPDATE counters SET value = value + 1 WHERE name = 'epoch'")
            self.commit()
        except BaseException:
            self.rollback()
            raise
        self._nearness().build()
        with self._told():
            self._base.execute("VACUUM")
            self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return lost

    def _put_aside(self) -> list[Fault]:
        """Rows that nobody can read, out of the shelf and into a file beside it."""
        lost: list[Fault] = []
        for number, kind, id, body in self._base.execute(
            "SELECT number, kind, id, body FROM records"
        ).fetchall():
            if wrong := wrong_with(id, body):
                aside = self.path.with_name(f"{self.path.name}.quarantine")
                with aside.open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(json.dumps({"kind": kind, "id": repr(id), "body": repr(body)}) + "\n")
                self._base.execute("DELETE FROM records WHERE number = ?", (number,))
                lost.append(Fault(f"{self.place}: {kind} {unkey(id)}", f"{wrong}; it is in {aside.name} now"))
        return lost

    def close(self) -> None:
        """The last one to close the file takes its log into it."""
        if self._process == os.getpid():
            self._base.close()
