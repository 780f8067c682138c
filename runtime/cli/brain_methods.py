"""`fractal brain methods`: what was learned from several solved tasks, shown and switched."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import json_option, opened, put
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.memory.procedural.methods import Listed, Methods


@click.group("methods", invoke_without_command=True)
@json_option("Print a list of objects: name, kind, stage, uses, right, status, file, edited, note.")
@click.pass_context
def methods(context: click.Context, as_json: bool) -> None:
    """List the methods that were learned: procedures that five or more solved tasks have in common.

    Each is a markdown file in state/memory/methods/, in the format of the reflexes: read it, correct it,
    switch it off, or delete it.
    """
    if context.invoked_subcommand is not None:
        return
    with _methods() as known:
        listed = known.listed() if known else []
    if as_json:
        put(json.dumps([_plain(each) for each in listed], indent=2, ensure_ascii=False))
    elif not listed:
        click.echo("no method was learned yet; one is born of five tasks that were solved in the same way")
    else:
        _table(listed)


@methods.command("show")
@click.argument("name")
@json_option("Print an object: what the list says of it, the tasks it was born of, and the text of its file.")
def show(name: str, as_json: bool) -> None:
    """Show the method NAME: what is known of it, and its file."""
    with _methods() as known:
        each = _one(known, name)
        text = each.file.read_text("utf-8", errors="replace") if each.file.is_file() else ""
    if as_json:
        put(json.dumps({**_plain(each), "trees": each.trees, "text": text}, indent=2, ensure_ascii=False))
        return
    _table([each])
    click.echo(safe(f"\n{each.file}\n\n{text}" if text else f"\n{each.file} was deleted"))


@methods.command("off")
@click.argument("name")
@json_option("Print what the list says of it now.")
def off(name: str, as_json: bool) -> None:
    """Switch the method NAME off, in its file."""
    _switched(name, False, as_json)


@methods.command("on")
@click.argument("name")
@json_option("Print what the list says of it now.")
def on(name: str, as_json: bool) -> None:
    """Switch the method NAME on again; a file that was deleted comes back."""
    _switched(name, True, as_json)


def _switched(name: str, on: bool, as_json: bool) -> None:
    from kernel.errors import UsageError

    with _methods() as known:
        if known is None:
            raise UsageError(f"there is no method {name}; to see them: fractal brain methods")
        each = known.switch(name, on)
    if as_json:
        put(json.dumps(_plain(each), indent=2, ensure_ascii=False))
    else:
        _table([each])


@contextmanager
def _methods() -> Generator[Methods | None]:
    """The methods of this workspace; None where nothing is remembered."""
    from runtime.cli.brain import memory_folder, shelf_of_workspace
    from runtime.embedding.lexical import Lexical
    from runtime.memory.procedural.methods import Methods
    from runtime.memory.procedural.words import words_of
    from runtime.places import brain_place
    from runtime.responders.reflexes.procedure import METHODS
    from runtime.responders.reflexes.trial import Trial

    fractal = opened()
    folder = memory_folder()
    if not brain_place(fractal.config.store, folder).exists() and not (folder / METHODS).is_dir():
        yield None
        return
    systems = tuple(fractal.systems)
    with closing(shelf_of_workspace(must_be=False)) as shelf:
        yield Methods(shelf, Lexical(), words_of(systems), folder / METHODS, Trial(systems))


def _one(known: Methods | None, name: str) -> Listed:
    from kernel.errors import UsageError

    found = next((each for each in known.listed() if each.name == name), None) if known else None
    if found is None:
        raise UsageError(f"there is no method {name}; to see them: fractal brain methods")
    return found


def _plain(each: Listed) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": each.kind,
        "stage": each.stage,
        "uses": each.uses,
        "right": each.right,
        "status": each.status,
        "file": str(each.file),
        "edited": each.edited,
        "note": each.note,
    }


def _table(listed: list[Listed]) -> None:
    head = ("NAME", "KIND", "STAGE", "USES", "RIGHT", "STATUS", "FILE")
    rows = [head] + [
        (e.name, e.kind, e.stage, str(e.uses), f"{e.right:g}", _status(e), _file(e)) for e in listed
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head) - 1)]
    for row in rows:
        told = [text.ljust(width) for text, width in zip(row[:-1], widths, strict=True)]
        click.echo(safe("  ".join([*told, row[-1]]).rstrip()))
    for each in listed:
        if each.note:
            click.echo(safe(f"{each.name}: {each.note}"))


def _status(each: Listed) -> str:
    return f"{each.status}, edited" if each.edited else each.status


def _file(each: Listed) -> str:
    return f"state/memory/methods/{each.file.name}" if each.status != "deleted" else ""
