"""The operation search: passages of files that match a query best, by BM25 (full-text search of SQLite)."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime import found_files
from runtime.operations.pages import readable
from runtime.operations.texts import WIDE_BOMS, existing, lines_of, reason, relative
from runtime.operations.walking import Deadline, Entry, files_found, told
from runtime.sandbox.context import OperationContext, operation

LONGEST = 900
"""Most characters of a passage; shorter paragraphs stay whole."""
_HTML = (".html", ".htm", ".xhtml")
_TABLES = (".csv", ".tsv")
_PROSE = (".md", ".markdown", ".html", ".htm", ".xhtml")
_HEADING = re.compile(r"(#{1,6}) +(.+?)(?: +#+)?$")
_WORD = re.compile(r"\w{4,}")


@dataclass(frozen=True)
class Passage:
    """A text with its line numbers in the file, and the heading or header above it."""

    lines: tuple[int, ...]
    heading: str
    text: str


def decoded(data: bytes) -> str | None:
    """The text of a file, Windows-1252 if it is not UTF-8; None for a binary file."""
    for bom, encoding in WIDE_BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def passages(name: str, text: str) -> Iterator[Passage]:
    """The passages of a file in order; HTML as readable text, rows of a table with their header."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _HTML:
        yield from _of_page(text)
    elif suffix in _TABLES:
        yield from _of_table(text)
    else:
        yield from _of_lines(lines_of(text), 1, prose=suffix in _PROSE)


def _of_lines(lines: list[str], first: int, heading: str = "", prose: bool = False) -> Iterator[Passage]:
    """Paragraphs combined up to the size, longer lines in parts; each heading begins a new passage."""
    block: list[tuple[int, str]] = []
    above: list[tuple[int, str]] = []
    size = 0
    for number, line in enumerate(lines, first):
        hit = _HEADING.match(line) if prose else None
        for at in range(0, len(line) or 1, LONGEST):
            part = line[at : at + LONGEST]
            full = size + len(part) > LONGEST or (size > LONGEST // 2 and not part.strip())
            # headings alone stand above what follows them
            if full or (hit and not all(_HEADING.match(text) or not text.strip() for _, text in block)):
                yield from _passage(block, heading)
            if full or hit:
                block, size = [], 0
            if block or part.strip():
                block.append((number, part))
                size += len(part) + 1
        if hit:
            above = [each for each in above if each[0] < len(hit[1])] + [(len(hit[1]), hit[2])]
            heading = " › ".join(text for _, text in above)
    yield from _passage(block, heading)


def _passage(block: list[tuple[int, str]], heading: str) -> Iterator[Passage]:
    if block:
        yield Passage(tuple(number for number, _ in block), heading, "\n".join(t for _, t in block).rstrip())


def _of_table(text: str) -> Iterator[Passage]:
    lines = lines_of(text)
    header = lines[0][:LONGEST] if lines else ""
    if header and len(lines) == 1:
        yield Passage((1,), "", header)
    yield from _of_lines(lines[1:], 2, header)


def _of_page(source: str) -> Iterator[Passage]:
    """The readable text of a page; each line has the line number of its words in the source."""
    at, line = 0, 1
    for passage in _of_lines(lines_of(readable(source)), 1, prose=True):
        lines: list[int] = []
        for line_text in passage.text.split("\n"):
            words = _WORD.findall(re.sub(r"\]\([^)]*\)", " ", line_text))
            found = source.find(max(words[:8], key=len), at) if words else -1
            if found >= 0:
                line += source.count("\n", at, found)
                at = found
            lines.append(line)
        yield Passage(tuple(lines), passage.heading, passage.text)


LARGEST = 4_000_000
"""Bytes of the largest file that is searched."""
MOST_FILES = 20_000
MOST_BYTES = 64_000_000
A_FILE = 3
"""Most passages of one file that are shown."""
_CANDIDATES = 400
_SNIPPET = 280
_KEPT = 4  # indexes of folders that stay in memory, each until a file changes
_WEIGHTS = "2.0, 2.0, 1.0, 0.5"  # of the path, the heading, the text, the parts of compound names
_STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by did do does for from had has have how i in is it its of on or our that the "
        "their there this to was we were what when where which who why will with you your",
    )
)
_COMPOUND = re.compile(r"\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b")
_NO_SPACES = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")


_MARKS = "\ue000\ue001"
"""Private characters around the words of a passage that match."""
_MARKED = re.compile(f"{_MARKS[0]}(.+?){_MARKS[1]}", re.DOTALL)
_SPACED = re.compile(f" ({_NO_SPACES.pattern[1:-1]}) ")
Versions = tuple[tuple[Entry, tuple[int, int] | None], ...]
"""Files with their times and sizes."""


@dataclass(frozen=True)
class _Hit:
    """A passage that was found, and its row in the index."""

    row: int
    name: str
    passage: Passage
    score: float


@operation()
def search(
    ctx: OperationContext, query: str, path: str = ".", limit: int = 10, ignored: bool = False
) -> Result:
    """The passages below a folder that match the query best, as path:line: snippet, best first.

    Files that git ignores are not searched, but told of, unless the call asks for them.
    """
    terms = _terms(query)
    deadline = Deadline(ctx.timeout * 0.9)
    start = existing(ctx, path)
    below = files_found(ctx, path, "*", deadline, ignored)
    entries = [entry for entry in below.kept if _searchable(ctx, start, entry)]
    apart = [entry.name for entry in below.ignored if _searchable(ctx, start, entry)]
    index = _index(tuple((entry, found_files.version(entry.path)) for entry in entries), ctx.timeout * 0.9)
    left_out = index.left_out
    hits, unknown = index.best(terms)
    shown = [(hit, *index.snippet(hit, terms)) for hit in _spread(hits, limit)]
    lines = [f"{hit.name}:{line}: {snippet}" for hit, line, snippet in shown]
    searched = len(entries) - len(left_out)
    if not hits:
        lines.append(f"nothing suits {query!r} in {searched} files below {relative(ctx, start)}")
    elif len(hits) > len(shown):
        more = "or more " if len(hits) == _CANDIDATES else ""
        lines.append(f"({len(hits)} {more}passages in {len({hit.name for hit in hits})} files suit it)")
    if unknown and hits:
        lines.append(f"(in no file: {', '.join(unknown)})")
    if left_out:
        lines.append(f"(not searched: {_by_reason(left_out)})")
    evidence: dict[str, Any] = {
        "searched": searched,
        "found": len(hits),
        "hits": [{"path": hit.name, "line": line, "score": round(hit.score, 3)} for hit, line, _ in shown],
        "unknown": unknown,
        "not_searched": [f"{name}: {why}" for name, why in sorted(left_out.items())][:100],
    }
    text = "\n".join(lines) + told(apart, "was not searched", "were not searched", below.more)
    return Result(text, evidence=evidence)


def _searchable(ctx: OperationContext, start: Path, entry: Entry) -> bool:
    """Whether a file is in no hidden folder, and no file of the workspace unless the search begins there."""
    if any(part.startswith(".") for part in entry.parts[:-1]):
        return False
    inside = (guarded for guarded in ctx.protected if guarded in (entry.path, *entry.path.parents))
    return all(guarded in (start, *start.parents) for guarded in inside)


def _terms(query: str) -> list[str]:
    """The terms of a query: words without stop words, and quoted phrases."""
    found = [hit[0] or hit[1] for hit in re.findall(r'"([^"]*\w[^"]*)"|([^\s"]+)', query)]
    words = [word for each in found if (word := each.strip(" .,;:!?()[]{}<>*'`").lower())]
    words = [word for word in dict.fromkeys(words) if re.search(r"\w", word)]
    if not words:
        raise OperationFailed("query: there is no word in it; give words that the text you look for holds")
    return ([word for word in words if word not in _STOP] or words)[:30]


def _quoted(term: str) -> str:
    return '"' + _spaced(term).replace('"', '""') + '"'


def _spaced(text: str) -> str:
    """The text with spaces around characters of scripts without spaces."""
    return _NO_SPACES.sub(r" \1 ", text)


class _Index:
    """The passages of the files below a folder, as they are now."""

    def __init__(self, versions: Versions, deadline: Deadline) -> None:
        self.left_out: dict[str, str] = {}  # files with the reason
        # no name: a database in memory, or in a temporary file if it is large
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._passages: list[tuple[str, Passage]] = []  # by the row in `found`, with the file
        try:
            self._db.execute(
                "CREATE VIRTUAL TABLE found USING fts5 "
                "(name, heading, text, parts, tokenize='porter unicode61 remove_diacritics 2')"
            )
        except sqlite3.OperationalError as error:
            raise OperationFailed(
                f"this Python's SQLite has no full-text search ({error}); use grep instead"
            ) from None
        left = MOST_BYTES
        self._db.execute("BEGIN")
        for number, (entry, version) in enumerate(versions):
            deadline.check()
            if version is None:
                continue  # gone meanwhile
            if why := self._read(entry, version[1], min(left, LARGEST) if number < MOST_FILES else 0):
                self.left_out[entry.name] = why
            else:
                left -= version[1]
        self._db.execute("COMMIT")

    def _read(self, entry: Entry, size: int, room: int) -> str:
        if size > LARGEST:
            return f"larger than {LARGEST // 1_000_000} MB"
        if size > room:
            return "beyond the limit"
        try:
            text = decoded(disk.read(entry.path)) if entry.path.is_file() else None
        except OSError as error:
            return reason(error)
        if text is None:
            return f"not text ({PurePath(entry.name).suffix or 'no suffix'})"
        for passage in passages(entry.name, text):
            parts = " ".join(
                part
                for name in _COMPOUND.findall(passage.text)
                for part in re.findall("[A-Z]?[a-z0-9]+", name)
            )
            self._db.execute(
                "INSERT INTO found (rowid, name, heading, text, parts) VALUES (?,?,?,?,?)",
                (len(self._passages), *map(_spaced, (entry.name, passage.heading, passage.text)), parts),
            )
            self._passages.append((entry.name, passage))
        return ""

    def best(self, terms: Sequence[str]) -> tuple[list[_Hit], list[str]]:
        """The passages with any of the terms, best first, and the terms that occur nowhere."""
        holding = {term: self._holding(term) for term in terms}
        occurring = [term for term in terms if holding[term]]
        if not occurring:
            return [], list(terms)
        rows = self._db.execute(
            f"SELECT rowid, -bm25(found, {_WEIGHTS}) FROM found WHERE found MATCH ? "
            "ORDER BY 2 DESC, 1 LIMIT ?",
            (" OR ".join(map(_quoted, occurring)), _CANDIDATES),
        ).fetchall()
        hits: list[_Hit] = []
        for at, relevance in rows:
            covered = sum(at in holding[term] for term in occurring) / len(terms)
            # BM25 is near zero for frequent words, so in a small folder coverage says more
            score = relevance * (1 + covered) / 2 + covered
            name, passage = self._passages[at]
            hits.append(_Hit(at, name, passage, score))
        hits.sort(key=lambda hit: (-round(hit.score, 9), hit.name, hit.passage.lines))
        return hits, [term for term in terms if not holding[term]]

    def snippet(self, hit: _Hit, terms: Sequence[str]) -> tuple[int, str]:
        """The line of a passage with the most terms, and the text from there."""
        (marked,) = self._db.execute(
            "SELECT highlight(found, 2, ?, ?) FROM found WHERE found MATCH ? AND rowid = ?",
            (*_MARKS, " OR ".join(map(_quoted, terms)), hit.row),
        ).fetchone()
        lines = marked.split("\n")
        counts = [len({word.lower() for word in _MARKED.findall(line)}) for line in lines]
        at = counts.index(max(counts))
        text = _SPACED.sub(r"\1", " ".join(" ".join(lines[at:]).split()))
        first = max(0, text.find(_MARKS[0]))
        text = re.sub(f"[{_MARKS}]", "", text)
        begin = max(0, first - _SNIPPET // 3) if first > _SNIPPET * 2 // 3 else 0
        end = begin + _SNIPPET
        shown = f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
        heading = hit.passage.heading
        if heading.rpartition(" › ")[2] not in shown:
            shown = f"[{' '.join(heading.split())[:80]}] {shown}"
        return hit.passage.lines[min(at, len(hit.passage.lines) - 1)], shown

    def _holding(self, term: str) -> set[int]:
        """The passages with a term."""
        found = self._db.execute("SELECT rowid FROM found WHERE found MATCH ?", (_quoted(term),))
        return {row for (row,) in found}


@lru_cache(maxsize=_KEPT)
def _index(versions: Versions, seconds: float) -> _Index:
    return _Index(versions, Deadline(seconds))


def _spread(hits: Iterable[_Hit], limit: int) -> list[_Hit]:
    """The first hits, at most `A_FILE` per file and one per place."""
    shown: list[_Hit] = []
    files: Counter[str] = Counter()
    places: set[tuple[str, int]] = set()
    for hit in hits:
        place = hit.name, hit.passage.lines[0]
        if files[hit.name] < A_FILE and place not in places and len(shown) < limit:
            files[hit.name] += 1
            places.add(place)
            shown.append(hit)
    return shown


def _by_reason(left_out: dict[str, str]) -> str:
    """Why files were left out: the file of a reason, or how many there are."""
    files = {why: name for name, why in left_out.items()}
    counts = Counter(left_out.values()).most_common(6)
    return "; ".join(f"{files[why] if number == 1 else f'{number} files'}: {why}" for why, number in counts)
