"""The operation lines: takes, changes and counts lines of a file or a text: `with TODO | last 2`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from statistics import median
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch
from runtime.operations import quantities
from runtime.operations.texts import counted, encoded, file_or_text, line_end, lines_of, save_to
from runtime.sandbox.context import OperationContext, operation

HELP = (
    "write first N, last N, line N, lines N-M, longest, shortest, with TEXT, without TEXT, starting TEXT, "
    "ending TEXT, filled, empty, repeated; drop before most of these; emails, urls, numbers, dates, "
    "times, headings, words; unique, reversed, upper, lower, title, numbered, trimmed, prefix TEXT, "
    "suffix TEXT, insert TEXT at N; count, sum, average, median, largest, smallest, common; "
    "a bar joins several"
)
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|(\|)|([^\s"|]+))""")
_NUMBER = re.compile(r"(?<![\w.-])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w-])(?!\.\d)")
_EXTRACTS: Mapping[str, re.Pattern[str]] = {
    "emails": re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"),
    "urls": re.compile(r"https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:!?]"),
    "numbers": _NUMBER,
    "dates": re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"),
    "times": re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b"),
    "headings": re.compile(r"(?m)^#{1,6} .*\S"),
    "words": re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*"),
}
_CHANGES: Mapping[str, Callable[[list[str]], list[str]]] = {
    "unique": lambda lines: list(dict.fromkeys(lines)),
    "repeated": lambda lines: [line for line, times in Counter(lines).items() if times > 1],
    "reversed": lambda lines: lines[::-1],
    "upper": lambda lines: [line.upper() for line in lines],
    "lower": lambda lines: [line.lower() for line in lines],
    "title": lambda lines: [re.sub(r"\w[\w'’]*", lambda w: w[0].capitalize(), line) for line in lines],
    "numbered": lambda lines: [f"{number}. {line}" for number, line in enumerate(lines, 1)],
    "trimmed": lambda lines: [line.strip() for line in lines],
    "filled": lambda lines: [line for line in lines if line.strip()],
    "empty": lambda lines: [line for line in lines if not line.strip()],
}
_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "with": lambda line, text: text in line,
    "without": lambda line, text: text not in line,
    "starting": str.startswith,
    "ending": str.endswith,
}
_AFFIXES: Mapping[str, Callable[[str, str], str]] = {
    "prefix": lambda line, text: text + line,
    "suffix": lambda line, text: line + text,
}
_SUMS: Mapping[str, Callable[[list[Fraction]], Fraction]] = {
    "sum": lambda numbers: sum(numbers, Fraction(0)),
    "average": lambda numbers: sum(numbers, Fraction(0)) / len(numbers),
    "median": lambda numbers: Fraction(median(numbers)),
    "largest": max,
    "smallest": min,
}


def _prepare(ctx: OperationContext, to: str = "", **_: Any) -> tuple[Touch, ...]:
    return (Touch(ctx.writable(to)),) if to else ()


@operation(_prepare)
def lines(ctx: OperationContext, query: str, path: str = "", text: str = "", to: str = "") -> Result:
    """The lines that a query takes from a file or text, or what it counts; returned, or written to `to`."""
    whole = file_or_text(ctx, path, text, "the file whose lines are meant")
    found = lines_of(whole)
    for part in _parts(query):
        found = _Part(part).applied(found)
    evidence = {"lines": len(found)}
    if not to:
        return Result("\n".join(found) or "no line matches", evidence=evidence)
    end = line_end(whole)
    data = encoded("".join(f"{line}{end}" for line in found), "the lines")
    return save_to(ctx, to, data, counted(len(found), "line"), evidence)


def _parts(query: str) -> list[list[str]]:
    """The words and texts of each part between bars."""
    parts: list[list[str]] = [[]]
    at = 0
    while query[at:].strip():
        hit = _TOKEN.match(query, at)
        if hit is None:
            raise OperationFailed(f"cannot read {query[at:].strip()[:40]!r}; {HELP}")
        at = hit.end()
        if hit[2]:
            parts.append([])
        else:
            parts[-1].append(hit[3] if hit[3] else re.sub(r"\\(.)", r"\1", hit[1]))
    if not all(parts):
        raise OperationFailed(f"a part of the query is empty; {HELP}")
    return parts


class _Part:
    """One part of a query."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.name, self.args = words[0].lower(), words[1:]

    def applied(self, lines: list[str]) -> list[str]:
        """The lines after it; raises with help if it cannot be read."""
        name, args = self.name, self.args
        if name == "drop" and args:
            kept = _Part(args)._dropped(lines)
            if len(kept) == len(lines):
                raise OperationFailed(f"no line is meant by {' '.join(args)}; nothing was changed")
            return kept
        if name in ("first", "last", "line", "lines", "longest", "shortest"):
            return [lines[at] for at in self._places(lines)]
        if name in _TESTS and len(args) == 1:
            return [line for line in lines if _TESTS[name](line, args[0])]
        if name in _AFFIXES and len(args) == 1:
            return [_AFFIXES[name](line, args[0]) for line in lines]
        if name == "insert" and len(args) == 3 and args[1] == "at" and args[2].isdecimal():
            at = max(int(args[2]) - 1, 0)
            return [*lines[:at], args[0], *lines[at:]]
        if args:
            raise self._unread()
        if name in _EXTRACTS:
            return _EXTRACTS[name].findall("\n".join(lines))
        if name in _CHANGES:
            return _CHANGES[name](lines)
        if name == "count":
            return [str(len(lines))]
        if name == "common":
            return [f"{line}: {times}" for line, times in Counter(lines).most_common()]
        if name in _SUMS:
            return [quantities.shown(_SUMS[name](self._numbers(lines)))]
        raise self._unread()

    def _dropped(self, lines: list[str]) -> list[str]:
        """The lines that this part does not take."""
        if self.name in _TESTS and len(self.args) == 1:
            return [line for line in lines if not _TESTS[self.name](line, self.args[0])]
        gone = set(self._places(lines))
        return [line for at, line in enumerate(lines) if at not in gone]

    def _unread(self) -> OperationFailed:
        return OperationFailed(f"cannot read {' '.join(self.words)[:60]!r}; {HELP}")

    def _places(self, lines: list[str]) -> list[int]:
        """Which lines are meant, from 0."""
        name, arg = self.name, self.args[0] if self.args else "1"
        if name == "lines" and (hit := re.fullmatch(r"(\d+)-(\d+)", arg)):
            return list(range(max(int(hit[1]) - 1, 0), min(int(hit[2]), len(lines))))
        if len(self.args) > 1 or not arg.isdecimal():
            raise self._unread()
        number = int(arg)
        if name in ("line", "lines"):
            if not 0 < number <= len(lines):
                raise OperationFailed(f"there is no line {number}; there are {len(lines)}")
            return [number - 1]
        if name in ("first", "last"):
            return list(range(len(lines)))[:number] if name == "first" else list(range(len(lines)))[-number:]
        if name in ("longest", "shortest"):
            sign = -1 if name == "longest" else 1
            return sorted(range(len(lines)), key=lambda at: sign * len(lines[at]))[:number]
        raise self._unread()

    def _numbers(self, lines: list[str]) -> list[Fraction]:
        found = [Fraction(each.replace(",", "")) for each in _NUMBER.findall("\n".join(lines))]
        if not found and self.name != "sum":
            raise OperationFailed(f"there are no numbers to take the {self.name} of")
        return found
