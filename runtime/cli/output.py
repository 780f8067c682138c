"""What commands print: tables, JSON, messages, and texts, times and amounts in the form that people read.

`put` and `print_…` print results on standard output, `notify` messages on standard error.
Text from outside never reaches a terminal as escape sequences.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import click

from kernel.document.redaction import redact_forms

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
LEAST_COLUMN = 6
"""The narrowest that a column is cut to, in cells."""
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
    "struck": ("–", "bright_black"),  # written by earlier versions
    "planned": ("○", "bright_black"),
    "stale": ("○", "yellow"),
    "ready": ("○", "bright_black"),
}
"""A sign and a colour for each status of a loop and each state of a step."""
OUTCOMES: Mapping[bool | None, tuple[str, str]] = {
    True: ("✓", "green"),
    False: ("✗", "red"),
    None: ("–", "yellow"),
}
"""A sign and a colour for what is right, wrong or unknown."""
_PHASE_NAMES: Mapping[str, str] = {"fused": "Understand and Plan", "atomic": "Operation", "work": "Do"}
"""Names of calls that fill several phases at once."""


Columns = Mapping[str, str | Callable[[Any], object]]
"""A table: below each head an attribute or key of an item, or a function of it."""


def columns(piped: int = 10_000) -> int:
    """The width of the terminal, or `piped` where standard output is a pipe or file."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else piped


def notify(text: str, colour: str | None = None) -> None:
    """Print a line on standard error."""
    click.echo(click.style(safe(text), fg=colour) if colour else safe(text), err=True)


def notify_changes(quiet: bool) -> Callable[[str], None]:
    """A function that prints a line on standard error unless it is that of the call before."""
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if not quiet and text != last:
            notify(text)
        last = text

    return say


def put(text: str) -> None:
    """Print text on standard output; unchanged into a pipe or file."""
    printable = safe(text) if sys.stdout.isatty() else text
    sys.stdout.write(printable if printable.endswith("\n") else f"{printable}\n")
    sys.stdout.flush()


def print_line(text: str, **style: Any) -> None:
    """Print a line on standard output, safe for a terminal, in a style of `click.style`."""
    click.echo(click.style(safe(text), **style))


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; an object with its fields, or what its `as_dict` returns."""
    put(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def wants_json() -> bool:
    """Whether the command was called with `--json`."""
    return bool(click.get_current_context().meta.get("json"))


def emit(value: Any, code: int = 0) -> None:
    """With `--json`, print a value, or what a function returns, and end the command; else nothing."""
    if wants_json():
        print_json(value() if callable(value) else value)
        raise click.exceptions.Exit(code)


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return picked(value, *(each.name for each in fields(value)))
    return dict(value) if isinstance(value, Mapping) else str(value)


def picked(value: object, *names: str) -> dict[str, Any]:
    """Some attributes of an object, by name."""
    return {name: getattr(value, name) for name in names}


def print_table(
    shown: Columns,
    items: Sequence[Any],
    *,
    right: Sequence[int] = (),
    cut: Sequence[int] = (),
    room: int = 0,
    style: Callable[[Any, str], str] = lambda _, text: text,
) -> None:
    """Print a row per item below a dim head.

    Columns `right` are aligned right; columns `cut` shrink to the terminal, or to `room` cells. `style` gets
    an item and its line.
    """
    rows = [[_cell(item, column) for column in shown.values()] for item in items]
    head, *lines = table([list(shown), *rows], right, cut, room or columns())
    click.echo(click.style(head, dim=True))
    for item, text in zip(items, lines, strict=True):
        click.echo(style(item, text))


def _cell(item: Any, column: str | Callable[[Any], object]) -> str:
    if callable(column):
        return line(str(column(item)))
    return line(str(item[column] if isinstance(item, Mapping) else getattr(item, column)))


def print_list(items: Sequence[Any], shown: Columns, nothing: str, *, right: Sequence[int] = ()) -> None:
    """Print items as JSON or as a table; without items, the message `nothing`."""
    emit(items)
    if items:
        print_table(shown, items, right=right)
    else:
        notify(nothing)


def count(number: int, noun: str, many: str = "") -> str:
    """A number with its noun: `1 run`, `3 runs`."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


def safe(text: str) -> str:
    """The text with control and invisible characters made visible; tabs and line ends stay."""

    def visible(hit: re.Match[str]) -> str:
        code = ord(hit[0])  # below 32, the picture of the control character, such as ␛
        return chr(0x2400 + code) if code < 32 else f"\\u{{{code:x}}}"

    return _HIDDEN.sub(visible, text.replace("\r\n", "\n"))


def line(text: str) -> str:
    """The text on one line, safe to print, with single blanks."""
    return safe(" ".join(text.split()))


def width(text: str) -> int:
    """The number of terminal cells that the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # as the live tree measures

    return cell_len(text)


def elide(text: str, cells: int, *, end: bool = False) -> str:
    """The text on one line in at most that many cells, with … where it is cut; `end` keeps its end."""
    text = line(text)
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if end:
        tail = text[len(text) - cells + 1 :]
        while width(tail) >= cells:
            tail = tail[1:]
        return "…" + tail.lstrip()
    if text.isascii():
        return text[: cells - 1].rstrip() + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, cells - 1).rstrip() + "…"


def pad(text: str, cells: int) -> str:
    """The text padded with blanks to that many cells."""
    return text + " " * max(cells - width(text), 0)


def tokens(count: float) -> str:
    """A count of tokens in at most five characters: 940, 1.2k, 63k, 1.4M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(int(count))


def phase_name(phase: str) -> str:
    """A phase as people read it, such as `Plan`."""
    return _PHASE_NAMES.get(phase, phase.capitalize())


def money(usd: float | None) -> str:
    """US dollars; "?" where no price is known."""
    if usd is None:
        return "?"
    if not usd:
        return "$0"
    return f"${usd:.4f}" if usd < 0.1 else f"${usd:.2f}"


def cost_of(spent: Mapping[str, Any]) -> str:
    """What was spent, in US dollars; "?" stands for calls whose price is unknown."""
    usd = spent.get("usd") or 0
    return money(usd) if not spent.get("unpriced") else f"{money(usd)} + ?" if usd else "?"


def seconds(value: float, *, short: bool = False) -> str:
    """A duration: 0.4 s, 12 s, 3 min 04 s, 2 h 05 min; `short`: 0.4s, 12s, 3:04, 2h05."""
    second, minute, hour = ("s", ":", "h") if short else (" s", " min ", " h ")
    rounded = round(value)
    if value < 9.95:
        return f"{value:.1f}{second}"
    if rounded < 60:
        return f"{rounded}{second}"
    if rounded < 3600:
        return f"{rounded // 60}{minute}{rounded % 60:02d}{'' if short else second}"
    return f"{rounded // 3600}{hour}{rounded % 3600 // 60:02d}{'' if short else ' min'}"


def local(stamp: str, now: datetime | None = None) -> str:
    """A UTC time stamp in local time: 14:03 today, 3 May 14:03 this year, else the date."""
    try:
        when = datetime.fromisoformat(stamp).astimezone()
    except ValueError:
        return stamp
    now = now or datetime.now().astimezone()
    if when.date() == now.date():
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b %H:%M}" if when.year == now.year else f"{when:%Y-%m-%d}"


def call(tool: str, args: Mapping[str, Any] | None, cells: int) -> str:
    """A call in short: the tool, its texts, and other arguments as `name=value`; secrets are removed."""
    arguments = (args or {}).items()
    values = [value if isinstance(value, str) else f"{name}={value!r}" for name, value in arguments]
    return elide(redact_forms(" ".join([tool or "subtask", *values])), cells)


def table(
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    cut: Sequence[int] = (),
    room: int = 10_000,
) -> list[str]:
    """Rows as lines with aligned columns. Columns `cut` shrink, widest first, to fit `room`."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - room
    while over > 0 and cut and max(widths[at] for at in cut) > LEAST_COLUMN:
        at = max(cut, key=lambda column: widths[column])
        widths[at], over = widths[at] - 1, over - 1
    lines: list[str] = []
    for row in rows:
        cells: list[str] = []
        for at, (cell, size) in enumerate(zip(row, widths, strict=True)):
            if at in cut:
                cell = elide(cell, size)
            cells.append(" " * (size - width(cell)) + cell if at in right else pad(cell, size))
        lines.append("  ".join(cells).rstrip())
    return lines
