"""Search by words: a table of SQLite's FTS5 for each kind, in the store's own database or one in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

MOST_TERMS = 64
"""Different words of a question that count."""
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by for from had has have how i in is it its of on or that the their this to "
        "was were what when where which who will with you your",
    )
)
"""Words of a question that tell nothing, and stand in so many texts that to rank them all takes long."""
_NO_SPACES = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")
_PREFIX = "words_"


class Words:
    """Texts by number, a table a kind. Words are compared without case, accents and English endings."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        self._known: set[str] = set()

    def put(self, kind: str, number: int, text: str) -> None:
        """Take a text in, in the place of the one with this number."""
        if text:
            self._base.execute(
                f"INSERT OR REPLACE INTO {self._table(kind)} (rowid, text) VALUES (?, ?)",
                (number, plain(text)),
            )
        else:
            self.drop(kind, number)

    def drop(self, kind: str, number: int) -> None:
        """Take a text out."""
        if self._there(kind):
            self._base.execute(f"DELETE FROM {_name(kind)} WHERE rowid = ?", (number,))

    def find(self, kind: str, text: str, most: int) -> list[tuple[int, float]]:
        """Numbers and scores by BM25, the best first; of the last score all, for who orders them by id."""
        terms = dict.fromkeys(re.findall(r"\w+", plain(text).casefold()))
        if not terms or not self._there(kind):
            return []
        telling = [term for term in terms if term not in COMMON] or list(terms)
        question = " OR ".join(f'"{term}"' for term in telling[:MOST_TERMS])
        found = self._base.execute(
            f"SELECT rowid, rank FROM {_name(kind)} WHERE text MATCH ? ORDER BY rank, rowid LIMIT ?",
            (question, most + 256),
        ).fetchall()
        if len(found) > most:
            found = [each for each in found if each[1] <= found[most - 1][1]]
        return [(number, -rank) for number, rank in found]

    def texts(self, kind: str) -> Iterable[tuple[int, str]]:
        """What is indexed, for who compares it with the rows."""
        return self._base.execute(f"SELECT rowid, text FROM {_name(kind)}") if self._there(kind) else ()

    def whole(self, kind: str) -> bool:
        """Whether the index is consistent in itself."""
        if self._there(kind):
            try:
                self._base.execute(f"INSERT INTO {_name(kind)} ({_name(kind)}) VALUES ('integrity-check')")
            except sqlite3.DatabaseError:
                return False
        return True

    def kinds(self) -> list[str]:
        """The kinds that have a table."""
        found = self._base.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
        )
        return [name.removeprefix(_PREFIX).replace("_", "-") for (name,) in found if name.startswith(_PREFIX)]

    def forget(self, kind: str) -> None:
        """Take a kind's table away."""
        self._base.execute(f"DROP TABLE IF EXISTS {_name(kind)}")
        self._known.discard(kind)

    def unsure(self) -> None:
        """Look again which tables there are: after a rollback one may be gone."""
        self._known.clear()

    def _table(self, kind: str) -> str:
        if kind not in self._known:
            self._base.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS {_name(kind)} USING "
                "fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')"
            )
            self._known.add(kind)
        return _name(kind)

    def _there(self, kind: str) -> bool:
        if kind not in self._known:
            found = self._base.execute(
                "SELECT 1 FROM sqlite_master WHERE name = ?", (_name(kind),)
            ).fetchone()
            if not found:
                return False
            self._known.add(kind)
        return True


def _name(kind: str) -> str:
    return _PREFIX + kind.replace("-", "_")


def plain(text: str) -> str:
    """The text as it is indexed: what SQLite takes, a word each where a script writes no spaces."""
    safe = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
    return safe if safe.isascii() else _NO_SPACES.sub(r" \1 ", safe)
