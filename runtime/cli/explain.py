"""`fractal explain`: prints the reasons that `reasons` finds in a run's documents."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from runtime.cli.session import columns, json_option, opened, put, run_argument
from runtime.cli.words import safe, width

if TYPE_CHECKING:
    from kernel.document import Document
    from runtime.cli.reasons import Reason


@click.command()
@run_argument(required=False)
@click.argument("step", required=False)
@json_option("Print a list of objects: question, answer, loop, file, section.")
def explain(run: str, step: str | None, as_json: bool) -> None:
    """Say why a run, one of its documents, or one step (2, or 1.2 in a child) went as it did.

    Each answer names the file and section where it stands; nothing but the documents is read.
    """
    fractal = opened()
    documents = fractal.documents(run)
    start = fractal.document(run)
    found = _of_step(documents, start, step) if step else _of_loops(documents, start)
    if as_json:
        put(json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False))
        return
    loop, room = "", columns()
    for each in found:
        if not step and each.loop != loop and len({one.loop for one in found}) > 1:
            click.echo(click.style(f"{chr(10) * bool(loop)}— {each.loop} —", fg="cyan"))
            loop = each.loop
        click.echo(click.style(each.question, bold=True))
        for text in safe(each.answer).splitlines():
            click.echo("\n".join(_wrapped(text, room)))
        click.echo(click.style(f"  ← {each.source}", dim=True))


def _wrapped(text: str, room: int) -> list[str]:
    """A line of an answer, indented, broken between words where it does not fit."""
    if width(text) + 2 <= room:
        return [f"  {text}"]
    return textwrap.wrap(text, room, initial_indent="  ", subsequent_indent="  ")


def _of_loops(documents: list[Document], start: Document) -> list[Reason]:
    """The reasons of a document and, below a root, of every loop that was guided."""
    from runtime.cli.reasons import reasons

    loops = [start]
    if not start.meta.parent:
        loops += [each for each in documents if each.meta.parent and not each.meta.operation]
    return [reason for loop in loops for reason in reasons(documents, loop.meta.id)]


def _of_step(documents: list[Document], start: Document, step: str) -> list[Reason]:
    from kernel.errors import UsageError
    from runtime.cli.reasons import reasons

    *path, last = step.split(".")
    loop = start
    try:
        for n in path:
            link = loop.steps[int(n)].link.removesuffix(".md")
            loop = next(each for each in documents if each.meta.id == link)
        return reasons(documents, loop.meta.id, int(last))
    except (KeyError, ValueError, StopIteration):
        steps = ", ".join(map(str, sorted({**loop.planned, **loop.steps}))) or "none"
        raise UsageError(f"{loop.meta.id} has no step {step}; its steps: {steps}") from None
