"""Matches a pattern in files; also runs as a program of its own, so that a slow pattern can be stopped.

A regular expression can take exponential time and blocks the interpreter meanwhile. Such patterns are matched
in a second process that is killed at the deadline. This module imports nothing of the package, to start fast.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

LARGEST = 64_000_000
LONGEST_SHOWN = 400
"""Most characters of a matching line that are shown."""


@dataclass(frozen=True)
class Found:
    """The matches in one file: lines (number, text) and counts, or why it could not be searched."""

    lines: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    matches: int = 0
    matching_lines: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Sought:
    """A regular expression or, with `fixed`, a text, and the most lines to return."""

    pattern: str
    ignore_case: bool = False
    fixed: bool = False
    most_lines: int = 5_000

    def compiled(self) -> re.Pattern[str]:
        """The expression; raises `re.error`."""
        pattern = re.escape(self.pattern) if self.fixed else self.pattern
        return re.compile(pattern, re.IGNORECASE if self.ignore_case else 0)

    @property
    def quick(self) -> bool:
        """Whether matching takes linear time."""
        return self.fixed or (not set("*+{") & set(self.pattern) and self.pattern.count("?") <= 5)


def scan(paths: Sequence[str], sought: Sought) -> list[Found]:
    """Search the files in order; after `most_lines` lines, only count."""
    expression = sought.compiled()
    found: list[Found] = []
    left = sought.most_lines
    for path in paths:
        each = _scan_file(path, expression, left)
        left -= len(each.lines)
        found.append(each)
    return found


def scan_within(paths: Sequence[str], sought: Sought, seconds: float) -> list[Found]:
    """Like `scan`; raises `TimeoutError` after some seconds."""
    if sought.quick:
        return scan(paths, sought)
    request = json.dumps({"paths": list(paths), "sought": asdict(sought)})
    try:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            input=request.encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    if ran.returncode:
        raise OSError(0, f"searching failed: {ran.stderr.decode(errors='replace').strip()[-300:]}")
    return [Found(**each) for each in json.loads(ran.stdout)]


def _scan_file(path: str, expression: re.Pattern[str], left: int) -> Found:
    try:
        with open(path, "rb") as handle:  # noqa: PTH123 - pathlib doubles the start of the second process
            data = handle.read(LARGEST + 1)
    except OSError as error:
        return Found(fault=(error.strerror or str(error)).lower())
    if len(data) > LARGEST:
        return Found(fault=f"larger than {LARGEST // 1_000_000} MB")
    if b"\0" in data:
        return Found(fault="binary")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Found(fault=f"not UTF-8 text (byte {error.start})")
    lines: list[tuple[int, str]] = []
    matches = matching = 0
    parts = text.split("\n")
    if parts[-1] == "":
        parts.pop()  # what follows the end of the last line is no line
    for number, part in enumerate(parts, 1):
        line = part.removesuffix("\r")
        hits = sum(1 for _ in expression.finditer(line))
        if hits:
            matches += hits
            matching += 1
            if len(lines) < left:
                shown = line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"
                lines.append((number, shown))
    return Found(lines, matches, matching)


def _main() -> None:
    request = json.load(sys.stdin)
    found = scan(request["paths"], Sought(**request["sought"]))
    json.dump([asdict(each) for each in found], sys.stdout)


if __name__ == "__main__":
    _main()
