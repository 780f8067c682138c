"""Unified diffs: the operation patch applies one, and `compare` makes one.

The line numbers and counts of a hunk are hints; the lines say where it belongs.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import OperationContext, Result, Touch, bytes_hash, file_hash, operation
from runtime.operations.texts import (
    cut,
    encoded,
    line_end,
    lines_of,
    read_text,
    read_utf8,
    relative,
    reported,
    save,
    unreadable,
)
from runtime.operations.walking import Deadline, Entry, walk

NOTHING = "/dev/null"
MOST_LINES = 50_000
_HEAD = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?)? ?(?:@@.*)?$")
_MOVES = ("rename from ", "copy from ", "GIT binary patch", "Binary files ")


@dataclass
class Hunk:
    """One place of a file: lines with their marks (space, - or +), and the line where they begin."""

    line: int  # 0: unknown
    body: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    ends_bare: dict[str, bool] = field(default_factory=dict[str, bool])  # by mark: the last line has no end

    @property
    def old(self) -> list[str]:
        """The lines that the file has before."""
        return [text for mark, text in self.body if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that it has afterwards."""
        return [text for mark, text in self.body if mark != "-"]


@dataclass
class Patch:
    """What a diff does to one file; `old` is "" for a new file, `new` for a removed one."""

    old: str
    new: str
    hunks: list[Hunk] = field(default_factory=list[Hunk])

    @property
    def name(self) -> str:
        """The file."""
        return self.new or self.old


def read(diff: str) -> list[Patch]:
    """The patches of a diff, one per file; raises for other text and for what only git can do."""
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    while lines and lines[-1].strip() in ("", "```"):  # the end of a code fence
        lines.pop()
    if len(lines) > MOST_LINES:
        raise OperationFailed(f"the diff has more than {MOST_LINES:,} lines")
    found: list[Patch] = []
    hunk: Hunk | None = None
    at = ends = 0  # where the hunk ends by the counts of its header
    while at < len(lines):
        line = lines[at]
        if _begins_file(lines, at) and at + 2 != ends:
            old, new = _name(line), _name(lines[at + 1])
            if old.startswith("a/") and new.startswith("b/"):
                old, new = old[2:], new[2:]
            elif NOTHING in (old, new):
                old, new = (re.sub(r"^[ab]/", "", name) for name in (old, new))
            found.append(Patch("" if old == NOTHING else old, "" if new == NOTHING else new))
            hunk = None
            at += 2
            continue
        if line.startswith(_MOVES):
            raise OperationFailed(f"the diff's line {at + 1}: {line[:60]!r}: use move or copy for that")
        if found and (head := _HEAD.match(line)):
            hunk = Hunk(int(head[1] or 0) + (head[1] is not None and head[2] == "0"))
            found[-1].hunks.append(hunk)
            ends = _end(lines, at + 1, head)
        elif hunk is not None and not line.startswith(("diff --git ", "index ")):
            _take(hunk, line, at + 1)
        elif line.startswith("diff --git "):
            hunk = None
        at += 1
    if not any(each.hunks for each in found):
        raise OperationFailed("this is no unified diff: give lines --- a/FILE, +++ b/FILE, @@ and the hunks")
    return found


def _begins_file(lines: Sequence[str], at: int) -> bool:
    """Whether a file header begins here; a removed line may begin with `-- ` as well."""
    return (
        lines[at].startswith("--- ")
        and at + 2 < len(lines)
        and lines[at + 1].startswith("+++ ")
        and lines[at + 2].startswith("@@")
    )


def _end(lines: Sequence[str], at: int, head: re.Match[str]) -> int:
    """The index after a hunk by the counts of its header; 0 when the header has none or they do not fit."""
    if head[1] is None:
        return 0
    left = {"-": int(head[2] or 1), "+": int(head[3] or 1)}
    for number in range(at, len(lines)):
        if not any(left.values()):
            return number
        mark = lines[number][:1] or " "
        for side in "-+" if mark == " " else mark.replace("\\", ""):
            left[side] = left.get(side, 0) - 1
        if min(left.values()) < 0:
            return 0
    return 0 if any(left.values()) else len(lines)


def _name(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    if name.startswith('"'):
        raise OperationFailed(f"{name[:80]}: a name with escapes; use edit for this file")
    return name


def _take(hunk: Hunk, line: str, number: int) -> None:
    if line.startswith("\\"):
        for mark in {" ": "-+"}.get(hunk.body[-1][0], hunk.body[-1][0]) if hunk.body else "":
            hunk.ends_bare[mark] = True
    elif not line:
        hunk.body.append((" ", ""))  # an empty line without its leading space
    elif line[0] in " -+":
        hunk.body.append((line[0], line[1:]))
    else:
        raise OperationFailed(
            f"the diff's line {number} begins with {line[0]!r}: lines of a hunk begin with a space, - or +"
        )


def applied(text: str, patch: Patch) -> tuple[str, list[int]]:
    """The text with all hunks applied, and the lines where they begin."""
    end = line_end(text)
    lines = text.split(end)
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    bare: bool | None = None
    places: list[int] = []
    moved = least = 0
    for number, hunk in enumerate(patch.hunks, 1):
        old = hunk.old
        at = _place(lines, hunk, moved, least, f"{patch.name}: hunk {number}")
        last = at + len(old) == len(lines)
        lines[at : at + len(old)] = hunk.new
        if last and hunk.new:
            bare = True if hunk.ends_bare.get("+") else (False if hunk.ends_bare.get("-") else bare)
        moved += len(hunk.new) - len(old)
        least = at + len(hunk.new)
        places.append(at + 1)
    closed = (closed or not text) if bare is None else not bare
    return end.join(lines) + (end if closed and lines else ""), places


def _place(lines: list[str], hunk: Hunk, moved: int, least: int, where: str) -> int:
    """The index of the lines of a hunk: at its line number, or at the only place where they occur."""
    old = hunk.old
    hint = hunk.line - 1 + moved if hunk.line else -1
    if not old:
        if not lines:
            return 0
        if not least <= hint <= len(lines):
            raise OperationFailed(f"{where} only adds lines; give the lines around them too")
        return hint
    found = [at for at in range(least, len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if hint in found:
        return hint
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(str(at + 1) for at in found[:5])
        raise OperationFailed(f"{where} suits lines {places}; give more of the lines around it")
    raise OperationFailed(f"{where} does not suit the file: {_why(lines, hunk)}")


def _why(lines: list[str], hunk: Hunk) -> str:
    """Where the hunk nearly matches, and the first line that differs."""
    old, new = hunk.old, hunk.new
    if new and any(lines[at : at + len(new)] == new for at in range(len(lines) - len(new) + 1)):
        return "what it would make is there already"
    if len(lines) * len(old) > 2_000_000:
        return "read it and copy the lines exactly"
    alike = [sum(a == b for a, b in zip(lines[at:], old, strict=False)) for at in range(len(lines) or 1)]
    at = alike.index(max(alike))
    if not alike[at]:
        return f"none of its lines is there, such as {old[0][:100]!r}"
    off = next((n for n, line in enumerate(old) if lines[at + n : at + n + 1] != [line]), 0)
    has = f"{lines[at + off][:100]!r}" if at + off < len(lines) else "no such line"
    return f"line {at + off + 1} has {has}, the diff {old[off][:100]!r}"


_QUICK = 4_000_000
"""Lines times lines that difflib compares within about a second."""


def compare_files(first: bytes, second: bytes, names: tuple[str, str], deadline: Deadline) -> Result:
    """The unified diff of two texts; for other files, where they begin to differ."""
    if first == second:
        return Result("identical", evidence={"identical": True, "bytes": len(first)})
    if unreadable(first) or unreadable(second):
        at = next((n for n, (x, y) in enumerate(zip(first, second, strict=False)) if x != y), None)
        at = min(len(first), len(second)) if at is None else at
        text = (
            f"different: at least one is not UTF-8 text; {names[0]} has {len(first)} bytes, "
            f"{names[1]} {len(second)}; the first difference is at byte {at}"
        )
        return Result(text, evidence={"identical": False, "first_difference": at})
    old, new = first.decode("utf-8-sig"), second.decode("utf-8-sig")
    if lines_of(old) == lines_of(new):
        reason = "only in line endings, the end of the last line or a byte order mark"
        return Result(f"different {reason}", evidence={"identical": False, "added": 0, "removed": 0})
    lines = _diff(old, new, names, deadline)
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return Result(cut("\n".join(lines)), evidence={"identical": False, "added": added, "removed": removed})


def _split(text: str) -> list[str]:
    """Lines for a diff; a last line without an end is marked."""
    lines = lines_of(text)
    if lines and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _diff(first: str, second: str, names: tuple[str, str], deadline: Deadline) -> list[str]:
    """The diff by the program `diff`, or by difflib where that is missing or takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "a"), Path(folder, "b")]
        for path, text in zip(paths, (first, second), strict=True):
            end = "\n" if text.endswith("\n") else ""
            path.write_text("\n".join(lines_of(text)) + end, "utf-8", newline="")
        labels = [part for name in names for part in ("--label", name)]
        with suppress(OSError, subprocess.TimeoutExpired):
            ran = subprocess.run(
                ["diff", "-u", "--speed-large-files", *labels, *map(str, paths)],
                capture_output=True,
                timeout=max(0.1, deadline.left / 2),
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                check=False,
            )
            if ran.returncode == 1:
                return ran.stdout.decode("utf-8", "replace").removesuffix("\n").split("\n")
    old, new = _split(first), _split(second)
    if len(old) * len(new) <= _QUICK:
        return list(difflib.unified_diff(old, new, *names, lineterm=""))
    head = [f"--- {names[0]}", f"+++ {names[1]}", f"@@ -1,{len(old)} +1,{len(new)} @@"]
    return [*head, *(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def compare_folders(ctx: OperationContext, first: Path, second: Path, deadline: Deadline) -> Result:
    """Which files are only in one of two folders, and which differ, one a line."""
    left, right = _files(ctx, first, deadline), _files(ctx, second, deadline)
    lines: list[str] = []
    for parts in sorted({*left, *right}):
        deadline.check()
        name = "/".join(parts)
        if parts not in right:
            lines.append(f"only in {relative(ctx, first)}: {name}")
        elif parts not in left:
            lines.append(f"only in {relative(ctx, second)}: {name}")
        elif not _same(left[parts].path, right[parts].path):
            lines.append(f"differs: {name}")
    return Result("\n".join(lines) or "identical", evidence={"identical": not lines, "files": len(left)})


def _files(ctx: OperationContext, start: Path, deadline: Deadline) -> dict[tuple[str, ...], Entry]:
    return {each.parts: each for each in walk(ctx, start, deadline) if each.path.is_file()}


def _same(first: Path, second: Path) -> bool:
    try:
        return first.stat().st_size == second.stat().st_size and file_hash(first) == file_hash(second)
    except OSError:
        return False


MOST_FILES = 200


@dataclass
class _Change:
    """One file: its content before and after (None: no file), and the changed lines."""

    path: Path
    name: str
    before: bytes | None
    after: bytes | None
    lines: list[int]
    added: int = 0
    removed: int = 0


def _prepare(ctx: OperationContext, diff: str = "", path: str = "") -> tuple[Touch, ...]:
    changes = _changes(ctx, diff, path)
    return tuple(Touch(each.path, "" if each.after is None else bytes_hash(each.after)) for each in changes)


@operation(_prepare)
def patch(ctx: OperationContext, diff: str = "", path: str = "") -> Result:
    """Apply a unified diff from a text or a file; every hunk must match, or nothing is changed."""
    changes = _changes(ctx, diff, path)
    done: list[_Change] = []
    try:
        for each in changes:
            done.append(each)
            _set(each, each.after)
    except OperationFailed:
        for each in done:
            _set(each, each.before)
        raise
    lines = [f"{each.name}: {_what(each)}" for each in changes]
    files = {each.name: {"added": each.added, "removed": each.removed} for each in changes}
    return Result("\n".join(lines), evidence={"files": files})


def _set(change: _Change, data: bytes | None) -> None:
    if data is not None:
        save(change.path, data, change.name)
        return
    with reported(change.name), disk.committing():
        change.path.unlink(missing_ok=True)


def _what(change: _Change) -> str:
    if change.after is None:
        return "removed"
    figures = f"+{change.added} -{change.removed}"
    if change.before is None:
        return f"new, {figures}"
    places = ", ".join(map(str, change.lines[:10]))
    return f"{figures} at line{'' if len(change.lines) == 1 else 's'} {places}"


def _changes(ctx: OperationContext, diff: str, path: str) -> list[_Change]:
    """What the diff does to each file, computed before anything is written."""
    if bool(diff.strip()) == bool(path):
        raise OperationFailed("give either diff, the text of a unified diff, or path, a file that holds one")
    found: dict[Path, _Change] = {}
    for each in read(diff or read_text(ctx, path)):
        if each.old and each.new and each.old != each.new:
            raise OperationFailed(f"{each.old} would become {each.new}: use move for that, then patch")
        target = ctx.writable(each.name)
        change = found.get(target) or _begin(ctx, each, target)
        found[target] = change
        if not each.old and change.after is not None:
            raise OperationFailed(
                f"{each.name}: exists already, and the diff makes it anew; write replaces it"
            )
        if each.old and change.after is None:
            raise OperationFailed(f"{each.name}: there is no such file to patch")
        text, lines = applied((change.after or b"").decode("utf-8"), each)
        change.lines += lines
        marks = [mark for hunk in each.hunks for mark, _ in hunk.body]
        change.added += marks.count("+")
        change.removed += marks.count("-")
        if not each.new and text:
            raise OperationFailed(f"{each.name}: the diff removes the file, but not all of its lines")
        change.after = encoded(text, "the diff") if each.new else None
    if len(found) > MOST_FILES:
        raise OperationFailed(f"the diff changes more than {MOST_FILES} files")
    changes = [each for each in found.values() if each.before != each.after]
    if not changes:
        raise OperationFailed("the diff changes nothing")
    return changes


def _begin(ctx: OperationContext, each: Patch, target: Path) -> _Change:
    data = read_utf8(ctx, each.name) if target.exists() else None
    return _Change(target, relative(ctx, target), data, data, [])
