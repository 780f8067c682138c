"""Matches a pattern in files; also runs as a program of its own, so that a slow pattern can be stopped.

A regular expression can take exponential time and blocks the interpreter meanwhile. Such patterns are matched
in a second process that is killed at the deadline. As a program this module imports nothing of the package,
to start fast.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

LARGEST = 64_000_000
LONGEST_SHOWN = 400
"""Most characters of a matching line that are shown."""


class Found(NamedTuple):
    """The matches in one file: lines (number, text) and counts, or why it could not be searched."""

    lines: list[tuple[int, str]]
    matches: int = 0
    matching_lines: int = 0
    fault: str = ""


def scan(paths: Sequence[str], pattern: str, flags: int, most_lines: int) -> list[Found]:
    """Search the files; of `most_lines` lines each file has a fair share. Raises `re.error`."""
    expression = re.compile(pattern, flags)
    found: list[Found] = []
    kept = 0
    for path in paths:
        found.append(_scan_file(path, expression, most_lines))
        kept += len(found[-1].lines)
        if kept > 2 * most_lines:
            found = _levelled(found, most_lines)
            kept = sum(len(each.lines) for each in found)
    return _levelled(found, most_lines)


def fair(counts: Sequence[int], room: int) -> int:
    """The share of each, where all together have this room: who needs less leaves the rest to the others."""
    share, left = 0, sorted(counts)
    for at, count in enumerate(left):
        share = room // (len(left) - at)
        if count > share:
            return share
        room -= count
    return max(share, left[-1] if left else 0)


def _levelled(found: list[Found], most: int) -> list[Found]:
    share = fair([len(each.lines) for each in found], most)
    return [each._replace(lines=each.lines[:share]) for each in found]


def scan_within(
    paths: Sequence[str], pattern: str, flags: int, most_lines: int, seconds: float
) -> list[Found]:
    """Like `scan`; raises `TimeoutError` after some seconds."""
    re.compile(pattern, flags)
    if not set("*+{") & set(re.sub(r"\\.", "", pattern)) and pattern.count("?") <= 5:
        return scan(paths, pattern, flags, most_lines)  # takes linear time
    from pathlib import Path
    from subprocess import TimeoutExpired

    from runtime.sandbox.programs import PYTHON, run

    given = json.dumps([paths, pattern, flags, most_lines]).encode()
    try:
        ran = run([*PYTHON, os.path.abspath(__file__)], Path("/"), stdin=given, timeout=seconds)  # noqa: PTH100
    except TimeoutExpired:
        raise TimeoutError from None
    if ran.returncode:
        raise OSError(0, f"searching failed: {ran.stderr.decode(errors='replace').strip()[-300:]}")
    return [Found(*each) for each in json.loads(ran.stdout)]


def _scan_file(path: str, expression: re.Pattern[str], most_lines: int) -> Found:
    try:
        with open(path, "rb") as handle:  # noqa: PTH123 - pathlib doubles the start of the second process
            data = handle.read(LARGEST + 1)
    except OSError as error:
        return Found([], fault=(error.strerror or str(error)).lower())
    if len(data) > LARGEST:
        return Found([], fault=f"larger than {LARGEST // 1_000_000} MB")
    if b"\0" in data:
        return Found([], fault="binary")
    try:
        parts = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        return Found([], fault=f"not UTF-8 text (byte {error.start})")
    if parts[-1] == "":
        parts.pop()  # what follows the end of the last line is no line
    lines: list[tuple[int, str]] = []
    matches = matching = 0
    for number, part in enumerate(parts, 1):
        line = part.removesuffix("\r")
        if hits := sum(1 for _ in expression.finditer(line)):
            matches += hits
            matching += 1
            if len(lines) < most_lines:
                shown = line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"
                lines.append((number, shown))
    return Found(lines, matches, matching)


if __name__ == "__main__":
    json.dump(scan(*json.load(sys.stdin)), sys.stdout)
