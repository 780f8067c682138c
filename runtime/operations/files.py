"""The operations list, find, stat, checksum and compare."""

from __future__ import annotations

import datetime
import hashlib
import operator
import re
import stat as modes
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations.texts import counted, existing, os_errors, read_bytes, regular, relative
from runtime.operations.walking import Deadline, Entry, Glob, found_below, told
from runtime.sandbox.context import OperationContext, operation
from runtime.sandbox.ignored import Ignored
from runtime.text.shown import shown_name

MOST_SHOWN = 5_000
"""Most names in one result; the rest is counted."""
IGNORED = "  (ignored by git)"
_KINDS = {"-": "file", "d": "folder", "p": "pipe", "s": "socket"}


@operation()
def list_entries(
    ctx: OperationContext, path: str = ".", recursive: bool = False, pattern: str = "*", ignored: bool = False
) -> Result:
    """The names in a folder, one per line; folders end with a slash, files have their size.

    What git ignores stands last, with a mark; recursively, it is only told of.
    """
    start = existing(ctx, path)
    glob = Glob.of(pattern)
    deadline = Deadline(ctx.timeout)
    if not start.is_dir():
        return _names([f"{relative(ctx, start)}  {_size(start)}"], 0, "files")
    told_of = ""
    if recursive:
        below = found_below(ctx, start, pattern, deadline, ignored)
        lines = [_line("/".join(each.parts), each.path) for each in below.kept]
        told_of = told([_name(each) for each in below.ignored], "is not listed", "are not listed", below.more)
    else:
        with os_errors(start.name):
            found = sorted(each.name for each in start.iterdir() if each.name != ".git")
        rows = [(name, start / name) for name in found if glob.matches((name,))]
        git, base = Ignored(ctx.folder), ctx.shown(start)
        base, above = "" if base == "." else f"{base}/", git.within(f"{base}/")
        out = {path for _, path in rows if git.ignores(_marked(f"{base}{path.name}", path), above)}
        lines = [_line(name, path) for name, path in rows if path not in out]
        lines += [f"{_line(name, path)}{IGNORED}" for name, path in rows if path in out]
    return _names(
        lines, len(lines), "entries", empty=f"{path}: nothing here" if pattern == "*" else "", told_of=told_of
    )


def _name(entry: Entry) -> str:
    return f"{entry.name}/" if entry.folder and not entry.link else entry.name


def _marked(name: str, path: Path) -> str:
    return f"{name}/" if path.is_dir() and not path.is_symlink() else name


def _line(name: str, path: Path) -> str:
    name = shown_name(name)
    if path.is_symlink():
        return f"{name}  link to {shown_name(str(path.readlink()))}"
    return f"{name}/" if path.is_dir() else f"{name}  {_size(path)}"


def _size(path: Path) -> str:
    try:
        return counted(path.lstat().st_size, "byte")
    except OSError:
        return "gone"


@operation()
def find(
    ctx: OperationContext,
    pattern: str,
    path: str = ".",
    type: str = "any",
    order: str = "name",
    limit: int = MOST_SHOWN,
    where: str = "",
    ignored: bool = False,
) -> Result:
    """The paths below `path` that match a glob, relative to the folder, one per line.

    With an order or a condition on size or time, only files, each with its size and its day of change. What
    git ignores is told of; with an order or a condition, it stands among the others with a mark.
    """
    start = existing(ctx, path)
    if not start.is_dir():
        raise OperationFailed(f"{path}: this is a file; name the folder to search")
    by, largest_first = _ORDERS[order]
    condition = _condition(where)
    plain = order == "name" and not where

    def fits(each: Entry) -> bool:
        return (not each.folder or plain) if type == "any" else each.folder == (type == "folder")

    below = found_below(ctx, start, pattern, Deadline(ctx.timeout), ignored, fits)
    chosen = below.kept if plain else sorted([*below.kept, *below.ignored], key=lambda each: each.parts)
    found = [(each, facts) for each in chosen if condition(facts := _facts(each.path))]
    if by:
        found.sort(key=lambda each: each[1][by], reverse=largest_first)
    shown = [
        f"{each.name}/" if each.folder else each.name if plain else f"{each.name}  {_described(each, facts)}"
        for each, facts in found[:limit]
    ]
    apart = [_name(each) for each in below.ignored] if plain else []
    told_of = told(apart, "matches too", "match too", below.more)
    empty = f"nothing matches {pattern} {where}".rstrip()
    return _names(shown, len(found), "paths", empty=empty, told_of=told_of)


Facts = Mapping[str, Any]
"""The size of a file in bytes and its day of change in UTC and ISO form."""
_ORDERS = {
    "name": ("", False),
    "largest": ("size", True),
    "smallest": ("size", False),
    "newest": ("time", True),
    "oldest": ("time", False),
}
_WHERE = re.compile(
    r"(?i)size (?P<sign>[<>]=?) (?P<size>\d+(?:\.\d+)?) ?(?P<unit>bytes?|b|kb|mb|gb)?"
    r"|changed (?P<way>before|after|since|on) (?P<day>\d{4}-\d{2}-\d{2})|(?P<empty>empty)"
)
_UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def _facts(path: Path) -> Facts:
    try:
        facts = path.lstat()
    except OSError:
        return {"size": 0, "time": 0.0, "day": ""}
    changed = datetime.datetime.fromtimestamp(facts.st_mtime).date().isoformat()
    return {"size": facts.st_size, "time": facts.st_mtime, "day": changed}


def _described(each: Entry, facts: Facts) -> str:
    return f"{counted(facts['size'], 'byte')}  {facts['day']}{IGNORED if each.ignored else ''}"


def _condition(where: str) -> Callable[[Facts], bool]:
    """The test of a condition on a file; raises with an example if it cannot be read."""
    if not where:
        return lambda facts: True
    hit = _WHERE.fullmatch(where.strip())
    if hit is None:
        raise OperationFailed(f"where: {where!r}: write size > 10 kB, changed after 2024-05-01, or empty")
    if hit["empty"]:
        return lambda facts: facts["size"] == 0
    if hit["day"]:
        compared = {"before": operator.lt, "after": operator.gt, "since": operator.ge, "on": operator.eq}[
            hit["way"].lower()
        ]
        return lambda facts: compared(facts["day"], hit["day"])
    bytes = float(hit["size"]) * _UNITS.get((hit["unit"] or "b")[0].lower(), 1)
    sign = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}[hit["sign"]]
    return lambda facts: sign(facts["size"], bytes)


def _names(lines: list[str], count: int, what: str, empty: str = "", told_of: str = "") -> Result:
    shown = lines[:MOST_SHOWN]
    if len(lines) > MOST_SHOWN:
        shown.append(f"… {len(lines) - MOST_SHOWN:,} more {what}; narrow the pattern")
    text = "\n".join(shown) or empty or "nothing matches"
    return Result(text + told_of, evidence={"count": count})


@operation()
def stat(ctx: OperationContext, path: str) -> Result:
    """Size, kind, time of change and mode of a file or folder."""
    target = existing(ctx, path)
    facts = target.stat()
    kind = _KINDS.get(modes.filemode(facts.st_mode)[0], "device")
    changed = datetime.datetime.fromtimestamp(facts.st_mtime, datetime.UTC)
    evidence: dict[str, Any] = {
        "kind": kind,
        "modified": changed.isoformat(timespec="seconds"),
        "mode": f"{modes.S_IMODE(facts.st_mode):04o}",
    }
    lines = [f"path: {relative(ctx, target)}", f"kind: {kind}"]
    if kind == "folder":
        with os_errors(path):
            evidence["entries"] = len(list(target.iterdir()))
        lines.append(f"entries: {evidence['entries']}")
    else:
        evidence["bytes"] = facts.st_size
        lines.append(f"size: {facts.st_size} bytes")
    lines += [f"modified: {changed.astimezone().isoformat(' ', 'seconds')}", f"mode: {evidence['mode']}"]
    return Result("\n".join(lines), evidence=evidence)


@operation()
def checksum(ctx: OperationContext, path: str, algorithm: str = "sha256") -> Result:
    """The checksum of a file's bytes in hexadecimal digits."""
    target = regular(ctx, path)
    deadline = Deadline(ctx.timeout)
    crc, size = 0, 0
    digest = None if algorithm == "crc32" else hashlib.new(algorithm, usedforsecurity=False)
    with os_errors(path), disk.opened(target) as handle:
        while block := handle.read(1 << 20):
            deadline.check()
            size += len(block)
            if digest is None:
                crc = zlib.crc32(block, crc)
            else:
                digest.update(block)
    shown = f"{crc:08x}" if digest is None else digest.hexdigest()
    return Result(shown, evidence={"path": relative(ctx, target), "algorithm": algorithm, "bytes": size})


@operation()
def compare(ctx: OperationContext, a: str, b: str) -> Result:
    """A unified diff of two text files, `identical`, or which files of two folders differ."""
    from runtime.operations.patching import compare_files, compare_folders

    first, second = existing(ctx, a), existing(ctx, b)
    if first.is_dir() != second.is_dir():
        raise OperationFailed(f"{a} and {b}: one is a folder and the other a file")
    if first.is_dir():
        return compare_folders(ctx, first, second, Deadline(ctx.timeout))
    return compare_files(ctx, read_bytes(ctx, a), read_bytes(ctx, b), (a, b), Deadline(ctx.timeout))
