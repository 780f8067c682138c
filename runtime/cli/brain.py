"""`fractal brain`: what is remembered, moved, checked and mended."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime.cli import brain_methods, brain_report, brain_types
from runtime.cli.session import json_option, opened, put, tell
from runtime.cli.words import safe

if TYPE_CHECKING:
    from runtime.store import Fault, Shelf
    from runtime.store.shelf import Keeper


@click.group()
def brain() -> None:
    """Move, check and mend what is remembered, and see what came of it.

    It lies in state/memory/ of the workspace, in the store that the setting `store` names.
    """


for _each in (*brain_report.COMMANDS, *brain_types.COMMANDS, brain_methods.methods):
    brain.add_command(_each)


def memory_folder() -> Path:
    """Where memory lies."""
    return opened().workspace.state / "memory"


def shelf_of_workspace(*, must_be: bool = True) -> Shelf:
    """The shelf of this workspace; unless it may be made, it must be there."""
    from kernel.errors import UsageError
    from runtime.places import brain_place
    from runtime.store import open_shelf

    fractal = opened()
    folder = fractal.workspace.state / "memory"
    where = brain_place(fractal.config.store, folder)
    if must_be and not where.exists():
        raise UsageError(f"nothing is remembered here yet: there is no {where}")
    return open_shelf(fractal.config.store, folder, fsync=fractal.config.fsync)


@brain.command("export")
@click.argument("path", default="-", type=click.Path(allow_dash=True))
@click.option("--files", is_flag=True, help="Write a folder of JSON files, one a record.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only records of this kind; may be repeated."
)
@json_option("Print how many records of each kind were written.")
def export(path: str, files: bool, kinds: Sequence[str], as_json: bool) -> int:
    """Write every record to PATH as JSON lines, one a line; without PATH to standard output.

    A folder of an earlier export becomes as the store is now. What cannot be read is told, and the exit code
    is 1.
    """
    from kernel.errors import UsageError

    if path == "-" and (files or as_json):
        raise UsageError("a PATH is needed with --files and with --json")
    with closing(shelf_of_workspace()) as shelf:
        wanted = list(kinds) or None
        if path == "-":
            from runtime.store.moving import lines

            for each in lines(shelf, wanted):
                sys.stdout.write(each)
            counts: dict[str, int] = {}
        else:
            counts = _written(shelf, Path(path), files, wanted)
        faults = list(shelf.faults.values())
    if as_json:
        put(json.dumps({"records": counts, "faults": _plain(faults)}, indent=2))
    else:
        _tell_faults(faults)
        if path != "-":
            tell(f"{sum(counts.values())} records are in {path}")
    return 1 if faults else 0


def _written(shelf: Shelf, path: Path, files: bool, kinds: list[str] | None) -> dict[str, int]:
    from collections import Counter

    from kernel import disk
    from kernel.errors import StorageError
    from runtime.store.moving import rows
    from runtime.store.record import to_json

    counts: Counter[str] = Counter()
    if files or path.is_dir():
        from runtime.store.files import FilesKeeper

        keeper = FilesKeeper(path)
        there = {kind: set(_ids(keeper, kind)) for kind in keeper.kinds() if not kinds or kind in kinds}
        keeper.begin()
        try:
            for row in rows(shelf, kinds):
                keeper.write([row])
                counts[row.kind] += 1
                there.get(row.kind, set()).discard(row.id)
            for kind, gone in there.items():
                keeper.erase(kind, sorted(gone))
            keeper.commit()
        except BaseException:
            keeper.rollback()
            raise
        return dict(counts)
    temporary = disk.beside(path)
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for row in rows(shelf, kinds):
                file.write(to_json(row) + "\n")
                counts[row.kind] += 1
        disk.move(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(
            f"{path}: cannot be written: {error.strerror}; mend that, then try again"
        ) from error
    return dict(counts)


def _ids(keeper: Keeper, kind: str) -> Iterator[str]:
    from runtime.store import Shelf

    yield from (row.id for row in Shelf(keeper).rows(kind))


@brain.command("import")
@click.argument("path", type=click.Path(exists=True, allow_dash=True))
@json_option("Print an object: new, changed, same, refused.")
def import_(path: str, as_json: bool) -> int:
    """Take in the records of PATH: JSON lines, or a folder of files as `export --files` writes it.

    A record takes the place of the one with its kind and id. To import the same twice changes nothing. What
    is refused is told, the rest goes in, and the exit code is 1.
    """
    from runtime.store.moving import source, take

    items = (
        ((f"line {number}", line) for number, line in enumerate(sys.stdin.buffer, 1) if line.strip())
        if path == "-"
        else source(Path(path))
    )
    with closing(shelf_of_workspace(must_be=False)) as shelf:
        moved = take(shelf, items)
    if as_json:
        told = {"new": moved.new, "changed": moved.changed, "same": moved.same}
        put(json.dumps({**told, "refused": _plain(moved.refused)}, indent=2))
    else:
        _tell_faults(moved.refused)
        refused = f", {len(moved.refused)} refused" if moved.refused else ""
        click.echo(f"{moved.new} new, {moved.changed} changed, {moved.same} as they were{refused}")
    return 1 if moved.refused else 0


@brain.command("check")
@json_option("Print an object: records by kind, faults.")
def check(as_json: bool) -> int:
    """Look at every record and every index; the exit code is 1 when something is wrong."""
    with closing(shelf_of_workspace()) as shelf:
        faults = shelf.check()
        counts = _counts(shelf, faults)
        where = shelf.keeper.place
    if as_json:
        put(json.dumps({"place": where, "records": counts, "faults": _plain(faults)}, indent=2))
    else:
        _tell_counts(where, counts)
        _tell_faults(faults)
        if faults:
            tell("to put aside what is broken and make the indexes anew: fractal brain rebuild")
    return 1 if faults else 0


@brain.command("rebuild")
@json_option("Print an object: records by kind, what was put aside.")
def rebuild(as_json: bool) -> int:
    """Make every index anew from the records, and experiences from the documents of runs.

    Do it while no run is at work. What cannot be read is put aside; when a database is damaged, what can be
    read of it is saved into a new one.
    """
    from kernel.errors import StorageError

    before: list[Fault] = []
    try:
        shelf = shelf_of_workspace(must_be=not opened().workspace.run_ids())
    except StorageError as error:
        path = memory_folder() / "brain.sqlite3"
        if not any(each in str(error) for each in ("not a database", "malformed", "is empty (0 bytes)")):
            raise
        from runtime.store.salvage import salvage

        before = salvage(path)
        shelf = shelf_of_workspace()
    with closing(shelf):
        aside = before + shelf.rebuild()
        where = shelf.keeper.place
        if opened().config.remember:
            with closing(opened().brain) as brain:
                brain.episodes.rebuild()
        counts = dict(shelf.kinds())
    if as_json:
        put(json.dumps({"place": where, "records": counts, "put_aside": _plain(aside)}, indent=2))
    else:
        _tell_counts(where, counts)
        _tell_faults(aside)
    return 0


def _counts(shelf: Shelf, faults: Sequence[Fault]) -> dict[str, int]:
    from kernel.errors import StorageError

    try:
        return dict(shelf.kinds())
    except StorageError:
        if not faults:
            raise
        return {}


def _plain(faults: Sequence[Fault]) -> list[dict[str, str]]:
    return [{"where": each.where, "what": each.what} for each in faults]


def _tell_counts(where: str, counts: dict[str, int]) -> None:
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    click.echo(safe(f"{where}: {told or 'empty'}"))


def _tell_faults(faults: Sequence[Fault]) -> None:
    for each in faults:
        tell(str(each), "yellow")
