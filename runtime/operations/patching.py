"""Unified diffs: the operation patch applies one, and `compare` makes one.

The line numbers and counts of a hunk are hints; the lines say where it belongs.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel import disk
from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch, bytes_hash, file_hash
from runtime.operations.texts import (
    absent,
    cut,
    encoded,
    lines_of,
    os_errors,
    read_text,
    read_utf8,
    relative,
    save,
    unreadable,
)
from runtime.operations.walking import Deadline, Entry, walk
from runtime.sandbox.context import OperationContext, operation
from runtime.sandbox.programs import program, run

NOTHING = "/dev/null"
MOST_LINES = 50_000
_HEAD = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?)? ?(?:@@.*)?$")
_MOVES = ("rename from ", "copy from ", "GIT binary patch", "Binary files ")


@dataclass
class Hunk:
    """One place of a file: lines with their marks (space, - or +), and the line where they begin."""

    line: int  # 0: unknown
    left: dict[str, int]  # by mark: the lines that follow, by the counts of the header
    body: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    ends_bare: dict[str, bool] = field(default_factory=dict[str, bool])  # by mark: the last line has no end

    def lines(self, without: str) -> list[str]:
        """The lines that the file has before (without +) or afterwards (without -)."""
        return [text for mark, text in self.body if mark != without]

    def take(self, line: str, number: int) -> None:
        """Read the next line of the hunk, which is line `number` of the diff."""
        line = line or " "  # an empty line without its leading space
        mark, both = line[0], {" ": "-+"}
        if mark == "\\":
            last = self.body[-1][0] if self.body else ""
            self.ends_bare |= dict.fromkeys(both.get(last, last), True)
        elif mark in " -+":
            self.body.append((mark, line[1:]))
            for side in both.get(mark, mark):
                self.left[side] = self.left.get(side, 0) - 1
        else:
            raise OperationFailed(
                f"the diff's line {number} begins with {mark!r}: lines of a hunk begin with a space, - or +"
            )


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
    numbered = iter(enumerate(lines, 1))
    for number, line in numbered:
        if _begins_file(lines[number - 1 : number + 2]) and not (hunk and hunk.left == {"-": 1, "+": 1}):
            found.append(_patch(line, next(numbered)[1]))
            hunk = None
        elif line.startswith(_MOVES):
            raise OperationFailed(f"the diff's line {number}: {line[:60]!r}: use move or copy for that")
        elif found and (head := _HEAD.match(line)):
            left = {"-": int(head[2] or 1), "+": int(head[3] or 1)} if head[1] else {}
            hunk = Hunk(int(head[1] or 0) + (head[2] == "0"), left)
            found[-1].hunks.append(hunk)
        elif line.startswith("diff --git "):
            hunk = None
        elif hunk and not line.startswith("index "):
            hunk.take(line, number)
    if not any(each.hunks for each in found):
        raise OperationFailed("this is no unified diff: give lines --- a/FILE, +++ b/FILE, @@ and the hunks")
    return found


def _begins_file(lines: Sequence[str]) -> bool:
    """Whether these three lines begin a file; a removed line may begin with `-- ` as well."""
    heads = ("--- ", "+++ ", "@@")
    return len(lines) == 3 and all(line.startswith(head) for line, head in zip(lines, heads, strict=True))


def _patch(*heads: str) -> Patch:
    old, new = (line[4:].partition("\t")[0].strip() for line in heads)
    for name in (old, new):
        if name.startswith('"'):
            raise OperationFailed(f"{name[:80]}: a name with escapes; use edit for this file")
    if NOTHING in (old, new) or (old.startswith("a/") and new.startswith("b/")):
        old, new = (re.sub(r"^[ab]/", "", name) for name in (old, new))
    return Patch("" if old == NOTHING else old, "" if new == NOTHING else new)


def apply_patch(text: str, patch: Patch) -> tuple[str, list[int]]:
    """The text with all hunks applied, and the lines where they begin."""
    rows = text.split("\n")
    closed = rows[-1] == ""
    if closed:
        rows.pop()
    lines = [row.removesuffix("\r") for row in rows]
    ends = ["\r\n" if row.endswith("\r") else "\n" for row in rows]
    if not closed and len(ends) > 1:  # should something follow the last line
        ends[-1] = ends[-2]
    bare: bool | None = None
    places: list[int] = []
    moved = least = 0
    for number, hunk in enumerate(patch.hunks, 1):
        old, new = hunk.lines(without="+"), hunk.lines(without="-")
        at = _place(lines, hunk, moved, least, f"{patch.name}: hunk {number}")
        last = at + len(old) == len(lines)
        lines[at : at + len(old)] = new
        ends[at : at + len(old)] = _ends(ends, at, hunk)
        if last and new:
            bare = True if hunk.ends_bare.get("+") else (False if hunk.ends_bare.get("-") else bare)
        moved += len(new) - len(old)
        least = at + len(new)
        places.append(at + 1)
    closed = (closed or not text) if bare is None else not bare
    whole = [each for pair in zip(lines, ends, strict=True) for each in pair]
    return "".join(whole if closed else whole[:-1]), places


def _ends(ends: list[str], at: int, hunk: Hunk) -> list[str]:
    """The ends of the lines that a hunk leaves: their own, and of a new line that of the one before it."""
    made: list[str] = []
    usual = ends[at - 1] if at else ends[0] if ends else "\n"
    for mark, _ in hunk.body:
        if mark != "+":
            usual = ends[at]
            at += 1
        if mark != "-":
            made.append(usual)
    return made


def _place(lines: list[str], hunk: Hunk, moved: int, least: int, where: str) -> int:
    """The index of the lines of a hunk: at its line number, or at the only place where they occur."""
    old = hunk.lines(without="+")
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
    raise OperationFailed(f"{where} does not suit the file: {_mismatch(lines, hunk)}")


def _mismatch(lines: list[str], hunk: Hunk) -> str:
    """Where the hunk nearly matches, and the first line that differs."""
    old, new = hunk.lines(without="+"), hunk.lines(without="-")
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


def compare_files(
    ctx: OperationContext, first: bytes, second: bytes, names: tuple[str, str], deadline: Deadline
) -> Result:
    """The unified diff of two texts; for other files, where they begin to differ."""
    if first == second:
        return Result("identical", evidence={"identical": True, "bytes": len(first)})
    if unreadable(first) or unreadable(second):
        differing = (n for n, (x, y) in enumerate(zip(first, second, strict=False)) if x != y)
        at = next(differing, min(len(first), len(second)))
        text = (
            f"different: at least one is not UTF-8 text; {names[0]} has {len(first)} bytes, "
            f"{names[1]} {len(second)}; the first difference is at byte {at}"
        )
        return Result(text, evidence={"identical": False, "first_difference": at})
    old, new = first.decode("utf-8-sig"), second.decode("utf-8-sig")
    if lines_of(old) == lines_of(new):
        reason = "only in line endings, the end of the last line or a byte order mark"
        return Result(f"different {reason}", evidence={"identical": False, "added": 0, "removed": 0})
    lines = _diff(ctx, old, new, names, deadline)
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return Result(cut("\n".join(lines)), evidence={"identical": False, "added": added, "removed": removed})


def _diff(
    ctx: OperationContext, first: str, second: str, names: tuple[str, str], deadline: Deadline
) -> list[str]:
    """The diff by the program `diff`, which is quick, or by difflib where that is missing."""
    found = program("diff", ctx.folder)
    if found is None:
        return list(difflib.unified_diff(lines_of(first), lines_of(second), *names, lineterm=""))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "a"), Path(folder, "b")]
        for path, text in zip(paths, (first, second), strict=True):
            path.write_text(text.replace("\r\n", "\n"), "utf-8", newline="")
        labels = [part for name in names for part in ("--label", name)]
        try:
            words = [found, "-u", "--speed-large-files", *labels, *map(str, paths)]
            ran = run(words, Path(folder), {"LC_ALL": "C"}, timeout=deadline.left * 0.9)
        except subprocess.TimeoutExpired:
            raise OperationFailed(f"{names[0]} and {names[1]}: too many lines differ to be listed") from None
    return ran.stdout.decode("utf-8", "replace").removesuffix("\n").split("\n")


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
    lines: list[int] = field(default_factory=list[int])
    added: int = 0
    removed: int = 0

    def apply(self, patch: Patch) -> None:
        """Change the content; raises if the patch does not suit it."""
        if not patch.old and self.after is not None:
            raise OperationFailed(
                f"{patch.name}: exists already, and the diff makes it anew; write replaces it"
            )
        if patch.old and self.after is None:
            raise OperationFailed(f"{patch.name}: there is no such file to patch")
        text, lines = apply_patch((self.after or b"").decode("utf-8"), patch)
        if not patch.new and text:
            raise OperationFailed(f"{patch.name}: the diff removes the file, but not all of its lines")
        self.after = encoded(text, "the diff") if patch.new else None
        self.lines += lines
        marks = [mark for hunk in patch.hunks for mark, _ in hunk.body]
        self.added += marks.count("+")
        self.removed += marks.count("-")


def _prepare(ctx: OperationContext, diff: str = "", path: str = "") -> tuple[Touch, ...]:
    changes = _changes(ctx, diff, path)
    return tuple(Touch(each.path, "" if each.after is None else bytes_hash(each.after)) for each in changes)


@operation(_prepare)
def patch(ctx: OperationContext, diff: str = "", path: str = "") -> Result:
    """Apply a unified diff from a text or a file; every hunk must match, or nothing is changed."""
    changes = _changes(ctx, diff, path)
    done: list[_Change] = []
    try:
        for change in changes:
            done.append(change)
            _write_change(change, change.after)
    except OperationFailed:
        for each in done:
            _write_change(each, each.before)
        raise
    lines = [f"{each.name}: {_change_text(each)}" for each in changes]
    files = {each.name: {"added": each.added, "removed": each.removed} for each in changes}
    return Result("\n".join(lines), evidence={"files": files})


def _write_change(change: _Change, data: bytes | None) -> None:
    if data is not None:
        save(change.path, data, change.name)
        return
    with os_errors(change.name), disk.committing():
        change.path.unlink(missing_ok=True)


def _change_text(change: _Change) -> str:
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
    for parsed in read(diff or read_text(ctx, path)):
        if parsed.old and parsed.new and parsed.old != parsed.new:
            raise OperationFailed(f"{parsed.old} would become {parsed.new}: use move for that, then patch")
        target = ctx.writable(parsed.name)
        if target not in found:
            data = read_utf8(ctx, parsed.name) if target.exists() else None
            if parsed.old and data is None:
                raise absent(ctx, parsed.name, "file to patch")
            found[target] = _Change(target, relative(ctx, target), data, data)
        found[target].apply(parsed)
    if len(found) > MOST_FILES:
        raise OperationFailed(f"the diff changes more than {MOST_FILES} files")
    changes = [each for each in found.values() if each.before != each.after]
    if not changes:
        raise OperationFailed("the diff changes nothing")
    return changes
