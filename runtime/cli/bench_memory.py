"""`fractal bench dream`, `pairs` and `week`, beside the benchmarks of `bench`."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.bench import bench, measured
from runtime.cli.session import json_option

__all__ = ["bench"]


@bench.command("dream")
@json_option("Print the figures as an object.")
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="Other conversations (.json) or families (.jsonl) than the given ones.",
)
@click.option("--half", type=click.Choice(["talk", "trees", "all"]), default="all", show_default=True)
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
@click.option("--families", default=60, show_default=True, type=click.IntRange(min=1), metavar="N")
@click.option("--records", default="1000,10000", show_default=True, metavar="N,…", help="To be timed with.")
def dream(as_json: bool, data: Path | None, half: str, embedder: str, families: int, records: str) -> int:
    """Let a memory dream: retrieval and answers before and after, what each stage brings, seconds by size."""
    sizes = [int(each) for each in records.split(",") if each.isdecimal() and int(each)]
    if records and len(sizes) != records.count(",") + 1:
        raise click.UsageError(f"--records {records}: whole numbers from 1, with commas between them")
    module = measured("dream")
    halves = module.HALVES if half == "all" else (half,)
    return int(module.main(as_json, data, halves=halves, embedder=embedder, families=families, sizes=sizes))


@bench.command("pairs")
@json_option("Print the figures as an object.")
@click.option(
    "--half", type=click.Choice(["build", "unseen", "all"]), default="all", show_default=True, help="Which."
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE.jsonl",
    help="Other pairs than the given ones.",
)
@click.option("--embedder", "embedders", multiple=True, type=click.Choice(["lexical", "minilm"]))
@click.option("--calibrate", is_flag=True, help="Fit the gate's thresholds instead, and compare slopes.")
def pairs(as_json: bool, half: str, data: Path | None, embedders: tuple[str, ...], calibrate: bool) -> int:
    """Tell duplicates from contradictions: which pairs of sayings merge, are linked, or are new."""
    return int(measured("pairs").main(as_json, half, embedders, data, calibrate))


@bench.command("week")
@json_option("Print the figures as an object.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="Draw the curves into a picture; needs the extra `plot`.",
)
@click.option("--embedder", default="auto", show_default=True, metavar="NAME", help="lexical, minilm, auto.")
def week(as_json: bool, plot: Path | None, embedder: str) -> int:
    """Live a week by a clock set by hand: what is due, fades and stays; what a goal draws and is noticed."""
    return int(measured("week").main(as_json, plot, embedder))
