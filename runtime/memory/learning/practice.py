"""Good practice as one markdown file: read to begin with, and written to be taken elsewhere.

A heading is a pattern's title; under it stands what to do. Lines `Applies to:` (task types) and `Avoid:` are
optional. Without headings each point of a list is a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernel.budget import estimate_tokens
from kernel.text import INVISIBLE
from runtime.memory.learning.patterns import GENERAL, LONGEST, Pattern, PatternError, named

LARGEST = 1_000_000
"""Bytes of such a file."""
MOST = 500
"""Patterns of one file."""
_HIDDEN = re.compile(f"[{INVISIBLE}]")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$")
_POINT = re.compile(r"^[-*+] +(.*)$")
_FIELD = re.compile(r"^\**(applies to|avoid)\**\s*:\**\s*(.*)$", re.IGNORECASE)
_FRONT = re.compile(r"(?s)\A---[ \t]*\n.*?^---[ \t]*$\n?", re.MULTILINE)


def read_practice(path: Path, now: str = "") -> list[Pattern]:
    """The patterns of a file. Raises `PatternError` with file and line; then nothing of it is taken."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PatternError(f"cannot be read: {error.strerror}", path) from None
    if len(raw) > LARGEST:
        raise PatternError(f"{len(raw):,} bytes are too many; {LARGEST:,} at most", path)
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise PatternError("not UTF-8 text; save the file as UTF-8", path, line) from None
    if hidden := _HIDDEN.search(text):
        line = text.count("\n", 0, hidden.start()) + 1
        raise PatternError(f"the invisible character U+{ord(hidden[0]):04X}; remove it", path, line)
    front = _FRONT.match(text)
    start = text.count("\n", 0, front.end()) if front else 0
    found = [_pattern(*each, path, now) for each in _sections(text.split("\n")[start:], start + 1)]
    if not found:
        raise PatternError("no heading with a text under it, and no list: nothing to learn from", path)
    if len(found) > MOST:
        raise PatternError(f"{len(found)} patterns are too many for one file; {MOST} at most", path)
    return found


def _sections(lines: list[str], first: int) -> Iterator[tuple[str, list[str], int]]:
    """Title, lines and line number of each section with a text; without any, the points of its list."""
    title, inside, at, seen = "", list[str](), first, False
    points: list[tuple[str, int]] = []
    for number, line in enumerate(lines, first):
        if heading := _HEADING.match(line):
            if title and any(map(str.strip, inside)):
                yield title, inside, at
                seen = True
            title, inside, at = heading[1].strip("* "), [], number
        else:
            inside.append(line)
            if point := _POINT.match(line):
                points.append((point[1], number))
    if title and any(map(str.strip, inside)) and (seen or not points or len(points) == 1):
        yield title, inside, at
    elif not seen:
        yield from ((text, [text], number) for text, number in points)
    elif title and any(map(str.strip, inside)):
        yield title, inside, at


def _pattern(title: str, lines: list[str], line: int, path: Path, now: str) -> Pattern:
    fields: dict[str, str] = {}
    words: list[str] = []
    for each in lines:
        if field := _FIELD.match(each.strip().removeprefix("- ")):
            fields[field[1].lower()] = field[2].strip()
        elif not each.startswith("(learned:"):
            words.append(each)
    guidance, avoid = "\n".join(words).strip(), fields.get("avoid", "")
    if not guidance:
        raise PatternError(f"nothing under “{title[:60]}” says what to do", path, line)
    if (size := estimate_tokens(guidance + avoid)) > LONGEST:
        raise PatternError(
            f"{size} tokens under “{title[:60]}”; {LONGEST} at most, so make it shorter", path, line
        )
    types = [
        re.sub(r"[^a-z0-9]+", "-", each.lower()).strip("-")
        for each in fields.get("applies to", "").split(",")
    ]
    short = title if len(title) <= 60 else " ".join(title[:60].split()[:-1])
    return Pattern(
        named(short),
        guidance,
        avoid,
        short,
        types=tuple(dict.fromkeys(each[:60] for each in types if each)) or (GENERAL,),
        confidence=0.6,
        origin="imported",
        created=now,
        why=f"From {path.name}, line {line}.",
    )


def write_practice(patterns: Iterable[Pattern]) -> str:
    """The patterns as one file that can be read again: what to do, and what that was learned from."""
    parts = ["# Good practice\n"]
    for each in sorted(patterns, key=lambda each: (each.types, -each.confidence, each.name)):
        lines = [f"## {each.title or each.name}\n", f"Applies to: {', '.join(each.types)}"]
        if each.avoid:
            lines.append(f"Avoid: {' '.join(each.avoid.split())}")
        lines += ["", each.guidance, ""]
        if each.why:
            lines += [f"(learned: {' '.join(each.why.split())})", ""]
        parts.append("\n".join(lines))
    return "\n".join(parts)
