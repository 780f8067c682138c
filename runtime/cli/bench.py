"""`fractal bench`: measures a model, with what Fractal learns on the way, on a suite of problems."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernel.errors import FractalError, UsageError
from runtime.cli.output import (
    Columns,
    count,
    emit,
    notify,
    print_line,
    print_list,
    print_table,
    seconds,
    tokens,
)
from runtime.cli.session import command, json_option, opened, until_signal

if TYPE_CHECKING:
    from runtime.benchmarks.bench import Bench
    from runtime.benchmarks.reporting import Reporter

run_option = click.option(
    "--run", "bench_run", metavar="ID", help="Of a bench run; `fractal bench ls` lists them."
)
"""Of commands that read a bench run."""


@click.group()
def bench() -> None:
    """Measure a model on a suite of problems, and what memory adds to it.

    Each problem is a run in a fresh folder. One memory goes along, so that later problems are solved with
    what earlier ones taught.
    """


@bench.command("run")
@click.option("-m", "--model", help="The model; default: that of the settings.")
@click.option("--suite", default="arithmetic", show_default=True, help="arithmetic, swe, or your own file.")
@click.option("--data", metavar="PATH", type=click.Path(exists=True), help="Where math-dataset or aime is.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N problems.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides the problems and their order.")
@click.option(
    "--snapshot-every",
    "every",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Keep the figures of every N problems; 0: of none.",
)
@click.option("--dream", is_flag=True, help="Dream after each snapshot.")
@click.option("--brain", metavar="DIR", help="The folder with the memory to use; default: a new one.")
@click.option("--no-feedback", is_flag=True, help="Do not tell memory which answers were right.")
@click.option("--resume", metavar="ID", help="Go on with a bench run that was stopped.")
@click.option("--dashboard", metavar="URL", help="A server of `fractal serve` that shows the progress.")
@json_option("Print the figures as an object.")
def run(
    model: str | None,
    suite: str,
    data: str | None,
    limit: int | None,
    seed: int,
    every: int,
    dream: bool,
    brain: str | None,
    no_feedback: bool,
    resume: str | None,
    dashboard: str | None,
) -> int:
    """Run a suite and print a table.

    Results are in state/benchmarks/ID.jsonl of the workspace. Ctrl-C saves; so does a crash.
    """
    from runtime.benchmarks.bench import Bench, Plan
    from runtime.benchmarks.reporting import Reporter
    from runtime.benchmarks.suites import GIVEN, SHIPPED

    reporter = Reporter(dashboard, notify) if dashboard else None
    if resume:
        _refuse_others()
        started = Bench.resume(opened(), resume)
    else:
        name = suite if suite in (*SHIPPED, *GIVEN) else str(Path(suite).resolve())
        data, brain = (str(Path(path).resolve()) if path else "" for path in (data, brain))
        plan = Plan(name, limit, seed, every, dream, not no_feedback, data, brain, model)
        started = Bench.start(opened(), plan)
        if model != "reflex" and not started.opened.has_model:
            notify("no model is named (-m), so only code answers", "yellow")
    notify(f"bench run {started.log.id}")
    started.heard = _say
    try:
        asyncio.run(until_signal(_watched(started, reporter)))
    except FractalError as error:
        error.add_note(f"what is done is kept; {_how_to_go_on(started.log.id)}")
        raise
    return _report(started.log.summary(), started.log.id)


def _refuse_others() -> None:
    """Refuse options beside --resume that would not take effect."""
    context, typed = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    given = [
        each.opts[-1]
        for each in context.command.params
        if each.expose_value
        and each.name not in ("resume", "dashboard")
        and context.get_parameter_source(str(each.name)) is typed
    ]
    if given:
        raise click.UsageError(f"--resume keeps the settings of the bench run; leave out {', '.join(given)}")


async def _watched(bench: Bench, reporter: Reporter | None) -> None:
    async with reporter.following(bench) if reporter else nullcontext():
        await bench.play()


def _say(bench: Bench) -> None:
    """One line for each problem, on standard error."""
    from runtime.benchmarks.log import is_free

    last, size = bench.done[-1], len(bench.problems)
    mark, colour = ("✓", "green") if last["right"] else ("✗", "red")
    by = count(last["calls"], "call") if last["calls"] else "no model" if is_free(last) else "no answer"
    notify(f"{mark} {last['n']}/{size}  {last['family'] or last['problem']}  {by}", colour)


def _report(figures: Mapping[str, Any], id: str) -> int:
    """Print the figures of a bench run; exit code 130 if it has not finished."""
    code = 0 if figures["finished"] else 130
    emit(figures, code)
    print_figures(figures)
    if code:
        notify(f"stopped; {_how_to_go_on(id)}", "yellow")
    else:
        notify(f"more: {command('brain', 'report', '--run', id)}")
    return code


def _how_to_go_on(id: str) -> str:
    return f"go on with: {command('bench', 'run', '--resume', id)}"


SHOWN: Columns = {
    "PROBLEMS": "problems",
    "RIGHT": lambda each: f"{each['accuracy']:.1%}",
    "WITHOUT A MODEL": lambda each: f"{each['without_model']:.1%}",
    "CALLS": "calls",
    "TOKENS": lambda each: tokens(each["tokens"]),
    "TIME": lambda each: seconds(each["seconds"]),
}
"""The columns of figures."""


def print_figures(figures: Mapping[str, Any]) -> None:
    """The whole, the learning curve by snapshots, and the families."""
    model = f" with {figures['model']}" if figures["model"] else ""
    print_line(f"{figures['bench']}: {Path(figures['suite']).name}{model}\n")
    print_table(SHOWN, [figures], right=range(len(SHOWN)))
    if len(figures["snapshots"]) > 1:
        sizes = ("trees", "types", "methods", "memories")
        shown = {"AFTER": "snapshot", **SHOWN, **{name.upper(): _size(name) for name in sizes}}
        print_line("\nLearning curve, by snapshots")
        print_table(shown, figures["snapshots"], right=range(len(shown)))
    if len(figures["families"]) > 1:
        print_line("")
        rows = [{"name": name or "(none)", **each} for name, each in figures["families"].items()]
        print_table({"FAMILY": "name", **SHOWN}, rows, right=range(1, len(SHOWN) + 1))


def _size(name: str) -> Any:
    return lambda shot: shot["sizes"].get(name, 0)


@bench.command("ls")
@json_option("Print a list of the figures.")
def ls() -> None:
    """List the bench runs here, newest last."""
    from runtime.benchmarks.bench import folder_of
    from runtime.benchmarks.log import BenchLog

    logs = sorted(folder_of(opened()).glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    found: Sequence[Mapping[str, Any]] = [BenchLog(path).summary() for path in logs]
    shown = {"ID": "bench", "MODEL": lambda each: each["model"] or "", **SHOWN}
    print_list(found, shown, f"no bench runs here yet; start one: {command('bench', 'run')}")


@dataclass(frozen=True)
class Benched:
    """A bench run that another command reads: figures, problems that are done, the folder with its memory."""

    figures: Mapping[str, Any]
    done: Sequence[Mapping[str, Any]]
    brain: Path

    @property
    def runs(self) -> Collection[str]:
        """The runs of its problems."""
        return {each["run"] for each in self.done}

    def problem(self, id: str) -> Mapping[str, Any]:
        """A problem that is done, by its id; "" is the last one. Raises `UsageError`."""
        for each in reversed(self.done):
            if id in ("", each["problem"], each["run"]):
                return each
        raise UsageError(f"{self.figures['bench']} has done no problem {id or 'yet'}")


def read(id: str) -> Benched:
    """A bench run by its id, or a beginning of it. Raises `UsageError`."""
    from runtime.benchmarks.bench import brain_of, folder_of
    from runtime.benchmarks.log import BenchLog, results

    log = BenchLog.find(folder_of(opened()), id)
    lines = log.lines()
    return Benched(log.summary(), results(lines), brain_of(log, lines[0]))


def enter(id: str) -> Benched:
    """The same; this command then works in the folder with its memory, as with `-C`."""
    found = read(id)
    click.get_current_context().find_root().ensure_object(dict)["folder"] = str(found.brain)
    return found
