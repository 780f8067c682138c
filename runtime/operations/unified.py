"""Unified diffs: read as people and models write them, and fitted to a file by what the lines say.

The figures of a hunk's head are a hint: counts that are wrong do no harm, a wrong line number does none where
the lines occur once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernel.errors import OperationFailed

NOTHING = "/dev/null"
MOST_LINES = 50_000
_HEAD = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?)? ?(?:@@.*)?$")
_MOVES = ("rename from ", "copy from ", "GIT binary patch", "Binary files ")


@dataclass
class Hunk:
    """One place of a file: its lines with their marks (space, - or +), and where they are said to begin."""

    line: int  # 0: not said
    body: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    ends_bare: dict[str, bool] = field(default_factory=dict[str, bool])  # the old, the new last line: no end

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [text for mark, text in self.body if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that it has then."""
        return [text for mark, text in self.body if mark != "-"]


@dataclass
class Patch:
    """What a diff does to one file; `old` is "" for a new one, `new` for one that goes."""

    old: str
    new: str
    hunks: list[Hunk] = field(default_factory=list[Hunk])

    @property
    def name(self) -> str:
        """The file."""
        return self.new or self.old


def read(diff: str) -> list[Patch]:
    """The parts of a diff, file by file; raises where it is none, or does what only git can."""
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    while lines and lines[-1].strip() in ("", "```"):  # the end of a fence around it
        lines.pop()
    if len(lines) > MOST_LINES:
        raise OperationFailed(f"the diff has more than {MOST_LINES:,} lines")
    found: list[Patch] = []
    hunk: Hunk | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if _begins_file(lines, at):
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
        elif hunk is not None and not line.startswith(("diff --git ", "index ")):
            _take(hunk, line, at + 1)
        elif line.startswith("diff --git "):
            hunk = None
        at += 1
    if not any(each.hunks for each in found):
        raise OperationFailed("this is no unified diff: give lines --- a/FILE, +++ b/FILE, @@ and the hunks")
    return found


def _begins_file(lines: Sequence[str], at: int) -> bool:
    """A removed line may itself begin with `-- `: a head has its second line, and a hunk after it."""
    return (
        lines[at].startswith("--- ")
        and at + 2 < len(lines)
        and lines[at + 1].startswith("+++ ")
        and lines[at + 2].startswith("@@")
    )


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
        hunk.body.append((" ", ""))  # an empty line whose space was lost
    elif line[0] in " -+":
        hunk.body.append((line[0], line[1:]))
    else:
        raise OperationFailed(
            f"the diff's line {number} begins with {line[0]!r}: lines of a hunk begin with a space, - or +"
        )


def applied(text: str, patch: Patch) -> tuple[str, list[int]]:
    """The text with the hunks put in, and the lines where they begin in it; all of them, or an error."""
    crlf = text.count("\r\n")
    end = "\r\n" if crlf and crlf == text.count("\n") else "\n"
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
    """The index of the lines that a hunk changes: where it says, or the one place that they occur."""
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
    """Where the hunk nearly suits, and the first line that differs."""
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
