"""What differs between two files or two folders; a unified diff whose time is bounded."""

from __future__ import annotations

import difflib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kernel.operations import OperationContext, Result, file_hash
from runtime.operations.texts import lines_of, unreadable
from runtime.operations.walking import Deadline, Entry, relative, walk

CONTEXT = 3
_QUICK = 4_000_000
"""Lines times lines that difflib takes well under a second or two for; above, the program diff does it."""
_MOST_CHARACTERS = 1_000_000


def compare_files(first: bytes, second: bytes, names: tuple[str, str], deadline: Deadline) -> Result:
    """The unified diff of two texts; for what is no text, where they begin to differ."""
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
    lines = _diff(_split(old), _split(new), names, deadline)
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    text = "\n".join(lines)
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}\n… {len(text) - _MOST_CHARACTERS:,} more characters"
    return Result(text, evidence={"identical": False, "added": added, "removed": removed})


def _split(text: str) -> list[str]:
    """Lines for a diff: the missing end of the last line is part of it, and shows."""
    lines = lines_of(text)
    if lines and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _diff(old: list[str], new: list[str], names: tuple[str, str], deadline: Deadline) -> list[str]:
    head = 0
    most = min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = (len(old) - head - tail) * (len(new) - head - tail)
    if middle > _QUICK:
        return _by_program(old, new, names, deadline) or _whole(old, new, head, tail, names)
    start, after = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    matcher = difflib.SequenceMatcher(
        None, old[start : len(old) - after], new[start : len(new) - after], False
    )
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in matcher.get_grouped_opcodes(CONTEXT):
        lines.extend(_hunk(group, old, new, start))
    return lines


def _hunk(
    group: list[tuple[str, int, int, int, int]], old: list[str], new: list[str], start: int
) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_range(first[1], last[2], start)} +{_range(first[3], last[4], start)} @@"
    for kind, a, b, c, d in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[start + a : start + b])
            continue
        yield from (f"-{line}" for line in old[start + a : start + b])
        yield from (f"+{line}" for line in new[start + c : start + d])


def _range(begin: int, end: int, offset: int) -> str:
    length = end - begin
    first = begin + offset + (1 if length else 0)
    return f"{first}" if length == 1 else f"{first},{length}"


def _whole(old: list[str], new: list[str], head: int, tail: int, names: tuple[str, str]) -> list[str]:
    """The middle replaced as one piece: right, if not the shortest."""
    group = [("replace", 0, len(old) - head - tail, 0, len(new) - head - tail)]
    return [f"--- {names[0]}", f"+++ {names[1]}", *_hunk(group, old, new, head)]


def _by_program(old: list[str], new: list[str], names: tuple[str, str], deadline: Deadline) -> list[str]:
    """The diff by the program `diff`; [] where there is none or it takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "a"), Path(folder, "b")]
        for path, lines in zip(paths, (old, new), strict=True):
            path.write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))
        labels = [part for name in names for part in ("--label", name)]
        try:
            ran = subprocess.run(
                ["diff", "-u", "--speed-large-files", *labels, *map(str, paths)],
                capture_output=True,
                timeout=max(0.1, deadline.left / 2),
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
    return ran.stdout.decode("utf-8", "replace").removesuffix("\n").split("\n") if ran.returncode == 1 else []


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
