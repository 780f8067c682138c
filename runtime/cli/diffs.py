"""How changes of files are shown: a line for each file, then the diffs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.cli.output import echo, notify, safe
from runtime.cli.session import command
from runtime.secrets.redaction import redact
from runtime.text.shown import shown_name

if TYPE_CHECKING:
    from runtime.sandbox.changes import Change

LONGEST = 2_000
"""Characters of a line, where the number of lines is limited."""
NAMED = 5
"""Files of one kind of folder that are named, if nothing of it is kept."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_changes(
    changed: Sequence[Change], more: Sequence[str] = (), *, most: int = 0, err: bool = False
) -> None:
    """Print a line for each file, then the diffs, and `more` diffs; in colour on a terminal.

    With `most`, only that many lines are printed, up to `LONGEST`, and how many are left out.
    """
    lines = [*_lines(changed, more)]
    for text in lines[: most or None]:
        if most and len(text) > LONGEST:
            text = f"{text[:LONGEST]}… ({len(text) - LONGEST:,} more characters)"
        colour = _COLOURS.get(text[:1])
        bold = text.startswith(("--- ", "+++ "))
        echo(text, err=err, fg=None if bold else colour, bold=bold or None)
    if most and len(lines) > most:
        notify(f"… and {len(lines) - most} more lines: {command('diff')}")


def unkept_lines(unkept: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each kind of folder of which nothing is kept, with what changed there."""
    for paths in unkept.values():
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        names = ", ".join(map(shown_name, paths[:NAMED]))
        yield safe(f"changed since it began, and nothing keeps it: {names}{more}")


def _lines(changed: Sequence[Change], more: Sequence[str]) -> Iterator[str]:
    for change in changed:
        sizes = f"{change.before:,} bytes before, {change.size:,} now"
        size = sizes if change.kind == "changed" else f"{change.size or change.before:,} bytes"
        yield safe(f"{change.kind} {shown_name(change.path)}" + ("" if change.diff else f" ({size})"))
    texts: list[str] = []
    for change in (each for each in changed if each.diff):
        before, after = (
            "/dev/null" if change.kind == kind else shown_name(change.path) for kind in ("new", "removed")
        )
        texts.append(f"--- {before}\n+++ {after}\n{change.diff}")
    for text in (*texts, *more):
        yield ""
        yield from safe(redact(text)).rstrip("\n").split("\n")  # a key has several lines
