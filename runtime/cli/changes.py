"""`fractal apply` and `discard`, and the review at the end of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from runtime.cli.diffs import print_changes
from runtime.cli.output import confirm, count, notify
from runtime.cli.session import command, opened, run_argument, say_to_apply

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal, RunResult

REVIEWED = 500
"""Lines of changes that a review shows."""


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
        yes = confirm(question, abort=True)
    fractal.discard(run, force=yes)
    notify(f"discarded the worktree of run {run}")


def review_changes(fractal: Fractal, result: RunResult) -> None:
    """Show what a run that has ended changed in its worktree, and ask what is to become of it."""
    if not result.to_apply or result.status in ("waiting", "interrupted"):
        return
    run = result.run
    print_changes(fractal.diffs(run), most=REVIEWED, err=True)
    notify(f"\napply {count(result.to_apply, 'changed file')} to your folder?", "magenta")
    choices = {"type": click.Choice(["a", "d", ""]), "show_choices": False}
    default = {"default": "", "show_default": False, "prompt_suffix": "\n> "}
    reply = click.prompt("(a: apply, d: discard, Enter: later)", err=True, **choices, **default)
    if reply == "a":
        _apply(fractal, run)
    elif reply == "d":
        fractal.discard(run, force=True)
        notify(f"discarded the worktree of run {run}")
    else:
        say_to_apply(run, result.to_apply)
