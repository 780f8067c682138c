"""Which records of a SQLite file changed, so that an index in another file takes in only those.

Triggers note it, whoever writes: a process of an earlier Fractal that has the file open as well.
"""

from __future__ import annotations

import sqlite3

from runtime.store.cells import unkey

_PUT = """INSERT INTO touched SELECT new.kind, new.id, value FROM counters WHERE name = 'change'
  ON CONFLICT (kind, id) DO UPDATE SET change = excluded.change"""
_GONE = _PUT.replace("new.", "old.").replace(" value ", " value + 1 ")  # it is counted afterwards
_LOG = (
    "CREATE TABLE touched (kind TEXT NOT NULL, id BLOB NOT NULL, change INTEGER NOT NULL, "
    "PRIMARY KEY (kind, id)) WITHOUT ROWID",
    "CREATE INDEX touches ON touched (change)",
    f"CREATE TRIGGER noted_put AFTER INSERT ON records BEGIN {_PUT}; END",
    f"CREATE TRIGGER noted_again AFTER UPDATE ON records BEGIN {_PUT}; END",
    f"CREATE TRIGGER noted_gone AFTER DELETE ON records BEGIN {_GONE}; END",
    "INSERT INTO counters SELECT 'logged', value FROM counters WHERE name = 'change'",
)


def noted(base: sqlite3.Connection) -> bool:
    """Whether changes are noted, or cannot be: what is damaged is told elsewhere."""
    names = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    return "touched" in names or not {"records", "counters"} <= names


def note(base: sqlite3.Connection) -> None:
    """Note changes from now on, inside a transaction."""
    if not noted(base):
        for statement in _LOG:
            base.execute(statement)


def mark(base: sqlite3.Connection) -> tuple[int, ...]:
    """The counters `change`, `epoch` and `logged`."""
    return tuple(value for (value,) in base.execute("SELECT value FROM counters ORDER BY name"))


def since(base: sqlite3.Connection, before: tuple[int, ...]) -> list[tuple[str, str]] | None:
    """Kinds and ids of what was put or deleted since, None where that is not known."""
    now = mark(base)
    if len(before) != len(now) or before[1:] != now[1:] or not now[-1] <= before[0] <= now[0]:
        return None
    query = "SELECT kind, id FROM touched WHERE change > ? ORDER BY change"
    return [(kind, unkey(id)) for kind, id in base.execute(query, (before[0],))]
