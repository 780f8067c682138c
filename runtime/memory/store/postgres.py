"""The store in PostgreSQL: one memory, with its messages, for several machines.

Each name of a store is a schema with tables of the shape that SQLite's have, so most of the SQL is that of
`sqlite`. A transaction locks the counter of changes: writers take turns, and changes become visible in their
order. Text is searched by PostgreSQL, among words that are prepared here.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from typing import Any
from unicodedata import combining, normalize

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from Stemmer import Stemmer

from kernel import disk
from kernel.errors import ConfigurationError, StorageError
from runtime import user_files
from runtime.memory.store.filters import Where
from runtime.memory.store.moving import lines
from runtime.memory.store.record import FORMAT, Fault, key, parsed, refuse_newer, unkey
from runtime.memory.store.repair import DAMAGED, reindex, wrong_with
from runtime.memory.store.shelf import Shelf
from runtime.memory.store.sqlite import BUSY, SqliteKeeper
from runtime.memory.store.words import Words, plain

VARIABLE = "FRACTAL_POSTGRES"
"""The address of the database: it may hold a password, and a folder's file must not redirect memory."""
ADDRESS = conninfo_to_dict(
    "application_name=fractal client_encoding=utf8 connect_timeout=10 keepalives_idle=30 "
    "keepalives_interval=10 keepalives_count=3 tcp_user_timeout=60000"
)
"""What the address need not say: a connection that is lost is noticed."""
NAME = re.compile(r"fractal_[a-z0-9/-]{1,55}")
"""The name of a schema. PostgreSQL cuts what is longer, and two stores would become one."""
LONGEST_TERM, SEARCHED = 100, 200_000
"""Characters of a word, and of a text, that are indexed: a `tsvector` has at most 1 MB."""
LOST = ("08", "28", "3D", "57")
"""Classes of errors that concern the connection: its loss, who may connect, the database, a shutdown."""
SCHEMA = """
CREATE TABLE records (number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind TEXT COLLATE "C" NOT NULL,
  id BYTEA NOT NULL, body TEXT NOT NULL, UNIQUE (kind, id));
CREATE TABLE vectors (number BIGINT NOT NULL, embedder TEXT NOT NULL, kind TEXT NOT NULL,
  change BIGINT NOT NULL, vector BYTEA, PRIMARY KEY (number, embedder));
CREATE INDEX changes ON vectors (kind, embedder, change);
CREATE TABLE words (number BIGINT PRIMARY KEY, kind TEXT NOT NULL, terms TSVECTOR NOT NULL);
CREATE INDEX terms ON words USING gin (terms);
CREATE TABLE counters (name TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters VALUES ('change', 0), ('epoch', (random() * 1e15)::bigint), ('logged', 0);
CREATE TABLE touched (kind TEXT NOT NULL, id BYTEA NOT NULL, change BIGINT NOT NULL, PRIMARY KEY (kind, id));
CREATE INDEX touches ON touched (change);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE one record;
  BEGIN
    IF TG_OP = 'DELETE' THEN one = old; ELSE one = new; END IF;
    INSERT INTO touched SELECT one.kind, one.id, value + (TG_OP = 'DELETE')::int FROM counters
      WHERE name = 'change' ON CONFLICT (kind, id) DO UPDATE SET change = excluded.change;
    RETURN NULL;
  END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON records FOR EACH ROW EXECUTE FUNCTION noted();
CREATE TABLE format (number BIGINT NOT NULL);
"""


class Connection(psycopg.Connection[Any]):
    """A connection that takes the SQL of the store in SQLite, with `?` for each value."""

    def execute(self, query: Any, params: Any = (), **more: Any) -> psycopg.Cursor[Any]:
        """Run one statement."""
        return super().execute(query.replace("%", "%%").replace("?", "%s"), params, binary=True, **more)


class PostgresWords(Words):
    """The index of words: a `tsvector` for each record. The rarity of a word does not count."""

    def __init__(self, base: Any) -> None:
        super().__init__(base)
        self._stem = Stemmer("porter").stemWords

    def put(self, kind: str, number: int, text: str) -> None:
        """Index a text, replacing the one with this number; an empty one is removed."""
        if not text:
            self._base.execute("DELETE FROM words WHERE number = ?", (number,))
            return
        counts = Counter(self._terms(text))
        terms = " ".join(f"'{term}':{','.join(map(str, range(1, n + 1)))}" for term, n in counts.items())
        self._base.execute(
            "INSERT INTO words VALUES (?, ?, CAST(? AS tsvector)) "
            "ON CONFLICT (number) DO UPDATE SET terms = excluded.terms",
            (number, kind, terms),
        )

    def ranked(self, kind: str, words: Sequence[str], most: int) -> list[tuple[int, float]]:
        """By how often a text has any of the words, for its length."""
        query = " | ".join(f"'{term}'" for term in dict.fromkeys(self._terms(" ".join(words))))
        return self._base.execute(
            "SELECT number, ts_rank(terms, query, 1) FROM words, CAST(? AS tsquery) AS query "
            "WHERE kind = ? AND terms @@ query ORDER BY 2 DESC, 1 LIMIT ?",
            (query, kind, most),
        ).fetchall()

    def _terms(self, text: str) -> Sequence[str]:
        """The words without case, accents and English endings, as FTS5 has them: letters and digits."""
        spelt = normalize("NFKD", plain(text)).casefold()
        letters = "".join(each for each in spelt if not combining(each))[:SEARCHED]
        return self._stem([term[:LONGEST_TERM] for term in re.findall(r"[^\W_]+", letters)])

    def kinds(self) -> list[str]:
        """The kinds that have words."""
        return [kind for (kind,) in self._base.execute("SELECT DISTINCT kind FROM words")]

    def forget(self, kind: str) -> None:
        """Drop the words of a kind."""
        self._base.execute("DELETE FROM words WHERE kind = ?", (kind,))


def containing(where: Where) -> tuple[list[str], list[Any]]:
    """SQL clauses that every body fulfils that matches a filter; the rest is left to Python.

    PostgreSQL cannot read all JSON that a body may hold, such as a NUL in a text.
    """
    texts = (each for each in where.values() if isinstance(each, str))
    values = [json.dumps(text) for text in texts if text.isascii() and text.isprintable()]
    return ["strpos(body, ?) > 0"] * len(values), values


class PostgresKeeper(SqliteKeeper):
    """Rows in a schema of PostgreSQL. The file at `path` has what this workspace is called there."""

    clauses = staticmethod(containing)
    base: Any
    words: PostgresWords

    def __init__(self, name: str, path: Path, *, fsync: bool = True) -> None:
        """Connect to the store with this name at the address in `FRACTAL_POSTGRES`; created if missing."""
        space = re.search(r"/state/spaces(/[^/]+)/memory$", str(path.parent))
        name += space[1] if space else ""
        self.named, self.schema, self._writing = f"postgres:{name}", f"fractal_{name}", False
        if not NAME.fullmatch(self.schema):
            raise ConfigurationError(f"store: {self.named}: use up to 55 small letters, digits and hyphens")
        super().__init__(path, fsync=fsync)

    def open(self) -> None:
        """Connect to the database."""
        address: dict[str, Any] = {**ADDRESS, **_address(self.named)}
        self.place = f"{self.named} at {address.get('host', 'this machine')}/{address.get('dbname', '')}"
        with disk.writing_state(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            user_files.made_once(self.path, lambda: f"{gethostname()}-{token_hex(4)}".encode())
        self.here = user_files.text_of(self.path)
        with self._explained():
            self.base = Connection.connect(make_conninfo(**address), autocommit=True)
            self._process, self._writing, self._matrices = os.getpid(), False, None
            self.words = PostgresWords(self.base)
            try:
                self._prepare(self.base.cursor().execute)
            except BaseException:
                self.base.close()
                raise

    def _prepare(self, run: Callable[[Any], object]) -> None:
        """Set up a new connection, and create what is missing."""
        run(
            f"SET search_path = \"{self.schema}\"; SET lock_timeout = '{BUSY:g}s'; "
            f"SET synchronous_commit = {'on' if self._fsync else 'off'}; SET tcp_keepalives_idle = 30; "
            "SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"  # else a dead machine blocks
        )
        if not self._is_there():
            with self.base.transaction():
                run("SELECT pg_advisory_xact_lock(hashtext('fractal'))")  # two create it at once
                if not self._is_there():
                    run(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"; {SCHEMA}')
                    run(f"INSERT INTO format VALUES ({FORMAT})")
        refuse_newer(self.place, self._version())

    def _is_there(self) -> bool:
        # to_regclass would look up the schema in a cache, which need not know yet what another has created
        there = "SELECT count(*) FROM pg_tables WHERE schemaname = ? AND tablename = 'format'"
        return self.base.execute(there, (self.schema,)).fetchone()[0] > 0

    def _version(self) -> int:
        return self.base.execute("SELECT number FROM format").fetchone()[0]

    def set_version(self, version: int) -> None:
        """Note the format of what is stored, in a transaction."""
        with self.errors():
            self.base.execute("UPDATE format SET number = ?", (version,))

    @contextmanager
    def errors(self) -> Generator[None]:
        """Raise errors of PostgreSQL as `StorageError`; connect anew if that is lost, and no transaction."""
        if forked := self._process != os.getpid():
            self._forked.append(self.base)  # the parent's connection must stay open
        if forked or (self.base.closed and not self._writing):
            self.open()
        with self._explained():
            yield

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise StorageError(f"{self.place}: another process holds it; retry when that is done") from error
        except psycopg.Error as error:
            lost = isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08")[:2] in LOST
            fix = f"see that PostgreSQL runs and {VARIABLE} is right" if lost else "fix the cause"
            raise StorageError(f"{self.place}: {' '.join(str(error).split())}; {fix}, then retry") from error

    def begin(self) -> None:
        """Begin a transaction. Writers wait for each other here, so that none fails in its middle."""
        with self.errors():
            self.base.execute("BEGIN")
            self._writing = True
            try:
                self.base.execute("SELECT value FROM counters WHERE name = 'change' FOR UPDATE")
            except BaseException:
                self.rollback()
                raise

    def commit(self) -> None:
        """Make the transaction durable; if the connection is lost meanwhile, it is kept whole, or not."""
        with self.errors():
            if self.base.execute("COMMIT").statusmessage != "COMMIT":
                raise StorageError(f"{self.place}: a statement failed, so nothing of its transaction is kept")
        self._writing = False

    def rollback(self) -> None:
        """Discard what was written since `begin`; without a connection the server has done so."""
        self._writing = False
        with suppress(psycopg.Error):
            self.base.execute("ROLLBACK")
        self.forget()

    @contextmanager
    def held(self, name: str) -> Generator[bool]:
        """Whether no other machine is inside a block of this name; a lost connection ends it, too."""
        lock = (f"{self.schema} {name}",)
        with self.errors():
            (got,) = self.base.execute("SELECT pg_try_advisory_lock(hashtext(?))", lock).fetchone()
        try:
            yield got
        finally:
            with suppress(psycopg.Error):
                self.base.execute("SELECT pg_advisory_unlock(hashtext(?))", lock) if got else None

    def fields(self, kind: str, ids: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        """For each row that exists, a JSON list that begins with the values of these fields; "" if broken."""
        query = "SELECT id, body FROM records WHERE kind = ? AND id IN (…)"
        keys = [key(id) for id in dict.fromkeys(ids)]
        with self.errors():
            found = {unkey(id): parsed(body) for id, body in self._among(query, (kind,), keys)}
        return {id: json.dumps([*map(each.get, names)]) if each else "" for id, each in found.items()}

    def back_up(self, target: Path) -> None:
        """Write all records to a new file, as `fractal brain export` does."""
        disk.create(target, "".join(lines(Shelf(self))).encode())

    def faults(self) -> list[Fault]:
        """Check each row and vector; pages and indexes are PostgreSQL's own (`pg_amcheck`)."""
        with self.errors():
            query = "SELECT kind, id, body FROM records ORDER BY kind, id"
            rows = self.base.cursor(binary=True).stream(query)
            wrong = ((f"{self.place}: {kind} {unkey(id)}", wrong_with(id, body)) for kind, id, body in rows)
            found = [Fault(where, what) for where, what in wrong if what]
            damaged = self.base.execute(f"SELECT number FROM vectors WHERE {DAMAGED} LIMIT 20").fetchall()
        return found + [Fault(self.place, f"a damaged vector of record {number}") for (number,) in damaged]

    def rebuild(self) -> list[Fault]:
        """Put aside what cannot be read, rebuild words and vectors, and write the tables anew."""
        with self.errors():
            lost = reindex(self)
            self.base.execute("VACUUM FULL records, vectors, words")
        return lost


def _address(store: str) -> dict[str, Any]:
    """What the environment says. No message repeats it: it may hold a password."""
    example = f"set {VARIABLE} to an address such as postgresql://USER@HOST/DATABASE"
    if not (given := os.environ.get(VARIABLE)):
        raise ConfigurationError(f"store: {store} needs a database; {example}")
    try:
        return conninfo_to_dict(given)
    except psycopg.Error:
        raise ConfigurationError(f"{VARIABLE}: cannot be read; {example}") from None
