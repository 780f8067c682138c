"""`fractal bench`: every figure that the README quotes, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from runtime.cli.session import json_option, tell
from runtime.memory.procedural.parts import NAMES


class _Points(click.ParamType):
    """`all`, or a number."""

    name = "points"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        """None for all."""
        return None if value in (None, "all") else click.IntRange(min=0).convert(value, param, ctx)


POINTS = _Points()


@click.group()
def bench() -> None:
    """Measure what Fractal itself costs."""


@bench.command("overhead")
@json_option("Print the figures as an object.")
def overhead(as_json: bool) -> int:
    """Instruction tokens a call, seconds a loop, and bytes a step, without any model."""
    return int(measured("overhead").main(as_json) or 0)


@bench.command("resume")
@json_option("Print the figures as an object.")
@click.option("--quick", is_flag=True, help="A few points of each kind, in about two minutes.")
@click.option("--kills", type=click.IntRange(min=0), metavar="N", help="SIGKILLs at random moments.")
@click.option("--points", type=POINTS, default=None, metavar="all|N", help="How many of the calls to die at.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of what is chosen by chance."
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.md",
    help="Write a page about it.",
)
def resume(
    as_json: bool, quick: bool, kills: int | None, points: int | None, seed: int, report: Path | None
) -> int:
    """Crash a run at every call that changes a file, go on, and count what is lost or done twice."""
    module = measured("resume")
    return int(module.main(as_json, quick=quick, kills=kills, points=points, seed=seed, report=report))


@bench.command("many")
@json_option("Print the figures as an object.")
@click.option("--runs", default="100,1000", show_default=True, metavar="N,…", help="How many runs at once.")
def many(as_json: bool, runs: str) -> int:
    """Play many runs at once in one process: runs a second, CPU, memory."""
    sizes = [int(each) for each in runs.split(",") if each.isdecimal() and int(each)]
    if len(sizes) != runs.count(",") + 1:
        raise click.UsageError(f"--runs {runs}: whole numbers from 1, with commas between them")
    return int(measured("many").main(as_json, sizes))


@bench.command("store")
@json_option("Print the figures as an object.")
@click.option("--full", is_flag=True, help="With a million records as well; it takes long.")
@click.option("--records", default="1000,10000,100000", show_default=True, metavar="N,…", help="How many.")
def store(as_json: bool, full: bool, records: str) -> int:
    """Milliseconds to put, get, find the nearest and search, and memory, by the number of records."""
    sizes = [int(each) for each in records.split(",") if each.isdecimal() and int(each)]
    if len(sizes) != records.count(",") + 1:
        raise click.UsageError(f"--records {records}: whole numbers from 1, with commas between them")
    return int(measured("store").main(as_json, [*sizes, *([1_000_000] if full else [])]))


@bench.command("variations")
@json_option("Print the figures as an object.")
@click.option(
    "--families", "part", type=click.Choice(["all", "even", "odd"]), default="all", show_default=True
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE.jsonl",
    help="Other families than the given ones.",
)
@click.option("--embedder", "embedders", multiple=True, type=click.Choice(["lexical", "minilm"]))
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(NAMES),
    metavar="PART",
    help=f"Switch a part of the memory off: {', '.join(NAMES)}.",
)
@click.option("--trees", default="", metavar="N,…", help="Measure the time of a recall among so many.")
def variations(
    as_json: bool,
    part: str,
    data: Path | None,
    embedders: tuple[str, ...],
    without: tuple[str, ...],
    trees: str,
) -> int:
    """Recall what was solved once with other numbers, names, nouns and words: answered, right, fooled."""
    sizes = [int(each) for each in trees.split(",") if each.isdecimal() and int(each)]
    if trees and len(sizes) != trees.count(",") + 1:
        raise click.UsageError(f"--trees {trees}: whole numbers from 1, with commas between them")
    module = measured("variations")
    chosen = embedders or module.EMBEDDERS
    return int(module.main(as_json, path=data, part=part, embedders=chosen, without=without, trees=sizes))


@bench.command("tools")
@json_option("Print the figures as an object.")
@click.option("--tools", "counts", default="10,100,500", show_default=True, metavar="N,…", help="How many.")
def tools(as_json: bool, counts: str) -> int:
    """Choose among many tools: tokens and time of a plan's index, and how often it has the best one."""
    sizes = [int(each) for each in counts.split(",") if each.isdecimal() and 0 < int(each) <= 500]
    if len(sizes) != counts.count(",") + 1:
        raise click.UsageError(f"--tools {counts}: whole numbers from 1 to 500, with commas between them")
    return int(measured("tools").main(as_json, sizes))


@bench.command("dangers")
@json_option("Print the figures as an object.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Another list: a label (leaves, undoable, harmless), a tab, and a command on each line.",
)
def dangers(as_json: bool, data: Path | None) -> int:
    """Hold the danger rules against a labelled list of commands; nothing of it is run."""
    return int(measured("dangers").main(as_json, data))


@bench.command("ablation")
@json_option("Print the figures as an object.")
@click.option("--families", default=60, show_default=True, type=click.IntRange(min=1), metavar="N")
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of what is chosen by chance."
)
def ablation(as_json: bool, families: int, embedder: str, seed: int) -> int:
    """Play streams of tasks with all parts of procedural memory and without each: what a part brings."""
    return int(measured("ablation").main(as_json, families, seed, embedder))


@bench.command("everyday")
@json_option("Print the figures as an object.")
@click.option(
    "--half", type=click.Choice(["build", "unseen", "all"]), default="all", show_default=True, help="Which."
)
def everyday(as_json: bool, half: str) -> int:
    """Do everyday tasks in anybody's words with the reflexes alone: done, passed on, wrong actions."""
    return int(measured("everyday").main(as_json, half))


@bench.command("locomo")
@json_option("Print the figures as an object.")
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="Conversations of LoCoMo; else those in the folder FRACTAL_DATA.",
)
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
@click.option("--leave-one-out", is_flag=True, help="Fit on all but one, measure that one, for each.")
@click.option("--fit", is_flag=True, help="Fit the weights of retrieval on these, and keep them.")
@click.option("--quick", is_flag=True, help="Without the figures of what each part brings.")
@click.option(
    "--stores",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the embedded conversations there.",
)
@click.option("--turns", default="", metavar="N,…", help="Measure only the time of a question among so many.")
def locomo(
    as_json: bool,
    data: Path | None,
    embedder: str,
    leave_one_out: bool,
    fit: bool,
    quick: bool,
    stores: Path | None,
    turns: str,
) -> int:
    """Find the turns of long conversations that answer a question (LoCoMo): recall and MRR, by part."""
    sizes = [int(each) for each in turns.split(",") if each.isdecimal() and int(each)]
    if turns and len(sizes) != turns.count(",") + 1:
        raise click.UsageError(f"--turns {turns}: whole numbers from 1, with commas between them")
    return int(
        measured("locomo").main(
            as_json,
            data,
            embedder,
            leave_one_out=leave_one_out,
            fit=fit,
            quick=quick,
            stores=stores,
            turns=sizes,
            say=tell,
        )
    )


@bench.command("gate")
@json_option("Print the figures as an object.")
@click.option("--quick", is_flag=True, help="Without the figures of what each piece brings.")
def gate(as_json: bool, quick: bool) -> int:
    """Tell questions of 150 known intents from questions of none (CLINC150, in the folder FRACTAL_DATA)."""
    return int(measured("gate").main(as_json, pieces=not quick))


@bench.command("learning")
@json_option("Print the figures as an object.")
@click.option(
    "--seeds", type=click.IntRange(1, 50), default=5, show_default=True, metavar="N", help="Streams of tasks."
)
@click.option(
    "--rounds",
    type=click.IntRange(4, 100),
    default=8,
    show_default=True,
    metavar="N",
    help="Tasks of a type.",
)
@click.option("--parts", is_flag=True, help="Also with patterns alone and with solved tasks alone.")
@click.option(
    "--first-seed",
    "first",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    metavar="N",
    help="Of the streams; learning was tuned on those before 2.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE.md",
    help="Measure nothing: write ten patterns that the first stream teaches.",
)
def learning(as_json: bool, seeds: int, rounds: int, parts: bool, first: int, report: str | None) -> int:
    """Give streams of tasks to a worker with known mistakes: with memory, without, with wrong feedback."""
    return int(measured("learning").main(as_json, seeds, rounds, parts, first, report))


def measured(name: str) -> Any:
    """A module of the benchmarks. Raises `ConfigurationError` where they are not installed."""
    from importlib import import_module

    try:
        return import_module(f"runtime.bench.{name}")
    except ModuleNotFoundError as error:
        from kernel.errors import ConfigurationError

        raise ConfigurationError(f"this installation has no benchmarks ({error.name} is missing)") from None
