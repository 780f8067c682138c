"""`fractal apply` and `discard`, the review at the end of a run, and how changes of files are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kernel.document.redaction import shown_name
from runtime.cli.output import count, notify, safe, wants_json
from runtime.cli.session import command, opened, run_argument

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal, RunResult
    from runtime.sandbox.changes import Change

REVIEWED = 500
"""Lines of changes that a review shows."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@run_argument()
@click.option("--force", is_flag=True, help="Take the run's version of what both sides changed.")
def apply(run: str, force: bool) -> None:
    """Bring what a run (default: the newest) changed in its worktree to your folder.

    A file that you changed meanwhile is merged. If that cannot be done, nothing is written.
    """
    fractal = opened()
    _apply(fractal, fractal.find(run), force)


def _apply(fractal: Fractal, run: str, force: bool = False) -> None:
    lines = fractal.apply(run, force=force)
    for text in lines:
        notify(text)
    notify(f"to revert this: {command('undo', run)}" if lines else "nothing to apply")


@click.command()
@run_argument()
@click.option("-y", "--yes", is_flag=True, help="Also if not all of its changes are applied.")
def discard(run: str, yes: bool) -> None:
    """Remove the worktree of a run (default: the newest)."""
    fractal = opened()
    run = fractal.find(run)
    number = fractal.runs([run])[0].to_apply
    if number and not yes and sys.stdin.isatty():
        question = f"Discard the changes of {count(number, 'file')} that are not applied?"
        yes = click.confirm(question, err=True, abort=True)
    fractal.discard(run, force=yes)
    notify(f"discarded the worktree of run {run}")


def offer(fractal: Fractal, result: RunResult, *, review: bool) -> None:
    """Say how the changes of a run in a worktree are applied; a `review` shows them and asks a person."""
    if not result.to_apply:
        return None
    run, asks = result.run, sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if review and asks and not wants_json() and result.status not in ("waiting", "interrupted"):
        print_changes(fractal.diffs(run), most=REVIEWED, err=True)
        notify(f"\napply {count(result.to_apply, 'changed file')} to your folder?", "magenta")
        choices = {"type": click.Choice(["a", "d", ""]), "show_choices": False}
        default = {"default": "", "show_default": False, "prompt_suffix": "\n> "}
        reply = click.prompt("(a: apply, d: discard, Enter: later)", err=True, **choices, **default)
        if reply == "a":
            return _apply(fractal, run)
        if reply == "d":
            fractal.discard(run, force=True)
            return notify(f"discarded the worktree of run {run}")
    also = f"{command('apply', run)} or {command('discard', run)}"
    notify(f"{count(result.to_apply, 'changed file')} to apply; see: {command('diff', run)}; then: {also}")
    return None


def print_changes(
    changed: Sequence[Change], more: Sequence[str] = (), *, most: int = 0, err: bool = False
) -> None:
    """Print a line for each file, then the diffs, and `more` diffs; in colour on a terminal.

    With `most`, only that many lines are printed, and how many are left out.
    """
    lines = [*_lines(changed, more)]
    for text in lines[: most or None]:
        colour = _COLOURS.get(text[:1])
        bold = text.startswith(("--- ", "+++ "))
        click.echo(click.style(text, fg=None if bold else colour, bold=bold or None), err=err)
    if most and len(lines) > most:
        notify(f"… and {len(lines) - most} more lines: {command('diff')}")


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
        yield from safe(text).rstrip("\n").split("\n")
