"""`fractal brain export`, `import`, `check`, `rebuild`, `checkpoint`: the records of memory as a whole."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click

from kernel import disk
from kernel.errors import StorageError, UsageError
from runtime.cli.output import (
    Columns,
    count,
    emit,
    local,
    notify,
    picked,
    print_line,
    print_list,
    put,
    wants_json,
)
from runtime.cli.session import command, json_option, opened
from runtime.memory.store import Fault, Shelf, open_shelf
from runtime.memory.store.files import FilesKeeper
from runtime.memory.store.moving import rows, source, take
from runtime.memory.store.record import Row, to_json
from runtime.memory.store.sqlite import salvage
from runtime.secrets.redaction import redact_values
from runtime.workspace.workspace import brain_place


def shelf_of_workspace(*, required: bool = True) -> Shelf:
    """The store of this workspace; raises `UsageError` if it is `required` and not there."""
    memory = opened().memory
    if required and not memory.there:
        raise UsageError(
            f"nothing is remembered here yet: there is no {brain_place(memory.config.store, memory.folder)}"
        )
    return open_shelf(memory.config.store, memory.folder, fsync=memory.config.fsync)


@click.command("export")
@click.argument("path", default="-", type=click.Path(allow_dash=True))
@click.option("--files", is_flag=True, help="Write a folder of JSON files, one per record.")
@click.option("--sqlite", is_flag=True, help="Write tables for analysis instead; see docs/telemetry.md.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only records of this kind; may be repeated."
)
@json_option("Print how many records of each kind were written.")
def export(path: str, files: bool, sqlite: bool, kinds: Sequence[str]) -> int:
    """Write all records to PATH as JSON lines; without PATH, to standard output.

    The folder of an earlier export is updated. Records that cannot be read are reported, with exit code 1.
    """
    if path == "-" and (files or sqlite or wants_json()):
        raise UsageError("--files, --sqlite and --json need a PATH")
    if sqlite and (files or kinds):
        raise UsageError("--sqlite writes three tables into one file; leave out --files and --kind")
    with closing(shelf_of_workspace()) as shelf:
        counts = _write_tables(shelf, path) if sqlite else _write(shelf, path, files, list(kinds) or None)
        faults = list(shelf.faults.values())
    emit({"records": counts, "faults": faults}, 1 if faults else 0)
    print_faults(faults)
    if path != "-":
        notify(f"wrote {count(counts.total(), 'row' if sqlite else 'record')} to {path}")
    return 1 if faults else 0


def _write(shelf: Shelf, path: str, files: bool, kinds: list[str] | None) -> Counter[str]:
    """Write the records; returns how many of each kind were written."""
    counts: Counter[str] = Counter()
    version = shelf.keeper.version()

    def counted() -> Iterator[Row]:
        for row in rows(shelf, kinds):
            counts[row.kind] += 1
            yield row

    if path == "-":
        for row in counted():
            put(to_json(row, version))
    elif files or Path(path).is_dir():
        target = Shelf(FilesKeeper(Path(path)))
        with target.transaction():
            for kind in target.kinds() if kinds is None else kinds:
                target.keeper.erase(kind, [row.id for row in target.rows(kind)])
            for row in counted():
                target.keeper.write([row])
            target.keeper.set_version(version)
    else:
        with _replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
            # memory has no secret of a form since it was stored; a number in Base64 could look like one
            file.writelines(f"{redact_values(to_json(row, version))}\n" for row in counted())
    return counts


def _write_tables(shelf: Shelf, path: str) -> Counter[str]:
    """Write the tables for analysis; returns the rows of each."""
    from runtime.telemetry.tables import write

    with _replacing(Path(path)) as temporary:
        return Counter(write(shelf, temporary))


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A place for a new file, which then takes the place of an earlier one. Raises `StorageError`."""
    temporary = disk.temporary_path(path)
    with disk.writing_state(path):
        try:
            yield temporary
            disk.move(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@click.command("import")
@click.argument("path", type=click.Path(exists=True, allow_dash=True))
@json_option("Print an object: new, changed, same, refused.")
def import_(path: str) -> int:
    """Import the records of PATH: JSON lines, or a folder written by `export --files`.

    A record replaces the one with the same kind and id. Importing twice changes nothing. Refused records are
    reported, with exit code 1; the others are imported.
    """
    piped = ((f"line {number}", text) for number, text in enumerate(sys.stdin.buffer, 1) if text.strip())
    items = piped if path == "-" else source(Path(path))
    with closing(shelf_of_workspace(required=False)) as shelf:
        moved = take(shelf, items)
    emit(moved, 1 if moved.refused else 0)
    print_faults(moved.refused)
    refused = f", {len(moved.refused)} refused" if moved.refused else ""
    print_line(f"{moved.new} new, {moved.changed} changed, {moved.same} unchanged{refused}")
    return 1 if moved.refused else 0


@click.command("check")
@json_option("Print an object: records by kind, faults.")
def check() -> int:
    """Check every record and index; the exit code is 1 if something is wrong."""
    counts: Mapping[str, int] = {}
    with closing(shelf_of_workspace()) as shelf:
        faults = shelf.check()
        try:
            counts = dict(shelf.kinds())
        except StorageError:
            if not faults:
                raise
    emit({"place": shelf.keeper.place, "records": counts, "faults": faults}, 1 if faults else 0)
    _print_records(shelf.keeper.place, counts, faults)
    if faults:
        notify(f"to set broken records aside and rebuild the indexes: {command('brain', 'rebuild')}")
    return 1 if faults else 0


@click.command("rebuild")
@json_option("Print an object: records by kind, what was set aside.")
def rebuild() -> None:
    """Rebuild every index from the records, and experiences from the documents of runs.

    Run this while no run is active. Unreadable records are set aside; from a damaged database, whatever can
    be read is saved to a new one.
    """
    before: list[Fault] = []
    try:
        shelf = shelf_of_workspace(required=not opened().workspace.run_ids())
    except StorageError as error:
        path = opened().memory.folder / "brain.sqlite3"
        if not any(each in str(error) for each in ("not a database", "malformed", "is empty (0 bytes)")):
            raise
        before = salvage(path)
        shelf = shelf_of_workspace()
    with closing(shelf):
        aside = before + shelf.rebuild()
        if opened().config.remember:
            with closing(opened().brain) as brain:
                brain.episodes.rebuild()
        counts = dict(shelf.kinds())
    emit({"place": shelf.keeper.place, "records": counts, "put_aside": aside})
    _print_records(shelf.keeper.place, counts, aside)


def _print_records(where: str, counts: Mapping[str, int], faults: Sequence[Fault]) -> None:
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    print_line(f"{where}: {listed or 'empty'}")
    print_faults(faults)


def print_faults(faults: Sequence[Fault]) -> None:
    """Say what cannot be read."""
    for fault in faults:
        notify(str(fault), "yellow")


@click.command("checkpoint")
@click.argument("action", type=click.Choice(["make", "ls", "restore"]), default="make")
@click.argument("name", required=False)
@json_option("Print the checkpoint, the list, or what a restore changed, as objects.")
def checkpoint(action: str, name: str | None) -> None:
    """Copy memory to state/checkpoints/; list the copies (`ls`); go back to one (`restore NAME`).

    A copy of the present state is made before a restore. The settings `checkpoints` and `checkpoint_hours`
    say how many are kept, and how often `fractal serve` makes one.
    """
    from runtime.api import checkpointing

    if (action == "restore") != (name is not None):
        raise click.UsageError("a NAME is for restore; `fractal brain checkpoint ls` lists them")
    fields = ("name", "at", "why", "records")
    if action == "ls":
        made = checkpointing.listed(opened())
        emit([picked(each, *fields) for each in made])
        shown: Columns = {
            "NAME": "name",
            "MADE": lambda each: local(each.at),
            "WHY": "why",
            "RECORDS": lambda each: sum(each.records.values()),
        }
        print_list(made, shown, f"no checkpoints yet; make one: {command('brain', 'checkpoint')}", right=(3,))
    elif name is None:
        one = checkpointing.make(opened(), "on demand")
        emit(picked(one, *fields))
        print_line(f"{one.name}: {count(sum(one.records.values()), 'record')}")
    else:
        before, moved, removed = checkpointing.restore(opened(), name)
        emit({**picked(moved, "new", "changed", "same"), "removed": removed, "before": before.name})
        print_line(f"{moved.new} new, {moved.changed} changed, {moved.same} unchanged, {removed} removed")
        notify(f"to go back: {command('brain', 'checkpoint', 'restore', before.name)}")
