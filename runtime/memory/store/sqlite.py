"""The store in SQLite: in one file, the default, or in memory.

Many processes may have the file open; what it has committed is durable. A deleted vector stays as a row
without a vector, so that other processes notice; `rebuild` removes these rows and increments the epoch. Ids
are UTF-8 blobs, which sort by code points whatever they contain. Triggers log which records changed, also for
processes of an earlier version that have the file open.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel import disk
from kernel.errors import StorageError
from runtime.memory.store.filters import Where, in_sql
from runtime.memory.store.record import FORMAT, Fault, Hit, Row, key, refuse_newer, unkey
from runtime.memory.store.words import Words

if TYPE_CHECKING:
    from runtime.memory.store.matrix import Matrices

IN_MEMORY = Path(":memory:")
"""The path of a store without a file."""
AT_ONCE = 500
"""Values in one SQL statement."""
BUSY = 20.0
"""Seconds that a write waits for another process."""
JUST_MADE = 60.0
"""Seconds that another process may take to fill the file it has created."""
SCHEMA = """
CREATE TABLE records (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id BLOB NOT NULL,
  body TEXT NOT NULL, UNIQUE (kind, id));
CREATE TABLE vectors (number INTEGER NOT NULL, embedder TEXT NOT NULL, kind TEXT NOT NULL,
  change INTEGER NOT NULL, vector BLOB, PRIMARY KEY (number, embedder));
CREATE INDEX changes ON vectors (kind, embedder, change);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('change', 0), ('epoch', 0);
"""
_PUT = """INSERT INTO touched SELECT new.kind, new.id, value FROM counters WHERE name = 'change'
  ON CONFLICT (kind, id) DO UPDATE SET change = excluded.change"""
_GONE = _PUT.replace("new.", "old.").replace(" value ", " value + 1 ")  # a deletion is counted afterwards
LOG = (
    "CREATE TABLE touched (kind TEXT NOT NULL, id BLOB NOT NULL, change INTEGER NOT NULL, "
    "PRIMARY KEY (kind, id)) WITHOUT ROWID",
    "CREATE INDEX touches ON touched (change)",
    f"CREATE TRIGGER noted_put AFTER INSERT ON records BEGIN {_PUT}; END",
    f"CREATE TRIGGER noted_again AFTER UPDATE ON records BEGIN {_PUT}; END",
    f"CREATE TRIGGER noted_gone AFTER DELETE ON records BEGIN {_GONE}; END",
    "INSERT INTO counters SELECT 'logged', value FROM counters WHERE name = 'change'",
)


def connect(path: Path, fsync: bool = True) -> sqlite3.Connection:
    """A connection with a write-ahead log that waits for other processes."""
    base = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    until = time.monotonic() + BUSY
    while True:  # the busy timeout does not apply to changing the mode of a new file
        try:
            base.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                base.close()
                raise
            time.sleep(0.01)
    base.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
    base.execute("PRAGMA cache_size = -4096")
    base.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # broken text is reported per row
    base.execute("PRAGMA journal_size_limit = 67108864")
    if path != IN_MEMORY:
        path.chmod(0o600)
    return base


class SqliteKeeper:
    """Rows in SQLite. It knows no models, skips what it cannot read, and reports that in `faults`.

    Nobody else sees what is written between `begin` and `commit`. A connection to a file belongs to one
    process: after a fork it is opened again.
    """

    clauses = staticmethod(in_sql)
    here = ""
    """What this workspace is called among those that share the store; "" where nobody else does."""

    def __init__(self, path: Path = IN_MEMORY, *, fsync: bool = True) -> None:
        self.path = path
        self.place = str(path)
        self._fsync = fsync
        self._forked: list[sqlite3.Connection] = []
        self._process = 0
        self.open()

    def open(self) -> None:
        """Open the file, and create what is missing in it."""
        self._process = os.getpid()
        with self.errors():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._was_emptied():
                raise StorageError(
                    f"{self.path}: is empty (0 bytes), so what it held is lost; restore a copy, or start "
                    "over: fractal brain rebuild"
                )
            self.base = connect(self.path, self._fsync)
            self.words = Words(self.base)
            self._matrices: Matrices | None = None
            self._create()

    def _was_emptied(self) -> bool:
        """Whether the file lost its content; one that is just being created is empty for a moment."""
        with suppress(FileNotFoundError):
            seen = self.path.stat()
            return seen.st_size == 0 and time.time() - seen.st_mtime > JUST_MADE
        return False

    def _create(self) -> None:
        """Create the tables in a new file, and the log of changes in one of an earlier version."""
        version = self._version()
        if version > FORMAT:
            self.base.close()
        refuse_newer(self.path, version)
        if version and self._logs():
            return
        with self._immediate():
            if not self._version():
                for statement in SCHEMA.split(";\n"):
                    self.base.execute(statement)
                self.base.execute(f"PRAGMA user_version = {FORMAT}")
            if not self._logs():
                for statement in LOG:
                    self.base.execute(statement)

    def version(self) -> int:
        """The format of what is stored; see `migration`."""
        with self.errors():
            return self._version()

    def _version(self) -> int:
        return self.base.execute("PRAGMA user_version").fetchone()[0]

    def set_version(self, version: int) -> None:
        """Note the format of what is stored, in a transaction."""
        with self.errors():
            self.base.execute(f"PRAGMA user_version = {version}")

    def back_up(self, target: Path) -> None:
        """Write a complete copy to a new file."""
        disk.create(target, b"")  # SQLite would let others read it
        with self.errors():
            self.base.execute("VACUUM INTO ?", (str(target),))
            disk.sync(target)

    def _logs(self) -> bool:
        """Whether changes are logged, or cannot be in a damaged file, which `check` reports."""
        names = {name for (name,) in self.base.execute("SELECT name FROM sqlite_master")}
        return "touched" in names or not {"records", "counters"} <= names

    @contextmanager
    def _immediate(self) -> Generator[None]:
        self.base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self.base.execute("ROLLBACK")
            raise
        self.base.execute("COMMIT")

    @contextmanager
    def errors(self) -> Generator[None]:
        """Raise errors of SQLite as `StorageError`, with the file and what to do."""
        try:
            if self._process != os.getpid() and self.path != IN_MEMORY:
                self._forked.append(self.base)  # closing it here would release the locks of the parent
                self.open()
            yield
        except sqlite3.OperationalError as error:
            said = str(error)
            if "locked" in said or "busy" in said:
                fix = "another process holds it; retry when that is done"
            else:
                fix = "free space on that disk, then retry" if "full" in said else "fix the cause and retry"
            raise StorageError(f"{self.path}: {said}; {fix}") from error
        except sqlite3.DatabaseError as error:
            raise StorageError(
                f"{self.path}: {error}; to save what can be read: fractal brain rebuild"
            ) from error
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}; fix the cause and retry") from error

    def refresh(self, kind: str = "") -> None:
        """Notice what others changed in a kind, or in all: SQLite does so by itself."""

    def begin(self) -> None:
        """Begin a transaction. Writers wait for each other here, so that none fails in its middle."""
        with self.errors():
            self.base.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable: with fsync, the data is on the disk when this returns."""
        with self.errors():
            self.base.execute("COMMIT")

    def rollback(self) -> None:
        """Discard what was written since `begin`; on a full disk SQLite may have done so itself."""
        with suppress(sqlite3.Error):
            if self.base.in_transaction:
                self.base.execute("ROLLBACK")
        self.forget()

    @contextmanager
    def held(self, name: str) -> Generator[bool]:
        """Whether no other machine is inside a block of this name; locks of files see to one machine."""
        yield True

    def forget(self) -> None:
        """Drop the vectors in memory."""
        self._matrices = None

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows with their words and vectors, replacing those with the same kind and id."""
        with self.errors():
            change = self._next_change() if rows else 0
            for row in rows:
                (number,) = self.base.execute(
                    "INSERT INTO records (kind, id, body) VALUES (?, ?, ?) "
                    "ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body RETURNING number",
                    (row.kind, key(row.id), row.body),
                ).fetchone()
                self.words.put(row.kind, number, row.text)
                self._write_vectors(row, number, change)

    def _write_vectors(self, row: Row, number: int, change: int) -> None:
        known = dict(self.base.execute("SELECT embedder, vector FROM vectors WHERE number = ?", (number,)))
        for embedder in {*known, *row.vectors}:
            raw = row.vectors.get(embedder)
            if embedder not in known or known[embedder] != raw:
                self.base.execute(
                    "INSERT INTO vectors (number, embedder, kind, change, vector) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (number, embedder) DO UPDATE SET change = excluded.change, "
                    "vector = excluded.vector",
                    (number, embedder, row.kind, change, raw),
                )

    def _next_change(self) -> int:
        """The number of this change; it only grows, because writers take turns."""
        return self.base.execute(
            "UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value"
        ).fetchone()[0]

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Delete rows and their words, and empty their vectors; returns how many rows existed."""
        delete = "DELETE FROM records WHERE kind = ? AND id = ? RETURNING number"
        with self.errors():
            found = [self.base.execute(delete, (kind, key(id))).fetchone() for id in dict.fromkeys(ids)]
            gone = [row[0] for row in found if row]
            change = self._next_change() if gone else 0
            for number in gone:
                self.words.put(kind, number, "")
                self.base.execute(
                    "UPDATE vectors SET vector = NULL, change = ? WHERE number = ?", (change, number)
                )
            return len(gone)

    def _among(self, query: str, before: Sequence[Any], values: Sequence[Any]) -> Iterator[Any]:
        """The rows of a query with `IN (…)`, where `…` may be any number of values."""
        for start in range(0, len(values), AT_ONCE):
            part = values[start : start + AT_ONCE]
            yield from self.base.execute(query.replace("…", ",".join("?" * len(part))), (*before, *part))

    def read(self, kind: str, ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows that exist."""
        self.refresh(kind)
        keys = [key(id) for id in dict.fromkeys(ids)]
        query = "SELECT number, id, body FROM records WHERE kind = ? AND id IN (…)"
        with self.errors():
            rows = self._with_vectors(kind, list(self._among(query, (kind,), keys)))
        return {row.id: row for row in rows}

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """For each row that exists, a JSON list that begins with the values of these fields; "" if broken.

        SQLite extracts them, which is many times faster for a large body.
        """
        self.refresh(kind)
        paths = [f"$.{name}" for name in (*names, "id")]  # a single path would give no list
        taken = f"CASE WHEN json_valid(body) THEN json_extract(body, {','.join('?' * len(paths))}) END"
        query = f"SELECT id, {taken} FROM records WHERE kind = ? AND id IN (…)"
        keys = [key(id) for id in dict.fromkeys(ids)]
        with self.errors():
            return {unkey(id): values or "" for id, values in self._among(query, (*paths, kind), keys)}

    def page(
        self, kind: str, where: Where, after: str | None, most: int, vectors: bool = True
    ) -> tuple[list[Row], str | None]:
        """Rows behind the id `after`, by code points of the id; and the `after` of the next page, or None.

        The page holds every row that matches the filter and may hold others.
        """
        self.refresh(kind)
        clauses, values = self.clauses(where)
        query = " AND ".join(["kind = ?", "id > ?", *clauses])
        start = key(after) if after is not None else b""
        statement = f"SELECT number, id, body FROM records WHERE {query} ORDER BY id LIMIT ?"
        with self.errors():
            try:
                found = self.base.execute(statement, (kind, start, *values, most)).fetchall()
            except sqlite3.OperationalError as error:
                if "malformed JSON" not in str(error):
                    raise
                return self.page(kind, {}, after, most, vectors)  # the shelf skips the broken body
            rows = self._with_vectors(kind, found, vectors)
        return rows, rows[-1].id if len(rows) == most else None

    def _with_vectors(self, kind: str, found: Sequence[Any], wanted: bool = True) -> list[Row]:
        vectors: dict[int, dict[str, bytes]] = {}
        if wanted:
            query = "SELECT number, embedder, vector FROM vectors WHERE vector NOTNULL AND number IN (…)"
            for number, embedder, raw in self._among(query, (), [number for number, _, _ in found]):
                vectors.setdefault(number, {})[embedder] = raw
        return [Row(kind, unkey(id), body, None, vectors.get(number, {})) for number, id, body in found]

    def nearest(self, kind: str, embedder: str, vector: bytes, most: int) -> list[Hit]:
        """By dot product with every vector of this embedder, the highest first, then by id."""
        self.refresh(kind)
        with self.errors():
            if self._matrices is None:
                from runtime.memory.store.matrix import Matrices  # imports numpy, which takes time

                self._matrices = Matrices(self.base)
            return self._hits(self._matrices.nearest(kind, embedder, vector, most), most, digits=6)

    def search(self, kind: str, text: str, most: int) -> list[Hit]:
        """By BM25 over any words of the text, the best first, then by id."""
        self.refresh(kind)
        with self.errors():
            return self._hits(self.words.find(kind, text, most), most, digits=12)

    def _hits(self, found: Sequence[tuple[int, float]], most: int, digits: int) -> list[Hit]:
        """By score, then by id; scores that differ by less than float32 can tell count as equal."""
        query = "SELECT number, id FROM records WHERE number IN (…)"
        scores = dict(found)
        hits = [Hit(unkey(id), scores[number]) for number, id in self._among(query, (), list(scores))]
        return sorted(hits, key=lambda hit: (-round(hit.score, digits), hit.id))[:most]

    def kinds(self) -> Mapping[str, int]:
        """The number of rows of each kind."""
        self.refresh()
        with self.errors():
            return dict(self.base.execute("SELECT kind, count(*) FROM records GROUP BY kind ORDER BY kind"))

    def mark(self) -> tuple[int, ...]:
        """The state of the store: it differs after every change, by whatever process.

        The counters `change`, `epoch` and `logged` (the change at which the log begins).
        """
        self.refresh()
        with self.errors():
            return tuple(value for (value,) in self.base.execute("SELECT value FROM counters ORDER BY name"))

    def since(self, mark: Any, until: Any = None) -> list[tuple[str, str]] | None:
        """The kinds and ids changed between two marks (`until` defaults to now), from the log of changes.

        None after a rebuild, and for what was before the log began. A mark may have been stored as JSON in
        between: tuples may have become lists.
        """
        now = until or self.mark()
        if list(mark[1:]) != list(now[1:]) or not now[-1] <= mark[0] <= now[0]:
            return None
        if mark[0] == now[0]:
            return []
        query = "SELECT kind, id FROM touched WHERE change > ? AND change <= ? ORDER BY change"
        with self.errors():
            return [(kind, unkey(id)) for kind, id in self.base.execute(query, (mark[0], now[0]))]

    def beside(self, name: str) -> Path | None:
        """Where a derived file may be kept; it may be deleted at any time, and `forget` does so."""
        return self.path.with_name(f"{self.path.stem}.{name}") if self.path != IN_MEMORY else None

    def faults(self) -> list[Fault]:
        """Check the pages of the file, each row, and each index against the rows."""
        from runtime.memory.store.repair import faults

        return faults(self)

    def rebuild(self) -> list[Fault]:
        """Rebuild words and vectors, put aside what cannot be read, and report that.

        A broken file is put aside as a whole, and what can be read of it is saved.
        """
        from runtime.memory.store.repair import rebuild

        return rebuild(self, _create)

    def close(self) -> None:
        """The last connection to close merges the write-ahead log."""
        if self._process == os.getpid():
            self.base.close()


def salvage(path: Path) -> list[Fault]:
    """Put a broken file aside and save what can be read of it into a new one; returns what was lost."""
    from runtime.memory.store.repair import salvage

    return salvage(path, _create)


def _create(path: Path) -> None:
    SqliteKeeper(path).close()
