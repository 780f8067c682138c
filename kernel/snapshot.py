"""The files of a folder at one moment, and what changed between two moments."""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from kernel.screening import cut, neutralise, redact

SKIPPED = frozenset(
    {".git", ".fractal", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".nox", ".cache"}
    | {".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis", ".ipynb_checkpoints"}
)
"""Folders that are no evidence: histories, caches, installed packages."""
SECRETIVE = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc")
"""Files whose text is never kept, and so never shown in a diff."""
FILES = 20_000
"""Files that a snapshot holds; it says when there are more."""
FOLDERS = 20_000
"""Folders that it looks into."""
TEXT_BYTES = 32_768
"""Of one file whose text is kept, so that a change can be shown as a diff."""
TEXTS_BYTES = 1_000_000
"""Of all kept texts together."""
HASHED_BYTES = 4_000_000
"""Of one file that is hashed; a larger one is known by size and time alone."""
HASHED_TOTAL = 64_000_000
HASHED_FILES = 5_000
DIFF_CHARS = 4_000
"""Of a diff; two thirds of them from its head."""
DIFF_LINES = 3_000
"""Lines of a text that are compared; more would take seconds."""


@dataclass(frozen=True)
class Entry:
    """One file: size in bytes, time of change in ns, hash ("" when not hashed), text if small and wanted."""

    size: int
    mtime_ns: int
    digest: str = ""
    text: str | None = None

    def same(self, other: Entry) -> bool:
        """Whether the content is the same, by hash where both have one."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


@dataclass(frozen=True)
class Change:
    """A file that is `new`, `changed` or `removed`: its size in bytes now and before, and a diff of its text.

    The diff is "" where the texts are not known.
    """

    kind: str
    path: str
    size: int
    before: int = 0
    diff: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder, by their paths relative to it, in the order of a walk."""

    files: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    cut: str = ""  # says so when there were more files than it holds

    @staticmethod
    def take(
        folder: Path, protected: Sequence[Path] = (), *, texts: bool = False, limit: int = FILES
    ) -> Snapshot:
        """What lies in the folder now, but for `SKIPPED` and `protected`; with `texts` small texts too.

        Links are not followed: a link counts as a file that holds its target's name.
        """
        files: dict[str, Entry] = {}
        kept = hashed = 0
        for name, entry in _walk(folder.resolve(), frozenset(protected)):
            if len(files) >= limit:
                return Snapshot(files, f"only the first {limit} files were looked at")
            if entry is None:
                return Snapshot(files, f"only the first {FOLDERS} folders were looked at")
            raw, info = _read(entry, HASHED_TOTAL - hashed if len(files) < HASHED_FILES else 0)
            if info is None:
                continue
            hashed += len(raw or b"")
            digest = hashlib.sha256(raw).hexdigest()[:16] if raw is not None else ""
            text = _text(entry, raw) if texts and kept + len(raw or b"") <= TEXTS_BYTES else None
            kept += len(raw or b"") if text is not None else 0
            files[name] = Entry(info.st_size, info.st_mtime_ns, digest, text)
        return Snapshot(files)

    def under(self, path: str) -> dict[str, Entry]:
        """The file at `path`, or the files below it ("." is the folder itself)."""
        if path == ".":
            return dict(self.files)
        return {name: e for name, e in self.files.items() if name == path or name.startswith(f"{path}/")}

    def covers(self, path: str) -> bool:
        """Whether the snapshot holds whatever there was at `path` and below it."""
        if not self.cut:
            return True
        last = max(map(_order, self.files), default=())
        return path != "." and (*_order(path), "\U0010ffff") <= last

    def to_json(self) -> dict[str, Any]:
        """As it is kept in artifacts/."""
        files = {path: [e.size, e.mtime_ns, e.digest, e.text] for path, e in self.files.items()}
        return {"files": files, "cut": self.cut}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Snapshot:
        """The snapshot that `to_json` told."""
        return Snapshot({path: Entry(*each) for path, each in data["files"].items()}, str(data["cut"]))


def _order(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _walk(folder: Path, protected: frozenset[Path]) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """Everything that is no folder, in the order of `_order`; None at the end where there are too many."""
    stack = [("", iter(_entries(folder)))]
    looked = 0
    while stack:
        inside, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
        elif Path(entry.path) in protected:
            continue
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED:
                looked += 1
                if looked > FOLDERS:
                    yield inside + entry.name, None
                    return
                stack.append((f"{inside}{entry.name}/", iter(_entries(Path(entry.path)))))
        elif entry.name != ".git":  # of a worktree or a submodule
            yield inside + entry.name, entry


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _read(entry: os.DirEntry[str], room: int) -> tuple[bytes | None, os.stat_result | None]:
    """The bytes of a file of at most `room` (None when not read), and its facts (None when it is gone)."""
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return None, None
    try:
        if stat.S_ISLNK(info.st_mode):
            return os.fsencode(os.readlink(entry.path)), info  # noqa: PTH115 (bytes, not a path)
        if not stat.S_ISREG(info.st_mode) or info.st_size > min(HASHED_BYTES, room):
            return None, info
        handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            return file.read(HASHED_BYTES), info
    except OSError:
        return None, info


def _text(entry: os.DirEntry[str], raw: bytes | None) -> str | None:
    if raw is None or len(raw) > TEXT_BYTES or b"\0" in raw or entry.is_symlink():
        return None
    if any(fnmatch(entry.name.lower(), pattern) for pattern in SECRETIVE):
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """New, changed and removed files, by path; where a snapshot was cut, only as far as both reach."""
    found: list[Change] = []
    for path in sorted({*before.files, *after.files}, key=_order):
        old, new = before.files.get(path), after.files.get(path)
        if old and new:
            if not old.same(new):
                diff = _diff(old.text, new.text)
                found.append(Change("changed", path, new.size, old.size, diff))
        elif new and before.covers(path):
            found.append(Change("new", path, new.size, 0, _diff("", new.text)))
        elif old and after.covers(path):
            found.append(Change("removed", path, 0, old.size, _diff(old.text, "")))
    return tuple(found)


def _diff(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return ""
    was, now = ([] if not text else text.removesuffix("\n").split("\n") for text in (old, new))
    if max(len(was), len(now)) > DIFF_LINES and was and now:
        return f"(too long to compare: {len(was)} lines before, {len(now)} now)"
    lines = list(difflib.unified_diff(was, now, n=1, lineterm=""))[2:]
    if not lines and old != new:
        return "(only the line break at the end differs)"
    return cut(redact(neutralise("\n".join(lines)), os.environ), DIFF_CHARS, "the file", head=2 / 3)
