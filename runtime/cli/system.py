"""`fractal system log`, `diff`, `rollback`, `propose`, `adopt` and `drop`: the history of `system/`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from runtime.cli.adopting import adopt, drop, propose
from runtime.cli.session import command, json_option, opened, put, tell
from runtime.cli.words import elide, local, safe, table

if TYPE_CHECKING:
    from runtime.building.journal import Entry, Journal
    from runtime.fractal import Fractal


@click.group()
def system() -> None:
    """Show, take back and adopt changes of the system: tools, phase files, pattern.md."""


def _opened() -> Fractal:
    """A Fractal whose journal knows what a person has changed."""
    fractal = opened()
    fractal.workshop.open()
    return fractal


@system.command()
@click.argument("unit", required=False)
@click.option("-n", "limit", type=click.IntRange(1), default=50, show_default=True, help="The last so many.")
@json_option("Print a list of objects.")
def log(unit: str | None, limit: int, as_json: bool) -> None:
    """List what changed, newest first: by whom, in which run, why."""
    from runtime.building.history import of_unit

    journal = _opened().workshop.journal
    entries = journal.entries()
    chosen = (of_unit(entries, unit) if unit else entries)[::-1][:limit]
    if as_json:
        put(json.dumps([each.as_dict() for each in chosen], indent=2))
        return
    if not chosen:
        tell("nothing has changed: there is no system/ of this workspace's own")
        return
    rows = [["ENTRY", "WHEN", "WHAT", "UNIT", "BY", "LINES", "WHY"]]
    rows += [_row(journal, entry) for entry in chosen]
    lines = table(rows, right=(0,))
    click.echo(click.style(lines[0], dim=True))
    for text in lines[1:]:
        click.echo(text)


def _row(journal: Journal, entry: Entry) -> list[str]:
    unit = safe(entry.unit or f"{len(entry.files)} files")
    by = safe(f"{entry.author}, {entry.step}" if entry.step else entry.author)
    when, why = local(entry.time), elide(entry.reason, 60)
    return [str(entry.id), when, entry.kind, unit, by, _lines(journal, entry), why]


def _lines(journal: Journal, entry: Entry) -> str:
    from runtime.building.history import counts, diff

    if not entry.unit or not entry.files:
        return ""
    more, fewer = counts(diff(journal, entry))
    return f"+{more} −{fewer}"


@system.command("diff")
@click.argument("what", required=False, metavar="[ENTRY|UNIT|PROPOSAL]")
@json_option("Print a list of objects, each with its diff.")
def diff_(what: str | None, as_json: bool) -> None:
    """Show what an entry changed, all that changed in a unit, such as web, or what a proposal would change.

    Without any of them: what proposals, and drafts of runs that were not accepted, would change.
    """
    from runtime.building.history import diff, entry_of, of_unit

    fractal = _opened()
    journal = fractal.workshop.journal
    if what is None or any(each.id == what for each in fractal.workshop.proposals.open()):
        _open_ones(fractal, as_json, what or "")
        return
    entries = journal.entries()
    chosen = [entry_of(entries, int(what))] if what.isdecimal() else of_unit(entries, what)
    told = [(entry, diff(journal, entry)) for entry in chosen]
    if as_json:
        put(json.dumps([entry.as_dict() | {"diff": text} for entry, text in told], indent=2))
        return
    for entry, text in told:
        if len(told) > 1:
            head = f"# {entry.id} {entry.kind} {entry.unit} by {entry.author}, {local(entry.time)}"
            click.echo(click.style(safe(head), dim=True))
        if text:
            put(text)


def _open_ones(fractal: Fractal, as_json: bool, proposal: str) -> None:
    """What is not active: each proposal's and each draft's difference from what is, or that of one."""
    from runtime.building.contents import read
    from runtime.building.history import compared

    workshop = fractal.workshop
    open_ones = [(each.id, each.unit, each.reason, each.files) for each in workshop.proposals.open()]
    open_ones += [(f"draft of {run}", unit, "", files) for run, unit, files in workshop.drafted()]
    told: list[dict[str, str]] = []
    for name, unit, reason, files in (each for each in open_ones if proposal in ("", each[0])):
        texts: list[str] = []
        for path, file in sorted(files.items()):
            places = (folder / path for folder in fractal.systems)
            texts.append(compared(path, next((found for p in places if (found := read(p))), None), file))
        told.append({"name": name, "unit": unit, "reason": reason, "diff": "\n".join(filter(None, texts))})
    if as_json:
        put(json.dumps(told, indent=2))
        return
    if not told:
        tell("there are no proposals, and no drafts")
    for each in told:
        click.echo(click.style(safe(f"# {each['name']} {each['unit']} {each['reason']}".rstrip()), dim=True))
        if each["diff"]:
            put(each["diff"])


@system.command()
@click.argument("entry", type=int)
@click.option("--force", is_flag=True, help="Also where later entries changed the same files.")
@json_option("Print the new entry as an object.")
def rollback(entry: int, force: bool, as_json: bool) -> None:
    """Put back what stood before an entry; this is an entry itself, and can be taken back."""
    from runtime.building.history import rollback as roll_back

    made = roll_back(_opened().workshop.journal, entry, force=force)
    if as_json:
        put(json.dumps(made.as_dict(), indent=2))
    back = command("system", "rollback", str(made.id))
    tell(f"{made.unit}: as it was before entry {entry} (entry {made.id}; back: {back})")


for _command in (propose, adopt, drop):
    system.add_command(_command)
