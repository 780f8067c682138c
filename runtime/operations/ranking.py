"""The operation search: the passages of files that suit a query best, by BM25 (SQLite's full-text search)."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from unicodedata import combining, normalize

from kernel import disk
from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, operation
from runtime.operations.passages import decoded, passages
from runtime.operations.texts import existing
from runtime.operations.walking import Deadline, Entry, files_below, relative

MOST = 50
"""Results of one call at most."""
LARGEST = 4_000_000
"""Bytes of a file that is searched."""
MOST_FILES = 20_000
MOST_BYTES = 64_000_000
A_FILE = 3
"""Passages of one file that are shown, so that one long file does not hide the others."""
_CANDIDATES = 400
_SNIPPET = 280
_KEPT = 4  # indexes of folders that stay in memory
_WEIGHTS = "2.0, 2.0, 1.0, 0.5"  # of the path, the heading, the text, the parts of compound names
_STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by did do does for from had has have how i in is it its of on or our that the "
        "their there this to was we were what when where which who why will with you your",
    )
)
_COMPOUND = re.compile(r"\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b")
_ENDING = re.compile(r"(?<=\w\w\w)(?:ings?|ed|ies|es|e?s|ers?|ly|y|e)$")
_NO_SPACES = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")


@dataclass(frozen=True)
class _Hit:
    """A passage that was found."""

    name: str
    lines: list[int]
    heading: str
    text: str
    score: float


@operation()
def search(ctx: OperationContext, query: str, path: str = ".", limit: int = 10) -> Result:
    """The passages below a folder that suit the query best, as path:line: snippet, the best first."""
    if not 1 <= limit <= MOST:
        raise OperationFailed(f"limit: {limit} is not between 1 and {MOST}")
    terms = _terms(query)
    deadline = Deadline(ctx.timeout * 0.9)
    start = existing(ctx, path)
    entries = [entry for entry in files_below(ctx, path, "*", deadline) if _searchable(ctx, start, entry)]
    index = _index(start)
    with index.lock:
        left_out = index.refresh(entries, deadline)
        hits, unknown = index.best(terms)
    shown = _spread(hits, limit)
    told = [(hit, *_snippet(hit, terms)) for hit in shown]
    lines = [f"{hit.name}:{line}: {snippet}" for hit, line, snippet in told]
    searched = len(entries) - len(left_out)
    if not hits:
        lines.append(f"nothing suits {query!r} in {searched} files below {relative(ctx, start)}")
    elif len(hits) > len(shown):
        more = "or more " if len(hits) == _CANDIDATES else ""
        lines.append(f"({len(hits)} {more}passages in {len({hit.name for hit in hits})} files suit it)")
    if unknown and hits:
        lines.append(f"(in no file: {', '.join(unknown)})")
    if left_out:
        lines.append(f"(not searched: {_told(left_out)})")
    evidence: dict[str, Any] = {
        "searched": searched,
        "found": len(hits),
        "hits": [{"path": hit.name, "line": line, "score": round(hit.score, 3)} for hit, line, _ in told],
        "unknown": unknown,
        "not_searched": [f"{name}: {why}" for name, why in sorted(left_out.items())][:100],
    }
    return Result("\n".join(lines), evidence=evidence)


def _searchable(ctx: OperationContext, start: Path, entry: Entry) -> bool:
    """Not in a hidden folder, and not the workspace's own unless the search begins there."""
    if any(part.startswith(".") for part in entry.parts[:-1]):
        return False
    inside = (guarded for guarded in ctx.protected if guarded in (entry.path, *entry.path.parents))
    return all(guarded in (start, *start.parents) for guarded in inside)


def _terms(query: str) -> list[str]:
    """What is looked for: words without those that every text has, and phrases in quotes."""
    found = [hit[0] or hit[1] for hit in re.findall(r'"([^"]*\w[^"]*)"|([^\s"]+)', query)]
    words = [word for each in found if (word := each.strip(" .,;:!?()[]{}<>*'`").lower())]
    words = [word for word in dict.fromkeys(words) if re.search(r"\w", word)]
    if not words:
        raise OperationFailed("query: there is no word in it; give words that the text you look for holds")
    return ([word for word in words if word not in _STOP] or words)[:30]


def _quoted(term: str) -> str:
    return '"' + _spaced(term).replace('"', '""') + '"'


def _spaced(text: str) -> str:
    """Text whose script writes no spaces, a word for each character."""
    return _NO_SPACES.sub(r" \1 ", text)


class _Index:
    """The passages of the files below one folder; a file is read again when its time or size changed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._known: dict[str, tuple[int, int]] = {}
        self._faults: dict[str, str] = {}
        # no name: a database of its own, in memory and in a temporary file where it grows
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE places (id INTEGER PRIMARY KEY, name, lines, heading, text)")
        self._db.execute("CREATE INDEX named ON places (name)")
        try:
            self._db.execute(
                "CREATE VIRTUAL TABLE found USING fts5 "
                "(name, heading, text, parts, tokenize='porter unicode61 remove_diacritics 2')"
            )
        except sqlite3.OperationalError as error:
            raise OperationFailed(
                f"this Python's SQLite has no full-text search ({error}); use grep instead"
            ) from None

    def refresh(self, entries: Sequence[Entry], deadline: Deadline) -> dict[str, str]:
        """Take in what is new and changed, forget what is gone; returns the files left out, with why."""
        present = {entry.name for entry in entries}
        self._db.execute("BEGIN")
        try:
            for name in [name for name in self._known if name not in present]:
                self._forget(name)
            left = MOST_BYTES
            for number, entry in enumerate(entries):
                deadline.check()
                left -= self._take(entry, left if number < MOST_FILES else 0)
        finally:
            self._db.execute("COMMIT")
        return {name: why for name, why in self._faults.items() if name in present}

    def _take(self, entry: Entry, left: int) -> int:
        try:
            stat = entry.path.stat()
        except OSError:
            return 0  # gone meanwhile
        version = (stat.st_mtime_ns, stat.st_size)
        room = min(left, LARGEST)
        if self._known.get(entry.name) == version and self._faults.get(entry.name) != "beyond the limit":
            return 0 if entry.name in self._faults else stat.st_size
        self._forget(entry.name)
        self._known[entry.name] = version
        why = self._read(entry, stat.st_size, room)
        if why:
            self._faults[entry.name] = why
            return 0
        return stat.st_size

    def _read(self, entry: Entry, size: int, room: int) -> str:
        if size > LARGEST:
            return f"larger than {LARGEST // 1_000_000} MB"
        if size > room:
            return "beyond the limit"
        try:
            text = decoded(disk.read(entry.path)) if entry.path.is_file() else None
        except OSError as error:
            return (error.strerror or str(error)).lower()
        if text is None:
            return f"not text ({PurePath(entry.name).suffix or 'no suffix'})"
        for each in passages(entry.name, text):
            row = (entry.name, " ".join(map(str, each.lines)), each.heading, each.text)
            at = self._db.execute(
                "INSERT INTO places (name, lines, heading, text) VALUES (?,?,?,?)", row
            ).lastrowid
            parts = " ".join(
                part for name in _COMPOUND.findall(each.text) for part in re.findall(r"[A-Z]?[a-z0-9]+", name)
            )
            self._db.execute(
                "INSERT INTO found (rowid, name, heading, text, parts) VALUES (?,?,?,?,?)",
                (at, _spaced(entry.name), _spaced(each.heading), _spaced(each.text), parts),
            )
        return ""

    def _forget(self, name: str) -> None:
        self._faults.pop(name, None)
        if self._known.pop(name, None) is None:
            return
        self._db.execute("DELETE FROM found WHERE rowid IN (SELECT id FROM places WHERE name = ?)", (name,))
        self._db.execute("DELETE FROM places WHERE name = ?", (name,))

    def best(self, terms: Sequence[str]) -> tuple[list[_Hit], list[str]]:
        """The passages that hold any of the terms, the best first; and the terms that are nowhere."""
        holding = {term: self._holding(term) for term in terms}
        known = [term for term in terms if holding[term]]
        if not known:
            return [], list(terms)
        rows = self._db.execute(
            "SELECT places.id, places.name, lines, places.heading, places.text, "
            f"-bm25(found, {_WEIGHTS}) FROM found JOIN places ON places.id = found.rowid "
            "WHERE found MATCH ? ORDER BY 6 DESC, places.id LIMIT ?",
            (" OR ".join(map(_quoted, known)), _CANDIDATES),
        ).fetchall()
        hits: list[_Hit] = []
        for at, name, lines, heading, text, relevance in rows:
            covered = sum(at in holding[term] for term in known) / len(terms)
            # BM25 gives nothing for a word that most passages have: in a small folder, how many words
            # a passage has says more
            score = relevance * (1 + covered) / 2 + covered
            hits.append(_Hit(name, [int(line) for line in lines.split()], heading, text, score))
        hits.sort(key=lambda hit: (-round(hit.score, 9), hit.name, hit.lines))
        return hits, [term for term in terms if not holding[term]]

    def _holding(self, term: str) -> set[int]:
        """The passages that hold a term."""
        found = self._db.execute("SELECT rowid FROM found WHERE found MATCH ?", (_quoted(term),))
        return {row for (row,) in found}


_indexes: OrderedDict[Path, _Index] = OrderedDict()
_guard = threading.Lock()


def _index(start: Path) -> _Index:
    """The index of a folder; of the last few that were searched it is kept as long as the process lives."""
    with _guard:
        index = _indexes.pop(start, None) or _Index()
        _indexes[start] = index
        while len(_indexes) > _KEPT:
            _indexes.popitem(last=False)
        return index


def _spread(hits: Iterable[_Hit], limit: int) -> list[_Hit]:
    """The first hits, of each file a few, and of each place one."""
    shown: list[_Hit] = []
    files: Counter[str] = Counter()
    places: set[tuple[str, int]] = set()
    for hit in hits:
        if files[hit.name] == A_FILE or (hit.name, hit.lines[0]) in places:
            continue
        files[hit.name] += 1
        places.add((hit.name, hit.lines[0]))
        shown.append(hit)
        if len(shown) == limit:
            break
    return shown


def _snippet(hit: _Hit, terms: Sequence[str]) -> tuple[int, str]:
    """The line of a passage that has the most of what is sought, and what stands from there on."""
    roots = [_plain(_ENDING.sub("", word)) for term in terms for word in term.split()]
    lines = hit.text.split("\n")
    counts = [sum(root in plain for root in roots) for plain in map(_plain, lines)]
    at = counts.index(max(counts))
    text = " ".join(" ".join(lines[at:]).split())
    plain = _plain(text)
    first = min((place for root in roots if (place := plain.find(root)) >= 0), default=0)
    begin = max(0, first - _SNIPPET // 3) if first > _SNIPPET * 2 // 3 else 0
    cut = text[begin : begin + _SNIPPET]
    shown = f"{'…' if begin else ''}{cut}{'…' if begin + _SNIPPET < len(text) else ''}"
    said = hit.heading.rpartition(" › ")[2] in shown
    heading = "" if said else f"[{' '.join(hit.heading.split())[:80]}] "
    return hit.lines[min(at, len(hit.lines) - 1)], heading + shown


def _plain(text: str) -> str:
    """Lower case, without accents, as the index compares; as long as the text, but for rare letters."""
    return "".join(letter for letter in normalize("NFKD", text.lower()) if not combining(letter))


def _told(left_out: dict[str, str]) -> str:
    """Why files were left out: named where there are few, counted by kind otherwise."""
    kinds = Counter(left_out.values())
    parts: list[str] = []
    for why, number in kinds.most_common(6):
        names = [name for name, each in left_out.items() if each == why]
        parts.append(f"{names[0]}: {why}" if number == 1 else f"{number} files: {why}")
    return "; ".join(parts)
