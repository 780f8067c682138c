"""How things are said to a person: texts made harmless and short, times in their zone, money, tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kernel.screening import redact_forms

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
LEAST_COLUMN = 6
"""Cells that a column keeps on a narrow terminal."""
MARKS: Mapping[str, tuple[str, str]] = {
    "complete": ("✓", "green"),
    "done": ("✓", "green"),
    "unverified": ("✓", "yellow"),
    "failed": ("✗", "red"),
    "escalated": ("▲", "yellow"),
    "exhausted": ("■", "yellow"),
    "cancelled": ("■", "yellow"),
    "interrupted": ("‖", "yellow"),
    "unknown": ("?", "yellow"),
    "broken": ("✗", "red"),
    "waiting": ("?", "magenta"),
    "running": ("●", "cyan"),
    "skipped": ("–", "bright_black"),
    "struck": ("–", "bright_black"),
    "planned": ("○", "bright_black"),
    "stale": ("○", "yellow"),
    "ready": ("○", "bright_black"),
}
"""A sign and a colour for each status of a loop and each state of a step."""


def safe(text: str) -> str:
    """The text with everything that could steer a terminal made visible; tabs and line ends stay."""
    return _HIDDEN.sub(_visible, text.replace("\r\n", "\n"))


def _visible(hit: re.Match[str]) -> str:
    code = ord(hit[0])
    if code < 32:
        return chr(0x2400 + code)  # the picture of the control character, such as ␛
    return f"\\u{{{code:x}}}"


def line(text: str) -> str:
    """The text on one line, harmless, without runs of blanks."""
    return safe(" ".join(text.split()))


def width(text: str) -> int:
    """How many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # the live tree measures with it as well

    return cell_len(text)


def elide(text: str, cells: int) -> str:
    """The text on one line in at most so many cells, with … where it was cut."""
    text = line(text)
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if text.isascii():
        return text[: cells - 1].rstrip() + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, cells - 1).rstrip() + "…"


def pad(text: str, cells: int) -> str:
    """The text filled up with blanks to so many cells."""
    return text + " " * max(cells - width(text), 0)


def tokens(count: float) -> str:
    """A count of tokens in at most five characters: 940, 1.2k, 63k, 1.4M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(int(count))


def money(usd: float | None) -> str:
    """US dollars, small sums exact enough to add up; "?" where no price is known."""
    if usd is None:
        return "?"
    if not usd:
        return "$0"
    return f"${usd:.4f}" if usd < 0.1 else f"${usd:.2f}"


def seconds(value: float) -> str:
    """A duration: 0.4 s, 12 s, 3 min 04 s, 2 h 05 min."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def local(stamp: str, now: datetime | None = None) -> str:
    """A UTC time stamp in the person's time zone: 14:03 today, else with its day, else with its year."""
    try:
        when = datetime.fromisoformat(stamp).astimezone()
    except ValueError:
        return stamp
    now = now or datetime.now().astimezone()
    if when.date() == now.date():
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b %H:%M}" if when.year == now.year else f"{when:%Y-%m-%d}"


def call(tool: str, args: Mapping[str, Any] | None, cells: int = 60) -> str:
    """A call as a person would write it: the tool and its arguments' values, cut to so many cells."""
    values = [value if isinstance(value, str) else repr(value) for value in (args or {}).values()]
    return elide(redact_forms(" ".join([tool or "subtask", *values])), cells)


Style = Callable[[str, str], str]


def plain(text: str, colour: str) -> str:
    """The text as it is: for where there are no colours."""
    return text


def middle(text: str, cells: int) -> str:
    """The text in at most so many cells, cut in its middle: an id keeps both its ends."""
    text = line(text)
    if width(text) <= cells or not text.isascii() or cells < 5:
        return elide(text, cells)
    back = (cells - 1) // 2
    return f"{text[: cells - 1 - back]}…{text[-back:]}"


def fitted(rows: Sequence[Sequence[str]], room: int, give: Sequence[int]) -> list[list[str]]:
    """Rows for `table` that fit into so many cells: the columns `give` are cut, the widest first."""
    widths = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - room
    while over > 0:
        at = max(give, key=lambda column: widths[column])
        if widths[at] <= LEAST_COLUMN:
            break
        widths[at], over = widths[at] - 1, over - 1
    short = [elide if any(" " in row[at] for row in rows[1:]) else middle for at in range(len(widths))]
    return [
        [short[at](cell, widths[at]) if at in give else cell for at, cell in enumerate(row)] for row in rows
    ]


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as lines with aligned columns; `right` names the columns that end at the same place."""
    widths = [max(width(row[at]) for row in rows) for at in range(len(rows[0]))] if rows else []
    lines: list[str] = []
    for row in rows:
        cells = [
            " " * (size - width(cell)) + cell if at in right else pad(cell, size)
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
