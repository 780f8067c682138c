"""`fractal brain compare`: two memories, or bench runs, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from kernel.errors import UsageError
from runtime.cli import bench
from runtime.cli.brain_figures import percent, text_width
from runtime.cli.brain_store import print_faults
from runtime.cli.output import Columns, elide, emit, notify, print_line, print_table
from runtime.cli.session import json_option
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.store.moving import source, take
from runtime.memory.store.sqlite import SqliteKeeper
from runtime.memory.tasks import decisions as figures
from runtime.memory.tasks.decisions import Difference
from runtime.memory.tasks.trees import NeuronTree

NAMED = 5
"""Differing records of which a comparison names the ids."""


FIGURES: Sequence[tuple[str, Callable[[Mapping[str, Any]], object]]] = (
    ("decisions", lambda t: t["decisions"]),
    ("answered without a model", lambda t: percent(t["answered"])),
    ("right of memory's answers", lambda t: percent(t["right_of_answered"])),
    ("model calls made", lambda t: t["calls"]),
    ("model calls saved", lambda t: t["calls_saved"]),
    ("mean surprise", lambda t: percent(t["surprise"])),
    ("solved tasks stored", lambda t: t["trees"]["count"]),
    ("of them in quarantine", lambda t: len(t["trees"]["quarantined"])),
)


@click.command("compare")
@click.argument("first", metavar="A", required=False, type=click.Path(exists=True, path_type=Path))
@click.argument("second", metavar="B", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--runs", metavar="ID,ID", help="Compare bench runs instead; `fractal bench ls` lists them.")
@json_option("Print an object: kinds, first, second; of bench runs a list of their figures.")
def compare(first: Path | None, second: Path | None, runs: str | None) -> None:
    """Compare two memories: which records differ, and the outcome of the decisions of each.

    A and B are each an export (JSON lines, or a folder of files), a store (brain.sqlite3, or its folder), or
    a workspace.
    """
    if runs and not first:
        _compare_bench_runs([bench.read(id.strip()).figures for id in runs.split(",")])
        return
    if runs or first is None or second is None:
        raise click.UsageError("give two memories, A and B, or bench runs with --runs ID,ID")
    with _source(first) as one, _source(second) as two:
        kinds = figures.differences(one, two)
        totals = [_totals(each) for each in (one, two)]
    emit({"kinds": kinds, "first": totals[0], "second": totals[1]})
    print_line(f"A  {first}\nB  {second}\n")
    if not kinds:
        print_line("both are empty")
        return
    _print_differences(kinds)
    print_line("")
    shown: Columns = {
        "FIGURES": lambda row: row[0],
        "A": lambda row: row[1](totals[0]),
        "B": lambda row: row[1](totals[1]),
    }
    print_table(shown, FIGURES, right=(1, 2))


def _totals(shelf: Shelf) -> dict[str, Any]:
    """The figures of a memory, whose runs need not be there: only what it decided on is counted."""
    decisions = figures.in_order(shelf)
    return figures.report(decisions, shelf.scan(NeuronTree), [figures.met(each) for each in decisions])


def _compare_bench_runs(found: Sequence[Mapping[str, Any]]) -> None:
    emit(found)
    shown = {"ID": "bench", "MODEL": lambda each: elide(each["model"] or "", 30), **bench.SHOWN}
    print_table(shown, found, right=range(2, len(shown)))
    names = dict.fromkeys(name for each in found for name in each["families"])
    if len(names) > 1:
        ids = [each["bench"] for each in found]
        rows = [(name, *(each["families"].get(name) for each in found)) for name in names]
        cells: Columns = {"RIGHT, BY FAMILY": lambda row: row[0] or "(none)"}
        cells |= {id: partial(_accuracy, at) for at, id in enumerate(ids, 1)}
        print_line("")
        print_table(cells, rows, right=range(1, len(cells)))


def _accuracy(at: int, row: Sequence[Any]) -> str:
    return f"{row[at]['accuracy']:.1%} of {row[at]['problems']}" if row[at] else "–"


def _print_differences(kinds: Sequence[Difference]) -> None:
    shown: Columns = {
        "RECORDS": "kind",
        "A": "first",
        "B": "second",
        "SAME": "same",
        "DIFFER": lambda kind: len(kind.changed),
        "ONLY A": lambda kind: len(kind.only_first),
        "ONLY B": lambda kind: len(kind.only_second),
    }
    print_table(shown, kinds, right=range(1, 7))
    for kind in kinds:
        ids_by_word = {"differ": kind.changed, "only A": kind.only_first, "only B": kind.only_second}
        for word, ids in ids_by_word.items():
            if ids:
                more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
                text = elide(f"{kind.kind}, {word}: {', '.join(ids[:NAMED])}", text_width() - len(more) - 2)
                print_line(f"  {text}{more}")


@contextmanager
def _source(path: Path) -> Iterator[Shelf]:
    """A read-only store of a database, or of the records of an export."""
    folders = (path / ".fractal" / "state" / "memory", path / "state" / "memory", path)
    places = (folder / name for folder in folders for name in ("brain.sqlite3", "brain"))
    store = next((place for place in places if place.exists()), path)
    if store.is_dir() and any(each for folder in folders for each in folder.glob("postgres-*")):
        raise UsageError(f"{path}: its memory is in PostgreSQL; write it with `fractal brain export FILE`")
    if store.is_file() and store.open("rb").read(15) == b"SQLite format 3":
        with closing(Shelf(SqliteKeeper(store, fsync=False))) as shelf:
            yield shelf
        return
    with closing(open_shelf("memory", Path())) as shelf:
        loaded = take(shelf, source(store))
        print_faults(loaded.refused[:NAMED])
        if len(loaded.refused) > NAMED:
            notify(f"… and {len(loaded.refused) - NAMED} more that cannot be read", "yellow")
        if loaded.refused and not loaded.new:
            raise UsageError(f"{path}: not a memory; write one with `fractal brain export`")
        yield shelf
