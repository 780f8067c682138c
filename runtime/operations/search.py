"""The operations grep and count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kernel.errors import OperationFailed
from kernel.tools.operations import Result
from runtime.operations import scanning
from runtime.operations.texts import as_csv, counted, existing, lines_of, os_errors, read_text
from runtime.operations.walking import Deadline, Entry, files_below, files_found, told
from runtime.sandbox.context import OperationContext, operation

MOST_LINES = 5_000
MOST_CHARACTERS = 1_000_000
FIRST = 60
"""Lines of which each file has a fair share before the rest follows."""
MOST_IGNORED = 64_000_000
"""Maximum bytes of ignored files that are searched to tell of them."""
_LONGEST_PATTERN = 2_000


@operation()
def grep(
    ctx: OperationContext,
    pattern: str,
    path: str = ".",
    glob: str = "*",
    ignore_case: bool = False,
    fixed: bool = False,
    ignored: bool = False,
) -> Result:
    """Lines that match a regular expression (or, with `fixed`, contain a text), as path:line:text.

    Files that git ignores are searched, but only told of, unless the call asks for them.
    """
    deadline = Deadline(ctx.timeout)
    below = files_found(ctx, path, glob, deadline, ignored)
    entries = below.kept
    found = _scan_files(entries, pattern, deadline, fixed, ignore_case, MOST_LINES)
    faults = _faults(entries, found)
    if faults and not existing(ctx, path).is_dir():
        raise OperationFailed(f"{path}: cannot be searched: {found[0].fault}")
    total = sum(each.matching_lines for each in found)
    text = _cut(_lines(entries, found), total)
    if notable := [fault for fault in faults if not fault.endswith(": binary")]:
        text += f"\n(not searched: {'; '.join(notable[:20])})"
    evidence = {
        "lines": total,
        "files": sum(bool(each.matching_lines) for each in found),
        "searched": len(entries) - len(faults),
        "not_searched": faults[:100],
    }
    if below.ignored:
        try:
            apart, rest = _quick(below.ignored)
            hits = _scan_files(apart, pattern, deadline, fixed, ignore_case)
            names = [entry.name for entry, each in zip(apart, hits, strict=True) if each.matching_lines]
            left = bool(rest) or below.more
            text += told(names, "has hits", "have hits", left)
            evidence |= {"ignored": names[:100]} if names else {}
        except OperationFailed:  # they take too long
            text += told([each.name for each in below.ignored], "was not searched", "were not searched")
    return Result(text, evidence=evidence)


def _lines(entries: Sequence[Entry], found: Sequence[scanning.Found]) -> list[str]:
    """The lines by file; of very many, first some of each file, so that a long file hides no other one."""
    share = scanning.fair([len(each.lines) for each in found], FIRST)
    first, rest = list[str](), list[str]()
    for entry, each in zip(entries, found, strict=True):
        lines = [f"{entry.name}:{number}:{text}" for number, text in each.lines]
        first += lines[: max(share, 1)]
        rest += lines[max(share, 1) :]
    return [*first, *rest]


def _quick(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The ignored files that are searched, within `MOST_IGNORED` bytes, and the others."""
    apart, rest, size = list[Entry](), list[Entry](), 0
    for each in entries:
        with suppress(OSError):
            size += (own := each.path.stat().st_size)
            if size > MOST_IGNORED:
                size -= own
                rest.append(each)
            else:
                apart.append(each)
    return apart, rest


def _faults(entries: Sequence[Entry], found: Sequence[scanning.Found]) -> list[str]:
    return [f"{entry.name}: {each.fault}" for entry, each in zip(entries, found, strict=True) if each.fault]


def _cut(lines: Sequence[str], total: int) -> str:
    shown: list[str] = []
    characters = 0
    for line in lines:
        characters += len(line) + 1
        if characters > MOST_CHARACTERS:
            break
        shown.append(line)
    if total > len(shown):
        shown.append(f"… {total - len(shown):,} more lines; narrow the pattern or the glob")
    return "\n".join(shown) or "no line matches"


def _scan_files(
    entries: Sequence[Entry],
    pattern: str,
    deadline: Deadline,
    fixed: bool = False,
    ignore_case: bool = False,
    most_lines: int = 0,
) -> list[scanning.Found]:
    if not pattern or len(pattern) > _LONGEST_PATTERN:
        raise OperationFailed(f"the pattern is empty or longer than {_LONGEST_PATTERN:,} characters")
    if not fixed and re.search(r"\[\[?:[a-z]+:\]", pattern):
        raise OperationFailed(
            f"{pattern}: classes such as [[:digit:]] are not read here; write \\d, \\w, \\s or [A-Z]"
        )
    paths = [str(entry.path) for entry in entries]
    expression, flags = re.escape(pattern) if fixed else pattern, int(re.IGNORECASE) * ignore_case
    with os_errors("grep"):
        try:
            # stop before the operation itself is stopped, to report the slow pattern
            return scanning.scan_within(paths, expression, flags, most_lines, deadline.left * 0.9)
        except (re.error, RecursionError, OverflowError) as error:
            raise OperationFailed(
                f"{pattern}: not a regular expression: {error}; use fixed: true for text as it stands"
            ) from None
        except TimeoutError:
            raise OperationFailed(
                f"{pattern}: matching took longer than {deadline.seconds * 0.9:g} s and was stopped; "
                "write the expression without nested repetition"
            ) from None


@operation()
def count(
    ctx: OperationContext,
    what: str,
    path: str = ".",
    glob: str = "*",
    pattern: str = "",
    order: str = "name",
    format: str = "text",
) -> Result:
    """Count lines, words, characters, bytes, matches of a pattern, or files: for each file and in total."""
    if what == "matches" and not pattern:
        raise OperationFailed("pattern: say what the matches are of")
    if pattern and what != "matches":
        raise OperationFailed("pattern: goes with what: matches; use glob for names of files")
    deadline = Deadline(ctx.timeout)
    entries = files_below(ctx, path, glob, deadline)
    counts, faults = _count_files(ctx, entries, what, pattern, deadline)
    if faults and len(entries) == 1:
        raise OperationFailed(f"{faults[0]}; its bytes can be counted")
    rows = sorted(counts.items(), key=lambda row: row[0].split("/"))
    if order != "name":
        rows.sort(key=lambda row: row[1], reverse=order == "largest")
    total = sum(counts.values())
    single = not existing(ctx, path).is_dir()
    text = _shown_counts(rows, total, what, format, faults, single)
    evidence = {"total": total, "files": len(entries), "not_counted": faults[:100]}
    return Result(text, evidence=evidence)


def _count_files(
    ctx: OperationContext, entries: Sequence[Entry], what: str, pattern: str, deadline: Deadline
) -> tuple[dict[str, int], list[str]]:
    if what == "files":
        folders = Counter(entry.name.rpartition("/")[0] or "." for entry in entries)
        return dict(folders), []
    if what == "matches":
        found = _scan_files(entries, pattern, deadline)
        matches = {
            entry.name: each.matches for entry, each in zip(entries, found, strict=True) if not each.fault
        }
        return matches, _faults(entries, found)
    counts: dict[str, int] = {}
    faults: list[str] = []
    for entry in entries:
        deadline.check()
        try:
            counts[entry.name] = _count_file(ctx, entry.path, what)
        except OperationFailed as failure:
            faults.append(str(failure))
    return counts, faults


def _count_file(ctx: OperationContext, path: Path, what: str) -> int:
    name = str(path.relative_to(ctx.folder.resolve()))
    if what == "bytes":
        with os_errors(name):
            return path.stat().st_size
    text = read_text(ctx, name)
    if what == "characters":
        return len(text)
    return len(text.split()) if what == "words" else len(lines_of(text))


def _shown_counts(
    rows: list[tuple[str, int]], total: int, what: str, format: str, faults: list[str], single: bool
) -> str:
    if format == "total":
        return str(total)
    if format == "csv":
        return as_csv([("path", what), *rows]).removesuffix("\n")
    if single and rows:
        return f"{rows[0][0]}: {rows[0][1]} {_unit(what, rows[0][1])}"
    width = max((len(str(number)) for _, number in rows), default=1)
    lines = [f"{number:>{width}}  {name}" for name, number in rows[:MOST_LINES]]
    if len(rows) > MOST_LINES:
        lines.append(f"… {len(rows) - MOST_LINES:,} more files")
    over = "" if what == "files" else f" in {counted(len(rows), 'file')}"
    lines.append(f"total: {total} {_unit(what, total)}{over}")
    if notable := [fault for fault in faults if not fault.endswith("a binary file, not text")]:
        lines.append(f"(not counted: {'; '.join(notable[:20])})")
    return "\n".join(lines)


def _unit(what: str, number: int) -> str:
    if number != 1:
        return what
    return "match" if what == "matches" else what.removesuffix("s")
