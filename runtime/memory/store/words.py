"""Search by words: an FTS5 table for each kind, in the store's own database or one in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence

MOST_TERMS = 64
"""Different words of a query that count."""
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by for from had has have how i in is it its of on or that the their this to "
        "was were what when where which who will with you your",
    )
)
"""Words that say little and are in so many texts that ranking them all is slow."""
_NO_SPACES = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")
_PREFIX = "words_"
_FTS5 = "fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')"


class Words:
    """Texts by number, one table per kind. Words are compared without case, accents and English endings."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base

    def put(self, kind: str, number: int, text: str) -> None:
        """Index a text, replacing the one with this number; an empty one is removed."""
        if text:
            self._base.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS {_name(kind)} USING {_FTS5}")
            self._base.execute(
                f"INSERT OR REPLACE INTO {_name(kind)} (rowid, text) VALUES (?, ?)", (number, plain(text))
            )
        elif self._exists(kind):
            self._base.execute(f"DELETE FROM {_name(kind)} WHERE rowid = ?", (number,))

    def find(self, kind: str, text: str, most: int) -> list[tuple[int, float]]:
        """Numbers and BM25 scores, the best first, with all ties of the last score."""
        terms = dict.fromkeys(re.findall(r"\w+", plain(text).casefold()))
        if not terms:
            return []
        telling = [term for term in terms if term not in COMMON] or list(terms)
        found = self.ranked(kind, telling[:MOST_TERMS], most + 256)
        return [each for each in found if each[1] >= found[most - 1][1]] if len(found) > most else found

    def ranked(self, kind: str, words: Sequence[str], most: int) -> list[tuple[int, float]]:
        """Numbers and scores of texts that have any of the words, the best first."""
        if not self._exists(kind):
            return []
        found = self._base.execute(
            f"SELECT rowid, -rank FROM {_name(kind)} WHERE text MATCH ? ORDER BY rank, rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), most),
        )
        return found.fetchall()

    def texts(self, kind: str) -> Iterable[tuple[int, str]]:
        """What is indexed."""
        return self._base.execute(f"SELECT rowid, text FROM {_name(kind)}") if self._exists(kind) else ()

    def whole(self, kind: str) -> bool:
        """Whether the index is consistent in itself."""
        if self._exists(kind):
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
        """Drop the table of a kind."""
        self._base.execute(f"DROP TABLE IF EXISTS {_name(kind)}")

    def _exists(self, kind: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return self._base.execute(query, (_name(kind),)).fetchone() is not None


def _name(kind: str) -> str:
    return _PREFIX + kind.replace("-", "_")


def plain(text: str) -> str:
    """The text as it is indexed: valid for SQLite, with spaces around signs of scripts without spaces."""
    safe = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
    return safe if safe.isascii() else _NO_SPACES.sub(r" \1 ", safe)
