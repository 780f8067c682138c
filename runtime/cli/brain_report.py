"""`fractal brain report`, `explain`, `curve` and `compare`: what memory decided, and what came of it."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.cli.session import command, json_option, opened, put, run_argument, tell
from runtime.cli.words import elide, local, pad, safe, table, width

if TYPE_CHECKING:
    from runtime.memory.procedural.decisions import Decision
    from runtime.memory.procedural.figures import Difference, Point
    from runtime.store import Shelf

NEWEST = 10
"""Decisions that a report lists."""
COLUMNS = 80
HEIGHT = 12
"""Lines of a plot."""
NAMED = 5
"""Records that differ of which a comparison names the ids."""
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", None)}


def _nothing(what: str = "decided") -> None:
    runs = [each for each in opened().runs() if each.type != "dream"]
    if runs:
        free = sum(not each.spent.get("calls") for each in runs)
        tell(
            f"{_many(len(runs), 'run')}, {free} of them without a model; memory decided none of them: it "
            "keeps what a model solved and CHECK accepted, and has no part in what shipped code does"
        )
        return
    tell(
        f"nothing was {what} here yet. Each task that a run solves is remembered; its like is then done "
        "without a model, and shown here.\n"
        f"To begin: {command('run', '…')}"
    )


@contextmanager
def shelf_or_none() -> Iterator[Shelf | None]:
    """The store of this workspace; None where there is none as yet."""
    from runtime.cli.brain import shelf_of_workspace
    from runtime.places import brain_place

    fractal = opened()
    if not brain_place(fractal.config.store, fractal.workspace.state / "memory").exists():
        yield None
        return
    with closing(shelf_of_workspace()) as shelf:
        yield shelf


def _room() -> int:
    return min(shutil.get_terminal_size((COLUMNS, 24)).columns, 110) if sys.stdout.isatty() else COLUMNS


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


# ---- report ----------------------------------------------------------------------------------------------


@click.command("report")
@click.option(
    "-n", "--last", type=click.IntRange(min=0), default=NEWEST, show_default=True, metavar="N", help="List N."
)
@json_option("Print the figures as an object.")
def report(last: int, as_json: bool) -> None:
    """Say how tasks were met: by what, how often rightly, and how many model calls that saved."""
    from runtime.memory.procedural import figures
    from runtime.memory.procedural.trees import NeuronTree

    with shelf_or_none() as shelf:
        decisions = figures.in_order(shelf) if shelf else []
        told = figures.report(decisions, shelf.scan(NeuronTree) if shelf else [])
    newest = decisions[: -last - 1 : -1] if last else []
    if as_json:
        shown = [each.model_dump(mode="json", exclude={"vectors"}) for each in newest]
        put(json.dumps({**told, "last": shown}, indent=2, ensure_ascii=False))
    elif not decisions and not told["trees"]["count"]:
        _nothing()
    else:
        for text in _report(told, newest):
            click.echo(text)


def _report(told: Mapping[str, Any], newest: Sequence[Decision]) -> list[str]:
    count, known = told["decisions"], told["right"] + told["wrong"]
    lines = [
        f"{_many(count, 'decision')}: {_percent(told['answered'])} answered without a model; "
        f"{_percent(told['right_of_answered'])} of what memory answered was right",
        f"{told['calls_saved']} model calls saved, {told['calls']} made; "
        f"what came of {known} is known: {told['right']} right, {told['wrong']} wrong",
    ]
    lines = [part for each in lines for part in textwrap.wrap(each, _room())]
    if told["paths"]:
        lines += ["", *_counts("MET BY", told["paths"])]
    if set(told["types"]) - {""}:
        lines += ["", *_counts("PROBLEM TYPE", {name or "(none)": v for name, v in told["types"].items()})]
    trees = told["trees"]
    shut = trees["quarantined"]
    lines += ["", f"{_many(trees['count'], 'solved task')} stored, {len(shut) or 'none'} in quarantine"]
    for each in shut:
        counts = f"{each['correct']:g} right, {each['incorrect']:g} wrong"
        lines.append(f"  {each['id'][:8]}  {counts}  {elide(each['task'], _room() - 14 - len(counts))}")
    if shut:
        lines.append(f"  to use one again: {command('brain', 'release', shut[0]['id'][:8])}")
    if newest:
        lines += ["", "Newest first; why: " + command("brain", "explain", newest[0].run or "RUN")]
        lines += [_line(each) for each in newest]
    return lines


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _counts(head: str, groups: Mapping[str, Mapping[str, int]]) -> list[str]:
    names = ("decisions", "right", "wrong", "unknown", "calls_saved")
    rows = [[head, "TIMES", "RIGHT", "WRONG", "UNKNOWN", "CALLS SAVED"]]
    rows += [[elide(name, 28), *(str(each[key]) for key in names)] for name, each in groups.items()]
    return table(rows, right=(1, 2, 3, 4, 5))


def _line(decision: Decision) -> str:
    mark, colour = _MARKS[decision.outcome]
    head = f"{pad(decision.path, 9)}  {pad(decision.run or '–', 6)}  {pad(local(decision.at) or '–', 12)}"
    text = elide(decision.text, max(_room() - width(head) - 6, 20))
    return f"{click.style(mark, fg=colour)} {safe(head)}  {text}"


# ---- explain ---------------------------------------------------------------------------------------------


@click.command("explain")
@run_argument(required=False)
@json_option("Print a list of the decisions.")
def explain(run: str, as_json: bool) -> None:
    """Say for each decision of a run what was asked, what was near, and why it was replayed or not."""
    from runtime.memory.procedural.decisions import Decision
    from runtime.memory.procedural.decisions import explain as told
    from runtime.memory.procedural.merging import tree_by

    with shelf_or_none() as shelf:
        name = _run(run, shelf)
        found = sorted(shelf.scan(Decision, {"run": name}), key=lambda d: (d.at, d.id)) if shelf else []
        trees = [tree_by(shelf, each.tree) if shelf else None for each in found]
    if as_json:
        put(json.dumps([each.model_dump(mode="json", exclude={"vectors"}) for each in found], indent=2))
        return
    if not found:
        tell(f"memory decided nothing in run {name}" if name else "there is no run here yet")
        return
    blocks = [_wrapped(told(each, tree)) for each, tree in zip(found, trees, strict=True)]
    put("\n\n".join(blocks))


def _run(name: str, shelf: Shelf | None) -> str:
    """The run that is meant; one that was archived is known by its decisions."""
    from kernel.errors import UsageError
    from runtime.memory.procedural.decisions import Decision

    try:
        return opened().find(name)
    except UsageError:
        known = {each.run for each in shelf.scan(Decision)} if shelf and name else set[str]()
        if name in known:
            return name
        if name:
            raise
        return ""


def _wrapped(text: str) -> str:
    lines: list[str] = []
    for each in safe(text).splitlines():
        lines += textwrap.wrap(each, _room(), subsequent_indent=" " * 14, break_on_hyphens=False) or [""]
    return "\n".join(lines)


# ---- curve -----------------------------------------------------------------------------------------------


@click.command("curve")
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Decisions looked at together.")
@click.option(
    "--png",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw it into FILE as well.",
)
@json_option("Print a list of points: n, answered, right.")
def curve(window: int | None, png: Path | None, as_json: bool) -> None:
    """Plot how much was answered without a model over time, and how much of memory's answers was right."""
    from runtime.memory.procedural import figures

    with shelf_or_none() as shelf:
        decisions = figures.in_order(shelf) if shelf else []
    points = figures.curve(decisions, window)
    if png and points:
        _draw(points, png)
    if as_json:
        put(json.dumps([asdict(each) for each in points], indent=2))
    elif not points:
        _nothing()
    else:
        size = window or max(figures.WINDOWS, len(points) // figures.WINDOWS)
        put("\n".join(plot(points, _room())))
        last = points[-1]
        put(
            f"over the last {min(size, len(points))} of {len(points)}: {_percent(last.answered)} without a "
            f"model, {_percent(last.right)} of memory's answers right"
        )
    if png and points:
        tell(f"drawn into {png}")


def plot(points: Sequence[Point], room: int = COLUMNS) -> list[str]:
    """The curve in plain characters: `*` answered without a model, `o` right of those, `@` both."""
    cells = max(min(room - 7, len(points)), 1)
    shown = [points[round(at * (len(points) - 1) / max(cells - 1, 1))] for at in range(cells)]
    stretch = max((room - 7) // cells, 1) if cells < 12 else 1
    rows = [[" "] * (cells * stretch) for _ in range(HEIGHT + 1)]
    for at, each in enumerate(shown):
        for share, mark in ((each.answered, "*"), (each.right, "o")):
            if share is None:
                continue
            row = rows[HEIGHT - round(share * HEIGHT)]
            row[at * stretch] = mark if row[at * stretch] in (" ", mark) else "@"
    lines = ["* answered without a model   o right, of memory's answers   @ both"]
    for number, row in enumerate(rows):
        level = 100 * (HEIGHT - number) / HEIGHT
        scale = f"{level:3.0f} %" if number % 3 == 0 else "     "
        lines.append(f"{scale} |{''.join(row)}".rstrip())
    lines.append(f"      +{'-' * (cells * stretch)}")
    first, last = "1", f"decision {len(points)}"
    lines.append(f"       {first}{last.rjust(max(cells * stretch - len(first), len(last) + 1))}")
    return lines


def _draw(points: Sequence[Point], path: Path) -> None:
    from runtime import plotting

    figure = plotting.figure(8, 4, "--png")
    axes = figure.add_subplot()
    numbers = [each.n for each in points]
    axes.plot(numbers, [each.answered for each in points], label="answered without a model")
    right = [float("nan") if each.right is None else each.right for each in points]
    axes.plot(numbers, right, label="right, of memory's answers")
    axes.set(xlabel="decision", ylabel="share", ylim=(-0.02, 1.02))
    axes.legend(loc="lower right")
    plotting.save(figure, path)


# ---- compare ---------------------------------------------------------------------------------------------


@click.command("compare")
@click.argument("first", metavar="A", type=click.Path(exists=True, path_type=Path))
@click.argument("second", metavar="B", type=click.Path(exists=True, path_type=Path))
@json_option("Print an object: kinds, first, second.")
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two memories: which records differ, and what came of the decisions of each.

    A and B are each an export (JSON lines, or a folder of files), a store (brain.sqlite3, or its folder), or
    a workspace.
    """
    from runtime.memory.procedural import figures
    from runtime.memory.procedural.trees import NeuronTree

    with _source(first) as one, _source(second) as two:
        kinds = figures.differences(one, two)
        told = [figures.report(figures.in_order(each), each.scan(NeuronTree)) for each in (one, two)]
    if as_json:
        shown = [asdict(each) for each in kinds]
        put(json.dumps({"kinds": shown, "first": told[0], "second": told[1]}, indent=2, ensure_ascii=False))
        return
    put("\n".join(_compared(first, second, kinds, told)))


def _compared(
    first: Path, second: Path, kinds: Sequence[Difference], told: Sequence[Mapping[str, Any]]
) -> list[str]:
    lines = [safe(f"A  {first}"), safe(f"B  {second}"), ""]
    if not kinds:
        return [*lines, "both are empty"]
    rows = [["RECORDS", "A", "B", "SAME", "DIFFER", "ONLY A", "ONLY B"]]
    for each in kinds:
        gone = [str(len(part)) for part in (each.changed, each.only_first, each.only_second)]
        rows.append([each.kind, str(each.first), str(each.second), str(each.same), *gone])
    lines += table(rows, right=(1, 2, 3, 4, 5, 6))
    for each in kinds:
        for word, ids in (
            ("differ", each.changed),
            ("only A", each.only_first),
            ("only B", each.only_second),
        ):
            if ids:
                more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
                told_ids = elide(f"{each.kind}, {word}: {', '.join(ids[:NAMED])}", _room() - len(more) - 2)
                lines.append(f"  {told_ids}{more}")
    figures = (
        ("decisions", lambda t: str(t["decisions"])),
        ("answered without a model", lambda t: _percent(t["answered"])),
        ("right of memory's answers", lambda t: _percent(t["right_of_answered"])),
        ("model calls made", lambda t: str(t["calls"])),
        ("model calls saved", lambda t: str(t["calls_saved"])),
        ("mean surprise", lambda t: _percent(t["surprise"])),
        ("solved tasks stored", lambda t: str(t["trees"]["count"])),
        ("of them in quarantine", lambda t: str(len(t["trees"]["quarantined"]))),
    )
    rows = [["FIGURES", "A", "B"], *([name, *(value(each) for each in told)] for name, value in figures)]
    return [*lines, "", *table(rows, right=(1, 2))]


@contextmanager
def _source(path: Path) -> Iterator[Shelf]:
    """A shelf over a store, or over what an export holds; nothing is changed in either."""
    from kernel.errors import UsageError
    from runtime.store import open_shelf
    from runtime.store.moving import source, take

    store = _store(path)
    if store.is_file() and _is_sqlite(store):
        from runtime.store.shelf import Shelf
        from runtime.store.sqlite import SqliteKeeper

        with closing(Shelf(SqliteKeeper(store, fsync=False))) as shelf:
            yield shelf
        return
    with closing(open_shelf("memory", Path())) as shelf:
        taken = take(shelf, source(store))
        refused = taken.refused
        for each in refused[:NAMED]:
            tell(str(each), "yellow")
        if len(refused) > NAMED:
            tell(f"… and {len(refused) - NAMED} more that cannot be read", "yellow")
        if refused and not taken.new:
            raise UsageError(f"{path}: there is no memory in it; `fractal brain export` writes one")
        yield shelf


def _store(path: Path) -> Path:
    """What holds the records, of a folder that may be a workspace, a state/memory, or an export."""
    for folder in (path / ".fractal" / "state" / "memory", path / "state" / "memory", path):
        for name in ("brain.sqlite3", "brain"):
            if (folder / name).exists():
                return folder / name
    return path


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


# ---- release ---------------------------------------------------------------------------------------------


@click.command("release")
@click.argument("tree")
def release(tree: str) -> None:
    """Take a solved task out of quarantine: TREE is the beginning of its id, as `report` shows it."""
    from kernel.errors import UsageError
    from runtime.memory.procedural import rewards
    from runtime.memory.procedural.trees import NeuronTree

    with shelf_or_none() as shelf:
        found = [each for each in shelf.scan(NeuronTree) if each.id.startswith(tree)] if shelf else []
        if len(found) != 1:
            raise UsageError(f"{len(found) or 'no'} solved tasks have an id that begins with {tree}")
        assert shelf
        if not found[0].ledger.quarantined:
            tell(f"{found[0].id[:8]} is not in quarantine")
            return
        rewards.release(shelf, found[0].id)
    tell(f"{found[0].id[:8]} is used again; two more failures would put it back")


COMMANDS = (report, explain, curve, compare, release)
