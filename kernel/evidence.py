"""What the kernel itself records around an attempt: the folder before and after, criteria checked."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError, OperationFailed
from kernel.operations import OperationContext

SKIPPED = frozenset(
    {
        ".git",
        ".fractal",
        "__pycache__",
        "node_modules",
        ".venv",
        "venv",
        ".pytest_cache",
        ".ruff_cache",
        ".hypothesis",
    }
)
"""Folders that are no evidence: histories, caches, installed packages."""
FILES = 20_000
"""Files that a snapshot holds; it says when there are more."""
TEXT_BYTES = 32_768
"""Of one file whose text is kept, so that a change can be shown as a diff."""
TEXTS_BYTES = 1_000_000
"""Of all kept texts together."""
SEARCHED = 200_000
"""Characters that a pattern is searched in."""


def cut(text: str, limit: int, where: str) -> str:
    """At most about `limit` characters, a third of them from the head, with a mark that names the whole."""
    if len(text) <= limit:
        return text
    mark = f"\n[… {len(text) - limit} characters cut; whole in {where} …]\n"
    head = limit // 3
    tail = limit - head
    return text[:head] + mark + (text[-tail:] if tail else "")


@dataclass(frozen=True)
class Entry:
    """One file of a snapshot: size in bytes, time of change, and its text if it is small and wanted."""

    size: int
    mtime: int
    text: str | None = None


@dataclass(frozen=True)
class Change:
    """A file that is new, changed or removed, with a diff where both texts are known."""

    kind: str
    path: str
    size: int
    diff: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder at one moment."""

    files: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    more: bool = False  # there were more files than it holds

    @staticmethod
    def take(folder: Path, protected: Sequence[Path] = (), *, texts: bool = False) -> Snapshot:
        """What lies in the folder now; with `texts` the text of small files too."""
        files: dict[str, Entry] = {}
        room = TEXTS_BYTES if texts else 0
        for path, stat in _walk(folder, frozenset(protected)):
            if len(files) >= FILES:
                return Snapshot(files, more=True)
            text = _text(path) if stat.st_size <= min(TEXT_BYTES, room) else None
            room -= len(text) if text else 0
            files[path.relative_to(folder).as_posix()] = Entry(stat.st_size, stat.st_mtime_ns, text)
        return Snapshot(files)

    def to_json(self) -> dict[str, Any]:
        """As it is kept in artifacts/."""
        files = {path: [e.size, e.mtime, e.text] for path, e in self.files.items()}
        return {"files": files, "more": self.more}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Snapshot:
        """The snapshot that `to_json` told."""
        return Snapshot({path: Entry(*each) for path, each in data["files"].items()}, bool(data["more"]))


def _walk(folder: Path, protected: frozenset[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    for where, folders, names in os.walk(folder):
        here = Path(where)
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED and (here / name) not in protected
        )
        for name in sorted(names):
            path = here / name
            try:
                stat = path.lstat()
            except OSError:
                continue
            if path not in protected:
                yield path, stat


def _text(path: Path) -> str | None:
    try:
        raw = path.read_bytes()
        return None if path.is_symlink() or b"\0" in raw else raw.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """New, changed and removed files, by path."""
    found: list[Change] = []
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old is None and new is not None:
            found.append(Change("new", path, new.size, _diff("", new.text)))
        elif new is None and old is not None:
            found.append(Change("removed", path, 0))
        elif old and new and (old.size, old.mtime) != (new.size, new.mtime) and not _same_text(old, new):
            found.append(Change("changed", path, new.size, _diff(old.text, new.text)))
    return tuple(found)


def _same_text(old: Entry, new: Entry) -> bool:
    return old.text is not None and old.text == new.text


def _diff(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return ""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "", "", "", "", 1, "")
    return "\n".join(list(lines)[2:])


# ---- criteria ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Whether a criterion holds (None: not for code to decide), and what was seen."""

    passed: bool | None
    note: str


async def check_criterion(
    criterion: Mapping[str, Any],
    context: OperationContext,
    result_of: Callable[[int], str | None],
    first: Snapshot | None,
) -> Verdict:
    """Check {run}, {file, has?}, {step, has}, {same}; {judge} is for the reader of the evidence.

    `result_of` gives a step's result, None when it has none; `first` is the folder before step 1.
    """
    try:
        if "run" in criterion:
            return await _run(str(criterion["run"]), context)
        if "file" in criterion:
            return _file(str(criterion["file"]), criterion.get("has"), context)
        if "step" in criterion:
            return _step(int(criterion["step"]), criterion.get("has"), result_of)
        if "same" in criterion:
            return _same(str(criterion["same"]), context, first)
    except OperationFailed as error:
        return Verdict(False, str(error))
    return Verdict(None, "to be judged")


async def _run(command: str, context: OperationContext) -> Verdict:
    """A command that a model wrote as a criterion runs read-only."""
    try:
        ran = await context.sandbox.run(
            command,
            folder=context.folder,
            timeout=context.timeout,
            protected=context.protected,
            read_only=True,
        )
    except ConfigurationError as error:
        return Verdict(None, f"could not be run: {error}")
    if ran.timed_out:
        return Verdict(False, f"took longer than {context.timeout:g} s")
    return Verdict(
        ran.exit == 0, f"exit {ran.exit}" + (f": {ran.output[-200:].strip()}" if ran.output else "")
    )


def _file(name: str, has: Any, context: OperationContext) -> Verdict:
    path = context.readable(name)
    if not path.exists():
        return Verdict(False, "missing")
    size = path.stat().st_size
    if not has:
        return Verdict(path.is_dir() or size > 0, "is a folder" if path.is_dir() else f"{size} bytes")
    if path.is_dir():
        return Verdict(False, "is a folder")
    with path.open(encoding="utf-8", errors="replace", newline="") as handle:
        return _matches(str(has), handle.read(SEARCHED), f"{size} bytes, ")


def _step(n: int, has: Any, result_of: Callable[[int], str | None]) -> Verdict:
    result = result_of(n)
    if result is None:
        return Verdict(False, f"step {n} has no result")
    return _matches(str(has), result[:SEARCHED], "")


def _matches(pattern: str, text: str, seen: str) -> Verdict:
    try:
        hit = re.search(pattern, text, re.MULTILINE)
    except re.error as error:
        return Verdict(False, f"{pattern!r} is not a regular expression: {error}")
    return Verdict(bool(hit), seen + (f"matched {hit[0][:60]!r}" if hit else "no match"))


def _same(name: str, context: OperationContext, first: Snapshot | None) -> Verdict:
    if first is None:
        return Verdict(True, "nothing in the plan could change it")
    target = context.readable(name)
    prefix = context.shown(target)
    now = Snapshot.take(context.folder, context.protected)

    def part(snapshot: Snapshot) -> dict[str, Entry]:
        inside = (prefix + "/").removeprefix("./")
        return {
            path: e
            for path, e in snapshot.files.items()
            if path == prefix or path.startswith(inside) or prefix == "."
        }

    old, new = part(first), part(now)
    differing = sorted(
        path
        for path in {*old, *new}
        if path not in old
        or path not in new
        or (old[path].size, old[path].mtime) != (new[path].size, new[path].mtime)
    )
    real = [
        path
        for path in differing
        if path not in old or path not in new or not _unchanged(context, path, old[path])
    ]
    if real:
        return Verdict(False, f"changed: {', '.join(real[:5])}")
    return Verdict(bool(old), f"{len(old)} files, unchanged" if old else "was not there")


def _unchanged(context: OperationContext, path: str, old: Entry) -> bool:
    """A file that was only touched: same text as before."""
    if old.text is None:
        return False
    digest = hashlib.sha256(old.text.encode()).digest()
    return hashlib.sha256((context.folder / path).read_bytes()).digest() == digest
