"""`python -m bench NAME` measures the figures that the documentation quotes, and ends with exit code 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from bench.harness import show
from runtime.cli import main
from runtime.memory.tasks import NAMES

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
option = click.option


@click.group(context_settings=SETTINGS)
def bench() -> None:
    """Measure what Fractal itself costs and what its parts contribute. Missed goals are printed."""


def sizes(text: str) -> list[int]:
    """Whole numbers from 1, separated by commas."""
    numbers = [int(each) if each.isdecimal() else 0 for each in text.split(",")]
    if not all(numbers):
        raise ValueError
    return numbers


def points(text: str) -> int | None:
    """A number of points; None for all."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise ValueError
    return int(text)


# ---- options of several benchmarks -----------------------------------------------------------------------


def flag(name: str, text: str) -> Any:
    """An option without a value."""
    return option(name, is_flag=True, help=text)


def numbers(name: str, parameter: str, default: str | None, text: str) -> Any:
    """An option that takes several sizes."""
    return option(name, parameter, type=sizes, default=default, metavar="N,…", help=text)


def half(*names: str) -> Any:
    """`--half`."""
    return option("--half", type=click.Choice([*names, "all"]), default="all", help="Measure one half.")


def data(text: str, metavar: str = "FILE") -> Any:
    """`--data`."""
    return option("--data", "path", type=FILE, metavar=metavar, help=text)


JSON = flag("--json", "Print the figures as an object.")
SEED = option("--seed", type=int, default=1, metavar="N", help="Seed of the random choices.")
EMBEDDER = option("--embedder", default="auto", metavar="NAME", help="lexical, minilm, auto.")
EMBEDDERS = option("--embedder", "embedders", multiple=True, type=click.Choice(["lexical", "minilm"]))


# ---- commands --------------------------------------------------------------------------------------------


def command(name: str, text: str, *options: Any, run: Callable[..., object] | None = None) -> None:
    """Add a command. Without `run`, it measures the benchmark of that name."""

    act = run or partial(report, name)

    def measure(json: bool, **chosen: Any) -> None:
        act(json, **chosen)

    for each in reversed((JSON, *options)):
        measure = each(measure)
    bench.command(name, help=text)(measure)


def report(
    name: str, as_json: bool, *, measured_by: str = "", goals: bool = True, **options: Any
) -> dict[str, Any]:
    """Measure, print and return the figures of a benchmark.

    A benchmark is a module with `measure(**options)`, `table(figures)` and, with goals, `missed(figures)`.
    Another module may measure the same figures in another way.
    """
    module = import_module(f"bench.{name}")
    figures = import_module(f"bench.{measured_by or name}").measure(**options)
    missed = module.missed(figures) if goals and hasattr(module, "missed") else ()
    show(figures, module.table(figures), as_json, missed)
    return figures


def _locomo(as_json: bool, *, turns: list[int], fit: bool, leave_one_out: bool, **options: Any) -> None:
    path, embedder, stores = (options[name] for name in ("path", "embedder", "stores"))
    if turns:
        show(import_module("bench.locomo_speed").measure(path, embedder, turns), "", as_json=True)
        return
    if fit:
        import_module("bench.locomo_fit").write_weights(path, stores=stores)
    if path and not leave_one_out and import_module("bench.locomo_longmemeval").recognised(path):
        report("locomo_longmemeval", as_json, **options)
        return
    report("locomo", as_json, measured_by="locomo_fit" if leave_one_out else "locomo", **options)


def _pairs(as_json: bool, *, calibrate: bool, embedders: list[str], **options: Any) -> None:
    if calibrate:
        report("pairs_calibration", as_json, embedders=embedders)
    else:
        report("pairs", as_json, embedders=embedders, **options)


def _diary(as_json: bool, *, model: str | None, only: int, **options: Any) -> None:
    if model:
        report("diary_ladder", as_json, model=model, only=only, **options)
    else:
        report("diary", as_json, **options)


def _learning(as_json: bool, *, page: Path | None, **options: Any) -> None:
    if page:
        import_module("bench.learning").write_page(page, options["first"], options["rounds"])
    else:
        report("learning", as_json, **options)


def _work(as_json: bool, *, jobs: int | None, embedder: str, **options: Any) -> None:
    if jobs:
        report("work.stream", as_json, jobs=jobs, embedder=embedder)
    else:
        report("work", as_json, **options)


def _swe(as_json: bool, *, verify: bool, understanding: bool, **options: Any) -> None:
    if verify:
        verified(as_json, options["repositories"], options["environments"], options["jobs"])
    elif understanding:
        names = ("repositories", "environments", "sets", "jobs", "work")
        report("swe.understanding", as_json, **{name: options[name] for name in names})
    else:
        report("swe.comparison", as_json, **options)


def verified(as_json: bool, repositories: Path | None, environments: Path | None, jobs: str) -> None:
    """Show that the hidden tests of each fix fail before it and pass after it; raise if one does not."""
    comparison, fixes = (import_module(f"bench.swe.{name}") for name in ("comparison", "fixes"))
    listed = [each for each in fixes.read() if not jobs or each.name in jobs.split(",")]
    source = comparison.source_of(repositories, environments or comparison.ENVIRONMENTS, listed)
    rows = list(fixes.verify(source, listed))
    show({"fixes": rows}, fixes.verified(rows), as_json)
    if wrong := [row["name"] for row in rows if not row["valid"]]:
        raise click.ClickException(f"not valid: {', '.join(wrong)}")


def _week(as_json: bool, *, plot: Path | None, embedder: str) -> None:
    figures = report("week", as_json, embedder=embedder)
    if plot:
        import_module("bench.week_shown").draw(figures, plot)


command(
    "overhead",
    "Instruction tokens per call, seconds per loop, and bytes per step, without a model.",
    flag("--quick", "200 steps instead of 500, each job once."),
)
command(
    "peers",
    "The same job with Fractal and other frameworks: CPU, seconds and memory of whole processes.",
    option("--times", default=5, type=COUNT, metavar="N", help="Runs of each; the median counts."),
    option("--envs", type=FOLDER, metavar="DIR", help="Keep the virtual environments in this folder."),
    run=partial(report, "peers.measure"),
)
command(
    "resume",
    "Crash a run at every call that changes a file, resume it, and count what is lost or repeated.",
    flag("--quick", "A few points of each kind, in about two minutes."),
    option("--kills", type=click.IntRange(min=0), metavar="N", help="SIGKILLs at random moments."),
    option("--points", type=points, metavar="all|N", help="The number of calls to crash at."),
    SEED,
    option("--report", type=NEW_FILE, metavar="FILE.md", help="Write a page about it."),
    run=lambda as_json, **options: import_module("bench.resume").main(as_json, **options),
)
command(
    "maturing",
    "Do tasks of one kind ten times: lifeforce and latency at the first and the tenth time.",
    option("--times", default=10, type=COUNT, metavar="N", help="How often."),
    option("--judged", default=55, type=COUNT, metavar="N", help="How often those that only a model judges."),
)
command(
    "many",
    "Play many runs at once in one process: runs per second, CPU, memory.",
    numbers("--runs", "sizes", "100,1000", "The numbers of runs at once."),
)
command(
    "service",
    "Load the server with clients that think: milliseconds by request, errors, lost outcomes.",
    option("--experiences", default=10_000, type=COUNT, metavar="N", help="In memory at the beginning."),
    option("--clients", default=200, type=COUNT, metavar="N", help="Clients at once."),
    option("--seconds", default=60.0, metavar="S", help="Length of the load."),
    option("--think", default=5.0, metavar="S", help="Mean time between two requests of a client."),
    flag("--kill", "Kill the server in the middle, and start it again."),
    SEED,
)
command(
    "store",
    "Milliseconds to put, get, find the nearest and search, and memory, by number of records.",
    numbers("--records", "sizes", "1000,10000,100000", "The numbers of records."),
)
command(
    "variations",
    "Recall solved tasks for variations with other numbers, names, nouns and words: answered, right, fooled.",
    option("--families", "part", type=click.Choice(["all", "even", "odd"]), default="all"),
    data("Other families than the default ones.", "FILE.jsonl"),
    EMBEDDERS,
    option(
        "--without",
        multiple=True,
        type=click.Choice(NAMES),
        metavar="PART",
        help=f"Disable a part of the memory: {', '.join(NAMES)}.",
    ),
    numbers("--trees", "trees", None, "Also measure the time of a recall among so many stored tasks."),
    option("--traps", type=FILE, metavar="FILE.jsonl", help="Other traps than those made from the families."),
    option(
        "--reordered", type=FILE, metavar="FILE.jsonl", help="Other reordered tasks than the default ones."
    ),
)
command(
    "tools",
    "Choose among many tools: tokens and time of a plan's index, and how often it has the best one.",
    numbers("--tools", "sizes", "10,100,500", "The numbers of tools, at most 500."),
)
command(
    "dangers",
    "Apply the danger rules to a labelled list of commands. No command is run.",
    data("Another list: a label (leaves, undoable, harmless), a tab, and a command on each line."),
    run=lambda as_json, path: report("dangers", as_json, goals=path is None, path=path),
)
command(
    "ablation",
    "Play streams of tasks with all parts of procedural memory, and without each of them.",
    option("--families", "count", default=60, type=COUNT, metavar="N"),
    EMBEDDER,
    SEED,
)
command(
    "everyday",
    "Do everyday tasks in ordinary words by the reflexes alone: done, passed on, wrong actions.",
    option(
        "--list",
        "half",
        type=click.Choice(["own", "seen", "unseen", "all"]),
        default="all",
        help="Measure one list.",
    ),
)
command(
    "locomo",
    "Find the turns of long conversations that answer a question (LoCoMo): recall and MRR, by part.",
    data("Conversations of LoCoMo, or questions of LongMemEval; default: LoCoMo in the folder FRACTAL_DATA."),
    EMBEDDER,
    flag("--leave-one-out", "Measure each conversation with weights fitted on the others."),
    flag("--fit", "First fit the weights of retrieval on these conversations, and save them."),
    flag("--quick", "Without the figures by part."),
    option(
        "--stores",
        type=FOLDER,
        metavar="DIR",
        help="Keep the embedded conversations in this folder.",
    ),
    numbers("--turns", "turns", None, "Measure only the time of a question among so many turns."),
    run=_locomo,
)
command(
    "gate",
    "Separate questions of 150 known intents from questions of none (CLINC150, in the folder FRACTAL_DATA).",
    flag("--quick", "Without the figures by piece of the gate."),
)
command(
    "learning",
    "Give streams of tasks to a worker with known mistakes: with memory, without, with wrong feedback.",
    option("--seeds", type=click.IntRange(1, 50), default=5, metavar="N", help="Streams of tasks."),
    option("--rounds", type=click.IntRange(4, 100), default=8, metavar="N", help="Tasks of each type."),
    flag("--parts", "Also with patterns alone and with solved tasks alone."),
    option(
        "--first-seed",
        "first",
        type=click.IntRange(0),
        default=2,
        metavar="N",
        help="Seed of the first stream; learning was tuned on those before 2.",
    ),
    option(
        "--report",
        "page",
        type=NEW_FILE,
        metavar="FILE.md",
        help="Measure nothing; write a page with ten patterns that the streams teach.",
    ),
    run=_learning,
)
command(
    "dream",
    "Retrieval and answers before and after a dream, without each stage, and seconds by size.",
    data("Other conversations (.json) or families (.jsonl) than the default ones."),
    half("talk", "trees"),
    EMBEDDER,
    option("--families", default=60, type=COUNT, metavar="N"),
    numbers("--records", "sizes", "1000,10000", "Measure the time of a dream with so many records."),
)
command(
    "pairs",
    "Separate duplicates from contradictions: which pairs of statements merge, are linked, or are new.",
    half("build", "unseen"),
    data("Other pairs than the default ones.", "FILE.jsonl"),
    EMBEDDERS,
    flag("--calibrate", "Instead, fit the thresholds of the gate and compare slopes."),
    run=_pairs,
)
command(
    "diary",
    "Tell diaries of facts that change, and ask: right, outdated, and rightly unknown answers, by kind.",
    option(
        "--data", "paths", type=FILE, multiple=True, metavar="FILE.json", help="Other diaries; may repeat."
    ),
    EMBEDDERS,
    option(
        "--ladder", "model", metavar="MODEL", help="Instead, run the questions: by facts, else by a model."
    ),
    option("--only", type=int, default=0, metavar="N", help="With --ladder: N questions of each diary."),
    run=_diary,
)
command(
    "facts",
    "Tell facts that change and facts that do not: superseded, wrongly superseded, contradictory merges.",
    data("Other lines than the default ones.", "FILE.jsonl"),
    option(
        "--model-of",
        "folder",
        type=FOLDER,
        metavar="DIR",
        help="Also dream after each line with the model that DIR/fractal.yaml names.",
    ),
)
command(
    "week",
    "Simulate a week: what is due, fades and stays; what a goal changes; what is noticed.",
    option(
        "--plot",
        type=NEW_FILE,
        metavar="FILE.png",
        help="Draw the curves into a picture; needs the extra `plot`.",
    ),
    EMBEDDER,
    run=_week,
)
command(
    "real",
    "Do small real jobs with a real model: Fractal, and other agents with the same one. It takes hours.",
    option("--model", type=FILE, required=True, metavar="FILE.gguf"),
    option("--agent", "agents", multiple=True, default=["fractal"], help="fractal, mini, smol, plain, …"),
    option(
        "--set",
        "sets",
        multiple=True,
        type=click.Choice(["viewed", "unread", "acceptance"]),
        default=["viewed", "unread"],
    ),
    option("--only", multiple=True, metavar="JOB|KIND", help="Only these jobs."),
    flag("--fixed", "Only the 24 jobs that the other agents get."),
    option("--rows", type=NEW_FILE, metavar="FILE.jsonl", help="Where finished jobs are recorded."),
    option("--environments", type=FOLDER, metavar="DIR", help="Where the other agents are installed."),
)
command(
    "work",
    "Ten jobs with surprises: planned first, decided turn by turn, and by plain tool loops.",
    option("--slips", type=click.FloatRange(0, 1), default=0.2, help="Share of replies with a slip of form."),
    option("--seeds", type=COUNT, default=10, metavar="N", help="Series of slips."),
    option("--only", default="", metavar="JOB", help="Only this job."),
    option(
        "--stream",
        "jobs",
        type=COUNT,
        metavar="N",
        help="Instead, N corrections of which most are of a kind that came before, with memory and without.",
    ),
    EMBEDDER,
    run=_work,
)
command(
    "swe",
    "Real bug fixes and six jobs that are no code, with Fractal, mini-swe-agent and a plain loop.",
    option("--api-base", metavar="URL", help="An OpenAI-compatible server; its key is in OPENAI_API_KEY."),
    option("--model", metavar="NAME", help="The model that the server is asked for."),
    option("--repositories", type=FOLDER, metavar="DIR", help="Repositories of the fixes: OWNER+NAME.git."),
    option("--environments", type=FOLDER, metavar="DIR", help="Where what the tests need is installed."),
    option("--mini", type=NEW_FILE, metavar="PYTHON", help="The Python that can import mini-swe-agent."),
    option("--harness", "harnesses", multiple=True, type=click.Choice(["fractal", "mini", "plain"])),
    option("--set", "sets", multiple=True, type=click.Choice(["tuning", "acceptance", "made"])),
    option("--jobs", default="", metavar="JOB,…", help="Only these jobs."),
    option("--window", type=COUNT, metavar="TOKENS", help="Refuse larger requests, as a small model would."),
    option("--seconds", default=3_600.0, metavar="S", help="The limit of one job."),
    option(
        "--results", type=NEW_FILE, metavar="FILE.jsonl", help="Record finished jobs; skip recorded ones."
    ),
    option("--work", type=FOLDER, metavar="DIR", help="Keep the folders of the jobs here."),
    flag("--understanding", "Only measure the first message: its tokens, and what it shows of the fix."),
    flag("--verify", "Only show that the hidden tests fail before each fix and pass after it."),
    run=_swe,
)


if __name__ == "__main__":
    main(command=bench, name="python -m bench")
