"""What commands print: tables, JSON, messages, and texts, times and amounts in the form that people read.

`put` and `print_…` print results on standard output, `notify` messages on standard error. No other module
writes to a standard stream: what is printed here has no secrets. Text from outside never reaches a terminal
as escape sequences.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click

from kernel.document.escaping import to_json
from kernel.document.redaction import Verbatim, redacted
from runtime.secrets.redaction import redact, redact_kept, redact_values, redactor
from runtime.text.shown import MARKS as MARKS
from runtime.text.shown import call as call
from runtime.text.shown import cost_of as cost_of
from runtime.text.shown import count as count
from runtime.text.shown import elide, line, pad, safe, width
from runtime.text.shown import local as local
from runtime.text.shown import money as money
from runtime.text.shown import phase_name as phase_name
from runtime.text.shown import seconds as seconds
from runtime.text.shown import tokens as tokens

if TYPE_CHECKING:
    from kernel.events import Event

LEAST_COLUMN = 6
"""The narrowest that a column is cut to, in cells."""
OUTCOMES: Mapping[bool | None, tuple[str, str]] = {
    True: ("✓", "green"),
    False: ("✗", "red"),
    None: ("–", "yellow"),
}
"""A sign and a colour for what is right, wrong or unknown."""


Columns = Mapping[str, str | Callable[[Any], object]]
"""A table: below each head an attribute or key of an item, or a function of it."""


def columns(piped: int = 10_000) -> int:
    """The width of the terminal, or `piped` where standard output is a pipe or file."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else piped


def echo(text: str = "", *, err: bool = False, styled: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text without secrets, in a style of `click.style`; `styled`: it has escape sequences of ours."""
    text = cleaned(text, sys.stderr if err else sys.stdout)
    text = text if styled else safe(text)
    with suppress(OSError) if err else nullcontext():  # nobody could be told of it
        click.echo(click.style(text, **style) if style else text, err=err, nl=nl)


def notify(text: str, colour: str | None = None) -> None:
    """Print a line on standard error without secrets."""
    style: dict[str, Any] = {"fg": colour} if colour else {}
    echo(text, err=True, **style)


def confirm(question: str, *, abort: bool = False) -> bool:
    """Ask a person for yes or no, on standard error."""
    return click.confirm(safe(redact(question)), err=True, abort=abort)


def cleaned(text: str, to: TextIO) -> str:
    """A text without secrets; what a person approves is whole at a terminal, without known ones elsewhere."""
    if isinstance(text, Verbatim):
        return text if to.isatty() else redact_values(text)
    return redact(text)


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
    """Print text without secrets on standard output; else unchanged into a pipe or file."""
    _write(cleaned(text, sys.stdout))


def put_document(raw: bytes) -> None:
    """Print a file of ours on standard output as it is, but for secrets that it should not have."""
    sys.stdout.flush()
    text = redact_kept(raw.decode("utf-8", "surrogateescape"))
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def put_event(event: Event) -> None:
    """Print an event, which has no secrets since it was made, as one line of JSON on standard output."""
    sys.stdout.write(f"{to_json(event.as_dict())}\n")
    sys.stdout.flush()


def _write(text: str) -> None:
    printable = safe(text) if sys.stdout.isatty() else text
    sys.stdout.write(printable if printable.endswith("\n") else f"{printable}\n")
    sys.stdout.flush()


def print_line(text: str, **style: Any) -> None:
    """Print a line on standard output, safe for a terminal, in a style of `click.style`."""
    echo(text, **style)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; an object with its fields, or what its `as_dict` returns."""
    _write(json.dumps(redacted(_values(value), redactor()), indent=2, ensure_ascii=False))


def wants_json() -> bool:
    """Whether the command was called with `--json`."""
    return bool(click.get_current_context().meta.get("json"))


def emit(value: Any, code: int = 0) -> None:
    """With `--json`, print a value, or what a function returns, and end the command; else nothing."""
    if wants_json():
        print_json(value() if callable(value) else value)
        raise click.exceptions.Exit(code)


def _values(value: Any) -> Any:
    """A value as JSON has it; a question for approval keeps its type, by which it is shown whole."""
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else json.dumps(key): _values(each) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_values(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return _values(_plain(value))


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
    echo(head, dim=True)
    for item, text in zip(items, lines, strict=True):
        echo(style(item, text), styled=True)


def _cell(item: Any, column: str | Callable[[Any], object]) -> str:
    if callable(column):
        return line(redact(str(column(item))))
    return line(redact(str(item[column] if isinstance(item, Mapping) else getattr(item, column))))


def print_list(items: Sequence[Any], shown: Columns, nothing: str, *, right: Sequence[int] = ()) -> None:
    """Print items as JSON or as a table; without items, the message `nothing`."""
    emit(items)
    if items:
        print_table(shown, items, right=right)
    else:
        notify(nothing)


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
