"""`fractal brain report`, `curve`, `explain`: what memory decided, how often correctly, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from kernel.errors import FractalError, UsageError
from runtime.api import brain_report
from runtime.api.brain_report import shelf_or_empty
from runtime.cli import bench
from runtime.cli.output import (
    OUTCOMES,
    Columns,
    columns,
    count,
    echo,
    elide,
    emit,
    local,
    notify,
    pad,
    print_line,
    print_table,
    put,
    safe,
    wants_json,
    width,
)
from runtime.cli.session import command, json_option, opened, run_argument
from runtime.memory.store import Shelf
from runtime.memory.tasks import Refusal, explaining
from runtime.memory.tasks import decisions as figures
from runtime.memory.tasks.decisions import Decision, Point
from runtime.memory.tasks.exemplar import exemplar, reporting
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.snapshots import Snapshot

NEWEST = 10
"""Decisions that a report lists."""
COLUMNS = 80
HEIGHT = 12
"""Lines of a plot."""
SHOTS = 5
"""Snapshots that a report shows."""


def _say_why_nothing() -> None:
    runs = [each for each in opened().runs() if each.type not in ("dream", "tool call")]
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


def text_width() -> int:
    """The columns of a report."""
    return min(columns(COLUMNS), 110)


def percent(share: float | None) -> str:
    """A share as text."""
    return "–" if share is None else f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


@click.command("report")
@click.option(
    "-n", "--last", type=click.IntRange(min=0), default=NEWEST, show_default=True, metavar="N", help="List N."
)
@bench.run_option
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
        _print_report(totals, newest, () if benched else taken)  # the table of the bench run has them
    else:
        _say_why_nothing()


def _objects(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json", exclude={"vectors"}) for each in decisions]


def _print_report(totals: Mapping[str, Any], newest: Sequence[Decision], taken: Sequence[Snapshot]) -> None:
    known = totals["right"] + totals["wrong"]
    for text in (
        f"{count(totals['decisions'], 'decision')}{_beside(totals)}: "
        f"{percent(totals['answered'])} answered without a model; "
        f"{percent(totals['right_of_answered'])} of what memory answered was right",
        f"{totals['calls_saved']} model calls saved, {totals['calls']} made; "
        f"outcome known for {known}: {totals['right']} right, {totals['wrong']} wrong",
    ):
        print_line(textwrap.fill(text, text_width()))
    _print_groups("ANSWERED BY", totals["paths"])
    if set(totals["types"]) - {""}:
        with shelf_or_empty(opened()) as shelf:
            _print_groups("PROBLEM TYPE", brain_report.named(shelf, totals["types"]))
    trees = totals["trees"]
    quarantined = trees["quarantined"]
    stored = count(trees["count"], "solved task")
    print_line(f"\n{stored} stored, {len(quarantined) or 'none'} in quarantine")
    for each in quarantined:
        counts = f"{each['correct']:g} right, {each['incorrect']:g} wrong"
        print_line(f"  {each['id'][:8]}  {counts}  {elide(each['task'], text_width() - 14 - len(counts))}")
    if quarantined:
        print_line(f"  to use one again: {command('brain', 'release', quarantined[0]['id'][:8])}")
    _print_mechanisms(totals["mechanisms"])
    _print_snapshots(taken[-SHOTS:])
    if newest:
        print_line("\nNewest first; why: " + command("brain", "explain", newest[0].run or "RUN"))
    for each in newest:
        mark, colour = OUTCOMES[each.outcome]
        head = f"{pad(each.path, 9)}  {pad(each.run or '–', 6)}  {pad(local(each.at) or '–', 12)}"
        text = elide(each.text, max(text_width() - width(head) - 6, 20))
        echo(f"{click.style(mark, fg=colour)} {safe(head)}  {text}", styled=True)


def _beside(totals: Mapping[str, Any]) -> str:
    return f" and {count(totals['other_tasks'], 'other task')}" if totals["other_tasks"] else ""


def _print_mechanisms(found: Mapping[str, Mapping[str, Any]]) -> None:
    print_line("\nMECHANISM")
    for name, counts in found.items():
        values = ", ".join(f"{word} {value}" for word, value in counts.items())
        put(textwrap.fill(f"{pad(name, 14)}  {values}", text_width(), subsequent_indent=" " * 16))


def _print_snapshots(taken: Sequence[Snapshot]) -> None:
    if not taken:
        return
    shown: Columns = {
        "PROBLEMS": "n",
        "BY MEMORY": lambda each: percent(each.answered),
        "RIGHT": lambda each: percent(each.right),
        "CALLS": "calls",
        **{name.upper(): partial(_size, name) for name in ("trees", "types", "methods", "memories")},
    }
    print_line("")
    print_table(shown, taken, right=range(len(shown)))


def _size(name: str, snapshot: Snapshot) -> str:
    return str(snapshot.sizes.get(name, 0))


def _print_groups(head: str, groups: Mapping[str, Mapping[str, Any]]) -> None:
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


@click.command("explain")
@run_argument()
@bench.run_option
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
    with shelf_or_empty(opened()) as shelf:
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
        lines += textwrap.wrap(each, text_width(), subsequent_indent=" " * 14, break_on_hyphens=False) or [""]
    return "\n".join(lines)


@click.command("curve")
@click.option("--window", type=click.IntRange(min=1), metavar="N", help="Decisions averaged together.")
@bench.run_option
@json_option("Print a list of points: n, answered, right.")
def curve(window: int | None, bench_run: str | None) -> None:
    """Plot over time the share answered without a model, and the share of memory's answers that was right.

    A point is a task, as `fractal brain report` counts them: waiting, failed and unanswered ones too.

    Of a bench run, the share of all its answers that was right.
    """
    if bench_run:
        from runtime.benchmarks.log import shares

        done = bench.read(bench_run).done
        parts = [shares(each) for each in figures.windows(done, window)]
        points = [Point(n, each["without_model"], each["accuracy"]) for n, each in enumerate(parts, 1)]
        answers, of = "all answers", "problem"
    else:
        with shelf_or_empty(opened()) as shelf:
            decisions = figures.in_order(shelf)
        points = figures.curve(brain_report.tasks_of(opened(), decisions), window)
        answers, of = "memory's answers", "task"
    emit(points)
    if points:
        put("\n".join(plot(points, text_width(), answers, of)))
        last, size = points[-1], figures.window_of(len(points), window)
        put(
            f"over the last {size} of {len(points)}: {percent(last.answered)} without a model, "
            f"{percent(last.right)} of {answers} right"
        )
    elif bench_run:
        notify("this bench run has done no problem yet")
    else:
        _say_why_nothing()


def plot(
    points: Sequence[Point],
    room: int = COLUMNS,
    answers: str = "memory's answers",
    of: str = "task",
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
    lines = [f"* answered without a model   o right, of {answers}   @ both"]
    for number, row in enumerate(rows):
        level = 100 * (HEIGHT - number) / HEIGHT
        scale = f"{level:3.0f} %" if number % 3 == 0 else "     "
        lines.append(f"{scale} |{''.join(row)}".rstrip())
    last = f"{of} {len(points)}"
    return [*lines, f"      +{'-' * cells}", f"       1{last.rjust(max(cells - 1, len(last) + 1))}"]
