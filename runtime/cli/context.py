"""`fractal context TASK`: what a run of that task would be shown of memory, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from runtime.cli.session import json_option, opened, put, tell
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.memory.context import Context, Part


@click.command()
@click.argument("task", nargs=-1, required=True)
@click.option(
    "--room", type=click.IntRange(min=0), metavar="N", help="Tokens; half of the top level's context."
)
@json_option("Print an object: each part with its share, room, lines and their sources.")
def context(task: tuple[str, ...], room: int | None, as_json: bool) -> None:
    """Show what a run of TASK would be shown of memory: each line, where it came from, and why.

    Of the room, 40 % is for files and facts that the task needs, 25 % for learned patterns (500 tokens at
    most), 20 % for solved tasks like it, 15 % for what others do now; what a part leaves goes to the next.
    """
    from runtime.memory.context import Context, room_for

    fractal = opened()
    level = fractal.config.bounds().context(0)
    given = room_for(level, 0) if room is None else room
    memory = fractal.memory
    words = " ".join(task)
    found = memory.context(words, given, fractal.workspace.folder) if memory.taught else Context(given)
    if as_json:
        put(json.dumps({"task": words, "level": level, **found.as_dict()}, indent=2, ensure_ascii=False))
        return
    if not found.notes():
        tell("memory has nothing for that task: a run would be shown the folder alone")
        return
    for line in _lines(found, level):
        click.echo(line)


def _lines(found: Context, level: int) -> list[str]:
    lines = [f"{found.tokens} of {found.room} tokens, in a level of {level}"]
    for part in found.parts:
        lines += ["", _head(part)]
        for line, text in part.shown:
            lines += [safe(each) for each in text.splitlines()]
            lines += [safe(f"    why: {line.why}")] if line.why else []
        lines += [f"  ({len(part.left)} more had no room)"] if part.left else []
    return lines


def _head(part: Part) -> str:
    from runtime.memory.context import NAMES

    used = f"{part.tokens} of {part.room} tokens" if part.shown else "nothing"
    return f"{NAMES[part.name]}: {used} ({part.share:.0%})"
