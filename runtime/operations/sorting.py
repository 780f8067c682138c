"""The operation sort: the lines of a file or a text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch
from runtime.operations.texts import counted, encoded, file_or_text, line_end, lines_of, save_to
from runtime.sandbox.context import OperationContext, operation

_NUMBER = re.compile(
    r"(?:(?<!\w)[-+−])?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3}(?!\w))?|(?<![\w.])[-+−]?\.\d+"
)
"""A hyphen is a minus only if no word precedes it: file-10 is 10."""
_MORE = re.compile(r"\.\d")
_VERSION = re.compile(r"(?<![^\W_])v\d+\.\d", re.IGNORECASE)


def _prepare_sort(ctx: OperationContext, to: str = "", **_: Any) -> tuple[Touch, ...]:
    return (Touch(ctx.writable(to)),) if to else ()


@operation(_prepare_sort)
def sort_lines(
    ctx: OperationContext,
    path: str = "",
    text: str = "",
    order: str = "ascending",
    unique: bool = False,
    numeric: bool | None = None,
    to: str = "",
) -> Result:
    """Lines in alphabetical order, or by their first number; returned, or written to the file `to`.

    Without `numeric`, lines that all are numbers are sorted as numbers.
    """
    whole = file_or_text(ctx, path, text, "the file whose lines to sort")
    lines = lines_of(whole)
    if unique:
        lines = list(dict.fromkeys(lines))
    descending = order.startswith("desc")
    if numeric is None:
        numeric = all(_NUMBER.fullmatch(line.strip()) for line in lines if line.strip())
    if numeric:
        lines = _by_number(lines, descending)
    else:
        lines.sort(key=_as_words, reverse=descending)
    evidence = {"lines": len(lines)}
    if not to:
        return Result("\n".join(lines), evidence=evidence)
    end = line_end(whole)
    data = encoded("".join(f"{line}{end}" for line in lines), "the sorted lines")
    return save_to(ctx, to, data, counted(len(lines), "sorted line"), evidence)


def _by_number(lines: list[str], descending: bool) -> list[str]:
    """Sort by the first number of each line, then as words; lines without a number come last."""
    numbered: list[tuple[Decimal, str]] = []
    rest: list[str] = []
    for line in lines:
        if not (hit := _NUMBER.search(line)):
            rest.append(line)
        elif _MORE.match(line, hit.end()) or _VERSION.match(line, hit.start() - 1):
            raise OperationFailed(
                f"{line[:60]}: is a version or a date and no number; sort versions with bash: sort -V"
            )
        else:
            numbered.append((Decimal(hit[0].replace(",", "").replace("−", "-")), line))
    if len({number for number, _ in numbered}) < len(numbered):
        numbered.sort(key=lambda pair: _as_words(pair[1]), reverse=descending)
    numbered.sort(key=lambda pair: pair[0], reverse=descending)
    return [*(line for _, line in numbered), *sorted(rest, key=_as_words)]


def _as_words(line: str) -> tuple[str, str]:
    """Compare without case, then with case."""
    return line.casefold(), line
