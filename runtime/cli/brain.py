"""`fractal brain`: moves, checks and repairs memory, and reports its decisions, methods and problem types."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from kernel import disk
from kernel.errors import FractalError, StorageError, UsageError
from runtime.api import brain_report
from runtime.cli import bench
from runtime.cli.output import (
    OUTCOMES,
    Columns,
    columns,
    count,
    elide,
    emit,
    local,
    notify,
    pad,
    picked,
    print_line,
    print_list,
    print_table,
    put,
    safe,
    wants_json,
    width,
)
from runtime.cli.session import command, json_option, opened, run_argument
from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Fault, Shelf, open_shelf
from runtime.memory.store.files import FilesKeeper
from runtime.memory.store.moving import rows, source, take
from runtime.memory.store.record import Row, to_json
from runtime.memory.store.sqlite import SqliteKeeper, salvage
from runtime.memory.tasks import Refusal, explaining, rewards
from runtime.memory.tasks import decisions as figures
from runtime.memory.tasks.decisions import Decision, Difference, Point
from runtime.memory.tasks.exemplar import exemplar, reporting
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.methods import Listed, Methods
from runtime.memory.tasks.snapshots import Snapshot
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import ProblemType
from runtime.memory.tasks.words import words_of
from runtime.reflexes.procedure import METHODS
from runtime.reflexes.trial import Trial
from runtime.workspace.workspace import brain_exists, brain_place

NEWEST = 10
"""Decisions that a report lists."""
COLUMNS = 80
BENCH = click.option(
    "--run", "bench_run", metavar="ID", help="Of a bench run; `fractal bench ls` lists them."
)
HEIGHT = 12
"""Lines of a plot."""
SHOTS = 5
"""Snapshots that a report shows."""
NAMED = 5
"""Differing records of which a comparison names the ids."""


@click.group()
def brain() -> None:
    """Move, check and repair memory, and see what its decisions led to.

    Memory is in state/memory/ of the workspace, in the store that the setting `store` names.
    """


def memory_folder() -> Path:
    """The folder of memory."""
    return opened().workspace.state / "memory"


def shelf_of_workspace(*, required: bool = True) -> Shelf:
    """The store of this workspace; raises `UsageError` if it is `required` and not there."""
    config, folder = opened().memory.config, memory_folder()  # `memory` raises for a store that needs trust
    if required and not brain_exists(config.store, folder):
        raise UsageError(f"nothing is remembered here yet: there is no {brain_place(config.store, folder)}")
    return open_shelf(config.store, folder, fsync=config.fsync)


def shelf_or_empty() -> AbstractContextManager[Shelf]:
    """The store of this workspace; where nothing is remembered, an empty one that is not kept."""
    return brain_report.shelf_or_empty(opened())


@brain.command("export")
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
    _print_faults(faults)
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
        sys.stdout.writelines(f"{to_json(row, version)}\n" for row in counted())
    elif files or Path(path).is_dir():
        target = Shelf(FilesKeeper(Path(path)))
        with target.transaction():
            for kind in target.kinds() if kinds is None else kinds:
                target.keeper.erase(kind, [row.id for row in target.rows(kind)])
            for row in counted():
                target.keeper.write([row])
            target.keeper.set_version(version)
    else:
        temporary = disk.temporary_path(Path(path))
        with disk.writing_state(Path(path)):
            try:
                with temporary.open("w", encoding="utf-8") as file:
                    file.writelines(f"{to_json(row, version)}\n" for row in counted())
                disk.move(temporary, Path(path))
            finally:
                temporary.unlink(missing_ok=True)
    return counts


def _write_tables(shelf: Shelf, path: str) -> Counter[str]:
    """Write the tables to a file, in the place of an earlier one; returns the rows of each."""
    from runtime.telemetry.tables import write

    temporary = disk.temporary_path(Path(path))
    with disk.writing_state(Path(path)):
        try:
            counts = write(shelf, temporary)
            disk.move(temporary, Path(path))
        finally:
            temporary.unlink(missing_ok=True)
    return Counter(counts)


@brain.command("import")
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
    _print_faults(moved.refused)
    refused = f", {len(moved.refused)} refused" if moved.refused else ""
    print_line(f"{moved.new} new, {moved.changed} changed, {moved.same} unchanged{refused}")
    return 1 if moved.refused else 0


@brain.command("check")
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


@brain.command("rebuild")
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
        path = memory_folder() / "brain.sqlite3"
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
    _print_faults(faults)


def _print_faults(faults: Sequence[Fault]) -> None:
    for fault in faults:
        notify(str(fault), "yellow")


def _say_why_nothing() -> None:
    runs = [each for each in opened().runs() if each.type != "dream"]
    if runs:
        free = sum(not each.spent.get("calls") for each in runs)
        notify(
            f"{count(len(runs), 'run')}, {free} of them without a model; memory decided none of them. "
            "It keeps accepted tasks that a model solved; it takes no part in what shipped code does"
        )
    else:
        notify(
            "no decisions here yet. Each task that a run solves is remembered; similar tasks are then done "
            f"without a model, and shown here.\nTo begin: {command('run', '…')}"
        )


def _room() -> int:
    return min(columns(COLUMNS), 110)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


@brain.command("report")
@click.option(
    "-n", "--last", type=click.IntRange(min=0), default=NEWEST, show_default=True, metavar="N", help="List N."
)
@BENCH
@json_option("Print the figures as an object.")
def report(last: int, bench_run: str | None) -> None:
    """Report how tasks were answered, how often correctly, and how many model calls that saved."""
    benched = bench.enter(bench_run) if bench_run else None
    found = brain_report.report_of(opened(), benched.runs if benched else None)
    totals, decisions, taken = found.totals, found.decisions, found.snapshots
    newest = decisions[: -last - 1 : -1] if last else []
    shots = [each.model_dump(exclude={"id", "text", "vectors"}) for each in taken]
    of_bench = {"bench": benched.figures} if benched else {}
    emit({**totals, **of_bench, "snapshots": shots, "last": _objects(newest)})
    if benched:
        bench.print_figures(benched.figures)
        print_line("")
    if decisions or totals["mechanisms"]:
        _print_report(totals, newest, taken)
    else:
        _say_why_nothing()


def _objects(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json", exclude={"vectors"}) for each in decisions]


def _print_report(totals: Mapping[str, Any], newest: Sequence[Decision], taken: Sequence[Snapshot]) -> None:
    known = totals["right"] + totals["wrong"]
    for text in (
        f"{count(totals['decisions'], 'decision')}: {_percent(totals['answered'])} answered without a model; "
        f"{_percent(totals['right_of_answered'])} of what memory answered was right",
        f"{totals['calls_saved']} model calls saved, {totals['calls']} made; "
        f"outcome known for {known}: {totals['right']} right, {totals['wrong']} wrong",
    ):
        print_line(textwrap.fill(text, _room()))
    _print_groups("ANSWERED BY", totals["paths"])
    if set(totals["types"]) - {""}:
        with shelf_or_empty() as shelf:
            _print_groups("PROBLEM TYPE", brain_report.named(shelf, totals["types"]))
    trees = totals["trees"]
    quarantined = trees["quarantined"]
    stored = count(trees["count"], "solved task")
    print_line(f"\n{stored} stored, {len(quarantined) or 'none'} in quarantine")
    for each in quarantined:
        counts = f"{each['correct']:g} right, {each['incorrect']:g} wrong"
        print_line(f"  {each['id'][:8]}  {counts}  {elide(each['task'], _room() - 14 - len(counts))}")
    if quarantined:
        print_line(f"  to use one again: {command('brain', 'release', quarantined[0]['id'][:8])}")
    _print_mechanisms(totals["mechanisms"])
    _print_snapshots(taken[-SHOTS:])
    if newest:
        print_line("\nNewest first; why: " + command("brain", "explain", newest[0].run or "RUN"))
    for each in newest:
        mark, colour = OUTCOMES[each.outcome]
        head = f"{pad(each.path, 9)}  {pad(each.run or '–', 6)}  {pad(local(each.at) or '–', 12)}"
        text = elide(each.text, max(_room() - width(head) - 6, 20))
        click.echo(f"{click.style(mark, fg=colour)} {safe(head)}  {text}")


def _print_mechanisms(found: Mapping[str, Mapping[str, Any]]) -> None:
    print_line("\nMECHANISM")
    for name, counts in found.items():
        values = ", ".join(f"{word} {value}" for word, value in counts.items())
        put(textwrap.fill(f"{pad(name, 14)}  {values}", _room(), subsequent_indent=" " * 16))


def _print_snapshots(taken: Sequence[Snapshot]) -> None:
    if not taken:
        return
    shown: Columns = {
        "PROBLEMS": "n",
        "ANSWERED": lambda each: _percent(each.answered),
        "RIGHT": lambda each: _percent(each.right),
        "CALLS": "calls",
        **{name.upper(): partial(_size, name) for name in ("trees", "types", "methods", "memories")},
    }
    print_line("")
    print_table(shown, taken, right=range(len(shown)))


def _size(name: str, snapshot: Snapshot) -> str:
    return str(snapshot.sizes.get(name, 0))


def _print_groups(head: str, groups: Mapping[str, Mapping[str, int]]) -> None:
    if not groups:
        return
    shown: Columns = {
        head: lambda row: elide(row["name"] or "(none)", 28),
        "TIMES": "decisions",
        "RIGHT": "right",
        "WRONG": "wrong",
        "UNKNOWN": "unknown",
        "CALLS SAVED": "calls_saved",
    }
    print_line("")
    print_table(shown, [{"name": name, **each} for name, each in groups.items()], right=range(1, 6))


@brain.command("explain")
@run_argument()
@BENCH
@json_option("Print a list of the decisions.")
def explain(run: str, bench_run: str | None) -> None:
    """Explain each decision of a run (default: the newest): what was asked, what was near, and why.

    Where memory did not answer, it says how the nearest solved task differs, and what would be answered.
    With `--run`, RUN is a problem of the bench run (default: the last one).
    """
    if bench_run:
        problem = bench.enter(bench_run).problem(run)
        run = problem["run"]
        judged = "right" if problem["right"] else f"wrong, expected {elide(problem['expected'], 60)}"
        answer = elide(problem["answer"] or "no answer", 60)
        notify(f"problem {problem['problem']}, run {run}: {answer}; {judged}")
    with shelf_or_empty() as shelf:
        name = _run(run, shelf)
        decisions = sorted(shelf.scan(Decision, {"run": name}), key=lambda d: (d.at, d.id))
        texts = [_explained(shelf, each) for each in decisions] if not wants_json() else []
    emit(_objects(decisions))
    if not decisions:
        notify(_why_no_decision(name) if name else "no runs here yet")
    else:
        put("\n\n".join(map(_wrapped, texts)))


def _explained(shelf: Shelf, decision: Decision) -> str:
    tree = tree_by(shelf, decision.tree)
    near = None if decision.replayed else explaining.nearest(shelf, decision)
    not_kept = "" if decision.replayed or decision.tree else _why_not_kept(decision)
    known = explaining.example_of(shelf, decision.type)
    return explaining.explain(decision, tree, type=known, near=near, not_kept=not_kept)


def _why_not_kept(decision: Decision) -> str:
    """Why the solution of a task that a model was asked is not kept; "" if that is not known."""
    try:
        documents = {each.meta.id: each for each in opened().documents(decision.run)}
    except (FractalError, OSError):  # an archived run
        return ""
    document = documents.get(decision.id.rpartition("/")[0])
    lesson = exemplar(document, reporting(tuple(opened().systems))) if document else None
    return lesson.why if isinstance(lesson, Refusal) else ""


def _why_no_decision(run: str) -> str:
    """Why memory took no part in a run."""
    if not opened().config.recall:
        why = "the setting recall is off"
    elif not opened().config.remember:
        why = "the setting remember is off"
    else:
        why = "it takes no part in what shipped code does, nor in a run that has not ended"
    return f"memory decided nothing in run {run}: {why}"


def _run(name: str, shelf: Shelf) -> str:
    """The run with that name; an archived one is known by its decisions."""
    try:
        return opened().find(name)
    except UsageError:
        if name and not any(each.run == name for each in shelf.scan(Decision)):
            raise
        return name


def _wrapped(text: str) -> str:
    lines: list[str] = []
    for each in safe(text).splitlines():
        lines += textwrap.wrap(each, _room(), subsequent_indent=" " * 14, break_on_hyphens=False) or [""]
    return "\n".join(lines)


@brain.command("curve")
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Decisions averaged together.")
@BENCH
@json_option("Print a list of points: n, answered, right.")
def curve(window: int | None, bench_run: str | None) -> None:
    """Plot over time the share answered without a model, and the share of memory's answers that was right.

    Of a bench run, the share of all its answers that was right.
    """
    if bench_run:
        _bench_curve(bench.read(bench_run).done, window)
        return
    with shelf_or_empty() as shelf:
        decisions = figures.in_order(shelf)
    points = figures.curve(decisions, window)
    emit(points)
    if not points:
        _say_why_nothing()
        return
    put("\n".join(plot(points, _room())))
    last = points[-1]
    size = min(window or max(figures.WINDOWS, len(points) // figures.WINDOWS), len(points))
    put(
        f"over the last {size} of {len(points)}: {_percent(last.answered)} without a model, "
        f"{_percent(last.right)} of memory's answers right"
    )


def _bench_curve(done: Sequence[Mapping[str, Any]], window: int | None) -> None:
    from runtime.benchmarks.log import shares

    size = min(window or max(figures.WINDOWS, len(done) // figures.WINDOWS), len(done))
    parts = (shares(done[max(end - size, 0) : end]) for end in range(1, len(done) + 1))
    points = [Point(n, each["without_model"], each["accuracy"]) for n, each in enumerate(parts, 1)]
    emit(points)
    if not points:
        notify("this bench run has done no problem yet")
        return
    put("\n".join(plot(points, _room(), "right, of all answers", "problem")))
    last = points[-1]
    put(
        f"over the last {size} of {len(points)}: {_percent(last.answered)} without a model, "
        f"{_percent(last.right)} right"
    )


def plot(
    points: Sequence[Point],
    room: int = COLUMNS,
    right: str = "right, of memory's answers",
    of: str = "decision",
) -> list[str]:
    """The curve as text: `*` answered without a model, `o` right, `@` both."""
    cells = max(min(room - 7, len(points)), 1)
    sampled = [points[round(at * (len(points) - 1) / max(cells - 1, 1))] for at in range(cells)]
    rows = [[" "] * cells for _ in range(HEIGHT + 1)]
    for at, point in enumerate(sampled):
        for share, mark in ((point.answered, "*"), (point.right, "o")):
            if share is not None:
                row = rows[HEIGHT - round(share * HEIGHT)]
                row[at] = mark if row[at] in (" ", mark) else "@"
    lines = [f"* answered without a model   o {right}   @ both"]
    for number, row in enumerate(rows):
        level = 100 * (HEIGHT - number) / HEIGHT
        scale = f"{level:3.0f} %" if number % 3 == 0 else "     "
        lines.append(f"{scale} |{''.join(row)}".rstrip())
    last = f"{of} {len(points)}"
    return [*lines, f"      +{'-' * cells}", f"       1{last.rjust(max(cells - 1, len(last) + 1))}"]


FIGURES: Sequence[tuple[str, Callable[[Mapping[str, Any]], str]]] = (
    ("decisions", lambda t: str(t["decisions"])),
    ("answered without a model", lambda t: _percent(t["answered"])),
    ("right of memory's answers", lambda t: _percent(t["right_of_answered"])),
    ("model calls made", lambda t: str(t["calls"])),
    ("model calls saved", lambda t: str(t["calls_saved"])),
    ("mean surprise", lambda t: _percent(t["surprise"])),
    ("solved tasks stored", lambda t: str(t["trees"]["count"])),
    ("of them in quarantine", lambda t: str(len(t["trees"]["quarantined"]))),
)


@brain.command("compare")
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
        totals = [figures.report(figures.in_order(each), each.scan(NeuronTree)) for each in (one, two)]
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
                text = elide(f"{kind.kind}, {word}: {', '.join(ids[:NAMED])}", _room() - len(more) - 2)
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
        _print_faults(loaded.refused[:NAMED])
        if len(loaded.refused) > NAMED:
            notify(f"… and {len(loaded.refused) - NAMED} more that cannot be read", "yellow")
        if loaded.refused and not loaded.new:
            raise UsageError(f"{path}: not a memory; write one with `fractal brain export`")
        yield shelf


@brain.command("release")
@click.argument("tree")
def release(tree: str) -> None:
    """Take a solved task out of quarantine: TREE is the beginning of its id, as `report` shows it."""
    with shelf_or_empty() as shelf:
        trees = [each for each in shelf.scan(NeuronTree) if each.id.startswith(tree)]
        if len(trees) != 1:
            raise UsageError(f"{len(trees) or 'no'} solved tasks have an id beginning with {tree}")
        if not trees[0].ledger.quarantined:
            notify(f"{trees[0].id[:8]} is not in quarantine")
            return
        rewards.release(shelf, trees[0].id)
    notify(f"{trees[0].id[:8]} is used again; two more failures would quarantine it again")


@brain.command("methods")
@click.argument("action", type=click.Choice(["list", "show", "on", "off"]), default="list")
@click.argument("name", required=False)
@json_option("Print the list as objects; of one method an object, for `show` with its source tasks and text.")
def methods(action: str, name: str | None) -> None:
    """List the learned methods: procedures that five or more solved tasks have in common.

    `show NAME` prints the file of a method, `off NAME` switches it off, `on NAME` switches it on again and
    restores a deleted file. The files are in state/memory/methods/, in the format of the reflexes. You can
    read, correct or delete them.
    """
    if (action == "list") != (name is None):
        raise click.UsageError("give an action and the NAME of a method: show, on or off")
    with _methods() as store:
        if name is None:
            listed = store.listed()
        elif action == "show":
            listed = [each for each in store.listed() if each.name == name]
        else:
            listed = [store.switch(name, action == "on")]
    if name is None:
        emit([_entry(each) for each in listed])
    elif not listed:
        raise UsageError(f"there is no method {name}; list them: fractal brain methods")
    elif action == "show":
        path = listed[0].file
        text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
        emit({**_entry(listed[0]), "trees": listed[0].trees, "text": text})
        _print_methods(listed)
        print_line(f"\n{path}\n\n{text}" if text else f"\n{path} was deleted")
        return
    else:
        emit(_entry(listed[0]))
    _print_methods(listed)


@contextmanager
def _methods() -> Iterator[Methods]:
    """The methods of this workspace."""
    folder = memory_folder() / METHODS
    systems = tuple(opened().systems)
    with closing(shelf_of_workspace(required=False)) if folder.is_dir() else shelf_or_empty() as shelf:
        yield Methods(shelf, Lexical(), words_of(systems), folder, Trial(systems))


def _entry(method: Listed) -> dict[str, Any]:
    names = ("name", "kind", "stage", "uses", "right", "status", "edited", "note")
    return picked(method, *names) | {"file": str(method.file)}


def _print_methods(methods: Sequence[Listed]) -> None:
    shown: Columns = {
        "NAME": "name",
        "KIND": "kind",
        "STAGE": "stage",
        "USES": "uses",
        "RIGHT": lambda each: f"{each.right:g}",
        "STATUS": lambda each: f"{each.status}, edited" if each.edited else each.status,
        "FILE": lambda each: "" if each.status == "deleted" else f"state/memory/methods/{each.file.name}",
    }
    if not methods:
        print_line("no methods learned yet; five tasks that were solved in the same way make one")
        return
    print_table(shown, methods)
    for method in methods:
        if method.note:
            print_line(f"{method.name}: {method.note}")


@brain.command("substrates")
@click.option("--all", "archived", is_flag=True, help="Include archived ones.")
@BENCH
@json_option("Print a list of objects: id, label, origin, members, uses, scope, temperature, used.")
def substrates(archived: bool, bench_run: str | None) -> None:
    """List the learned problem types, most used first."""
    benched = bench.enter(bench_run) if bench_run else None
    with shelf_or_empty() as shelf:
        types = [each for each in shelf.scan(ProblemType) if archived or each.origin != "archived"]
        if benched:
            met = {each.type for each in figures.in_order(shelf, benched.runs)}
            types = [each for each in types if each.id in met]
        examples = {each.id: explaining.example_of(shelf, each.id) for each in types}
    types.sort(key=lambda each: (-each.uses, -each.members, each.id))
    names = ("id", "label", "origin", "members", "uses", "scope", "temperature", "created", "updated", "used")
    emit(
        [
            picked(each, *names) | {"scope": round(each.scope, 4), "temperature": round(each.temperature, 4)}
            for each in types
        ]
    )
    shown: Columns = {
        "NAME": lambda each: elide(each.label, 32),
        "EXAMPLE": lambda each: elide(found.task if (found := examples[each.id]) else "", 40),
        "ORIGIN": "origin",
        "MEMBERS": "members",
        "USES": "uses",
        "SCOPE": lambda each: f"{each.scope:.2f}",
        "TEMPERATURE": lambda each: f"{each.temperature:.2f}",
        "LAST USE": lambda each: each.used or "never",
    }
    print_list(types, shown, "no problem types learned here yet")


@brain.command("checkpoint")
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
