"""`fractal forget`: what would go, and, with a yes, the deed."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from kernel.text import amount
from runtime.cli.session import command, json_option, opened, put, tell
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.fractal import Fractal
    from runtime.memory.forgetting.forgetting import Forgot, Preview
    from runtime.memory.forgetting.wanted import Wanted

SHOWN = 20
"""Things that a preview names."""
_ID = re.compile(r"[0-9a-f]{6,64}|(?:system|tool)-[a-z0-9-]+(?:\.\d+)*")
_KINDS = {
    "observation": ("observation", "observations"),
    "memory": ("memory", "memories"),
    "goal": ("goal", "goals"),
    "experience": ("experience", "experiences"),
    "decision": ("decision", "decisions"),
    "neuron-tree": ("solved task", "solved tasks"),
    "edge": ("edge", "edges"),
    "method": ("method", "methods"),
}


@click.command()
@click.argument("words", nargs=-1, metavar="[WORDS… | ID]")
@click.option("--run", metavar="RUN", help="All that a run left in memory.")
@click.option("--before", metavar="DATE", help="All that is older: 2026-11-20, or 30d for 30 days.")
@click.option("--documents", is_flag=True, help="The documents of runs that tell it as well.")
@click.option("-y", "--yes", is_flag=True, help="Do it; without this only show what would go.")
@json_option("Print an object: what goes, what is worded anew, what is left.")
def forget(
    words: tuple[str, ...], run: str | None, before: str | None, documents: bool, yes: bool, as_json: bool
) -> int:
    """Take something out of memory for good, archives of dreams and free pages of the store included.

    WORDS mean everything in which all of them stand (a text in quotes: as it stands); an ID one thing and
    what it rests on. A memory that has other evidence is worded anew from that. The documents of runs stay,
    unless --documents is given.
    """
    from runtime.memory.forgetting.forgetting import Forgetting
    from runtime.remembering.knowledge import waiting

    fractal = opened()
    wanted = _wanted(fractal, " ".join(words), run, before)
    if not (fractal.memory.there or waiting(fractal) or documents):
        tell("nothing is remembered here yet")
        return 0
    forgetting = Forgetting(fractal.brain, fractal.workspace.state)
    if not yes:
        preview = forgetting.look(wanted)
        if not as_json:
            _show(preview, documents)
        nothing = preview.nothing and not (documents and preview.runs)
        if nothing or as_json or not sys.stdin.isatty() or not click.confirm("Forget it?", err=True):
            if as_json:
                put(json.dumps(_told(preview), indent=2, ensure_ascii=False))
            elif not nothing:
                tell("nothing was changed; to do it, add --yes")
            return 0
    done = forgetting.do(wanted, with_documents=documents)
    if as_json:
        told = {**_told(done.preview), "removed": list(done.removed), "left": list(done.left)}
        put(json.dumps({**told, "hindered": done.hindered}, indent=2, ensure_ascii=False))
    else:
        _report(done)
    return 1 if done.hindered or done.at_work else 0


def _wanted(fractal: Fractal, words: str, run: str | None, before: str | None) -> Wanted:
    from runtime.memory.forgetting.wanted import Wanted
    from runtime.remembering.dreaming import moment

    named = run or ""
    if run:
        found = [each for each in fractal.workspace.run_ids() if each.startswith(run)]
        named = found[0] if len(found) == 1 else run
    when = moment(before, fractal.memory.clock()) if before else ""
    if words and _ID.fullmatch(words) and not (named or when):
        one = Wanted(id=words)
        if _is_there(fractal, words):
            return one
    return Wanted(words, run=named, before=when)


def _is_there(fractal: Fractal, id: str) -> bool:
    from runtime.memory.forgetting.wanted import ASKED

    if not fractal.memory.there:
        return False
    shelf = fractal.brain.shelf
    return any(row.id.startswith(id) for kind in ASKED if kind in shelf.kinds() for row in shelf.rows(kind))


def _told(preview: Preview) -> dict[str, Any]:
    return {
        "forgets": [
            {"kind": kind, "id": id, "text": text}
            for (kind, id), text in preview.found.gone.items()
            if kind in _KINDS
        ],
        "rewords": [
            {"id": id, "before": before, "after": after} for id, (before, after) in preview.reworded.items()
        ],
        "files": [str(path) for path in (*preview.files, *preview.strays)],
        "archived": preview.archived,
        "runs": list(preview.runs),
        "elsewhere": [str(path) for path in preview.elsewhere],
        "spaces": list(preview.spaces),
    }


def _show(preview: Preview, documents: bool) -> None:
    for (kind, id), text in list(preview.found.gone.items())[:SHOWN]:
        if kind in _KINDS:
            click.echo(f"- {kind} {id[:12]}: {safe(' '.join(text.split()))[:160]}")
    more = sum(kind in _KINDS for kind, _ in preview.found.gone) - SHOWN
    if more > 0:
        click.echo(f"  and {more} more")
    for id, (before, after) in list(preview.reworded.items())[:SHOWN]:
        click.echo(f"~ memory {id[:12]}: {safe(before)[:120]} → {safe(after)[:120]}")
    for path in (*preview.files, *preview.strays):
        click.echo(f"- file {safe(path.name)}")
    if preview.archived:
        click.echo(f"- {preview.archived} of the lines that dreams archived; no dream brings it back")
    if preview.nothing:
        tell("memory holds nothing of it")
    _documents(preview.runs, goes=documents)
    _elsewhere(preview)


def _documents(runs: Any, *, goes: bool) -> None:
    if not runs:
        return
    named = ", ".join(runs[:10]) + (" …" if len(runs) > 10 else "")
    told = f"the documents of {'run' if len(runs) == 1 else 'runs'} {named}"
    click.echo(f"- {told}" if goes else f"stays: {told} (--documents removes them)")


def _elsewhere(preview: Preview) -> None:
    for path in preview.elsewhere[:10]:
        click.echo(f"stays: {safe(str(path))}, which is not memory's; look at it yourself")
    for name in preview.spaces:
        click.echo(
            f"stays: what the space {safe(name)} remembers; forget it there: FRACTAL_SPACE={safe(name)}"
        )


def _report(done: Forgot) -> None:
    gone = done.preview
    counted = [amount(n, *_KINDS[kind]) for kind, n in gone.counts.items() if kind in _KINDS]
    counted += [f"{amount(len(gone.reworded), 'memory', 'memories')} worded anew"] if gone.reworded else []
    counted += [amount(len(gone.files), "file")] if gone.files else []
    counted += [amount(gone.archived, "archived line")] if gone.archived else []
    counted += [f"the documents of {amount(len(done.removed), 'run')}"] if done.removed else []
    click.echo("forgotten: " + (", ".join(counted) or "nothing; memory held nothing of it"))
    _documents(done.left, goes=False)
    _elsewhere(done.preview)
    for run in done.at_work:
        tell(
            f"run {run} is at work, and its documents stay; cancel it first: {command('cancel', run)}",
            "yellow",
        )
    if done.hindered:
        tell(done.hindered, "yellow")
