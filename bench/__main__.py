"""`python -m bench NAME` measures the figures that the documentation quotes, and ends with exit code 0."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from runtime.cli import main
from runtime.cli.session import json_option
from runtime.memory.tasks import NAMES

Command = Callable[..., Any]
FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)


class Numbers(click.ParamType):
    """Whole numbers from 1 with commas between them; none where that is allowed."""

    name = "numbers"

    def __init__(self, most: int | None, none: bool) -> None:
        self.most, self.none = most, none

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        """The numbers as a list."""
        if isinstance(value, list):
            return value
        found = [int(each) for each in value.split(",") if each.isdecimal() and int(each)]
        wrong = len(found) != value.count(",") + 1 or max(found) > (self.most or max(found))
        if wrong and not (self.none and not value):
            most = f" to {self.most}" if self.most else ""
            self.fail(f"{value}: whole numbers from 1{most}, with commas between them", param, ctx)
        return found


class Points(click.ParamType):
    """`all`, or a number."""

    name = "points"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | None:
        """None for all."""
        return None if value in (None, "all") else click.IntRange(min=0).convert(value, param, ctx)


def numbers(name: str, into: str, default: str, text: str, most: int | None = None) -> Any:
    """An option that takes several sizes."""
    kind = Numbers(most, none=not default)
    return click.option(
        name, into, type=kind, default=default, show_default=bool(default), metavar="N,…", help=text
    )


def option(*names: str, **more: Any) -> Any:
    """An option that shows its default where it has one."""
    return click.option(*names, show_default=more.get("default") is not None, **more)


def halves(*names: str) -> Any:
    """`--half`."""
    return option("--half", type=click.Choice([*names, "all"]), default="all", help="Which.")


def data(text: str, metavar: str = "FILE") -> Any:
    """`--data`."""
    return click.option("--data", "path", type=FILE, metavar=metavar, help=text)


def seed() -> Any:
    """`--seed`."""
    return option("--seed", type=int, default=1, metavar="N", help="Of what is chosen by chance.")


def embedder() -> Any:
    """`--embedder` with one name."""
    return option("--embedder", default="auto", metavar="NAME", help="lexical, minilm, auto.")


def embedders(into: str = "embedders") -> Any:
    """`--embedder`, several times."""
    return click.option("--embedder", into, multiple=True, type=click.Choice(["lexical", "minilm"]))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def bench() -> None:
    """Measure what Fractal itself costs and what its parts bring. Missed goals are printed."""


def command(name: str, text: str, *options: Any) -> None:
    """Add a command that calls `main` of the module of that name with its options."""

    def run(**told: Any) -> None:
        import_module(f"bench.{name}").main(**told)

    act: Command = run
    for each in reversed((json_option("Print the figures as an object."), *options)):
        act = each(act)
    bench.command(name, help=text)(act)


command(
    "overhead",
    "Instruction tokens per call, seconds per loop, and bytes per step, without any model.",
    click.option("--quick", is_flag=True, help="200 steps in place of 500, each job once."),
)
command(
    "resume",
    "Crash a run at every call that changes a file, resume it, and count what is lost or done twice.",
    click.option("--quick", is_flag=True, help="A few points of each kind, in about two minutes."),
    click.option("--kills", type=click.IntRange(min=0), metavar="N", help="SIGKILLs at random moments."),
    click.option("--points", type=Points(), metavar="all|N", help="At how many of the calls to die."),
    seed(),
    click.option("--report", type=NEW_FILE, metavar="FILE.md", help="Write a page about it."),
)
command(
    "many",
    "Play many runs at once in one process: runs per second, CPU, memory.",
    numbers("--runs", "sizes", "100,1000", "How many runs at once."),
)
command(
    "store",
    "Milliseconds to put, get, find the nearest and search, and memory, by the number of records.",
    numbers("--records", "sizes", "1000,10000,100000", "How many."),
)
command(
    "variations",
    "Recall what was solved once with other numbers, names, nouns and words: answered, right, fooled.",
    option("--families", "part", type=click.Choice(["all", "even", "odd"]), default="all"),
    data("Other families than the given ones.", "FILE.jsonl"),
    embedders(),
    click.option(
        "--without",
        multiple=True,
        type=click.Choice(NAMES),
        metavar="PART",
        help=f"Switch a part of the memory off: {', '.join(NAMES)}.",
    ),
    numbers("--trees", "trees", "", "Measure the time of a recall among so many."),
)
command(
    "tools",
    "Choose among many tools: tokens and time of a plan's index, and how often it has the best one.",
    numbers("--tools", "sizes", "10,100,500", "How many.", most=500),
)
command(
    "dangers",
    "Judge a labelled list of commands by the danger rules; none of them is run.",
    data("Another list: a label (leaves, undoable, harmless), a tab, and a command on each line."),
)
command(
    "ablation",
    "Play streams of tasks with all parts of procedural memory and without each: what a part brings.",
    option("--families", "count", default=60, type=COUNT, metavar="N"),
    embedder(),
    seed(),
)
command(
    "everyday",
    "Do everyday tasks in anybody's words with the reflexes alone: done, passed on, wrong actions.",
    halves("build", "unseen"),
)
command(
    "locomo",
    "Find the turns of long conversations that answer a question (LoCoMo): recall and MRR, by part.",
    data("Conversations of LoCoMo; else those in the folder FRACTAL_DATA."),
    embedder(),
    click.option("--leave-one-out", is_flag=True, help="Fit on all but one, measure that one, for each."),
    click.option("--fit", is_flag=True, help="Fit the weights of retrieval on these, and keep them."),
    click.option("--quick", is_flag=True, help="Without the figures of what each part brings."),
    click.option(
        "--stores",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Keep the embedded conversations there.",
    ),
    numbers("--turns", "turns", "", "Measure only the time of a question among so many."),
)
command(
    "gate",
    "Tell questions of 150 known intents from questions of none (CLINC150, in the folder FRACTAL_DATA).",
    click.option("--quick", is_flag=True, help="Without the figures of what each piece brings."),
)
command(
    "learning",
    "Give streams of tasks to a worker with known mistakes: with memory, without, with wrong feedback.",
    option("--seeds", type=click.IntRange(1, 50), default=5, metavar="N", help="Streams of tasks."),
    option("--rounds", type=click.IntRange(4, 100), default=8, metavar="N", help="Tasks of a type."),
    click.option("--parts", is_flag=True, help="Also with patterns alone and with solved tasks alone."),
    option(
        "--first-seed",
        "first",
        type=click.IntRange(0),
        default=2,
        metavar="N",
        help="Of the streams; learning was tuned on those before 2.",
    ),
    click.option(
        "--report",
        type=NEW_FILE,
        metavar="FILE.md",
        help="Measure nothing: write ten patterns that the first stream teaches.",
    ),
)
command(
    "dream",
    "Let a memory dream: retrieval and answers before and after, what each stage brings, seconds by size.",
    data("Other conversations (.json) or families (.jsonl) than the given ones."),
    halves("talk", "trees"),
    embedder(),
    option("--families", default=60, type=COUNT, metavar="N"),
    numbers("--records", "sizes", "1000,10000", "Time the dream with so many."),
)
command(
    "pairs",
    "Tell duplicates from contradictions: which pairs of sayings merge, are linked, or are new.",
    halves("build", "unseen"),
    data("Other pairs than the given ones.", "FILE.jsonl"),
    embedders("names"),
    click.option("--calibrate", is_flag=True, help="Fit the gate's thresholds instead, and compare slopes."),
)
command(
    "week",
    "Live a week by a clock set by hand: what is due, fades and stays; what a goal draws and is noticed.",
    click.option(
        "--plot",
        type=NEW_FILE,
        metavar="FILE.png",
        help="Draw the curves into a picture; needs the extra `plot`.",
    ),
    embedder(),
)


if __name__ == "__main__":
    main(command=bench, name="python -m bench")
