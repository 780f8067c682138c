"""What learning brings: a worker with known mistakes, over a stream of tasks, with memory and without.

The worker is code in the place of a model: it reads the prompt that it is really sent, and does the usual
mistake of a task's type unless guidance in that prompt warns of it. Each task is done through the whole
runtime, on real files, and comes once: what is shown for it was learned from others alone. After each a
person says whether it was done; in the poisoned arm every fifth word is wrong.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from bench.apprentice.reader import HAZARDS
from bench.apprentice.tasks import KINDS, stream
from bench.apprentice.worker import Worker
from bench.harness import markdown, show
from runtime.api.fractal import Fractal
from runtime.memory.learning.patterns import Pattern

SEEDS = 5
FIRST = 2
"""The first seed: learning was tuned on the streams before it."""
ROUNDS = 8
"""Tasks of each type in a stream."""
PROCESSES = 2
END = 0.4
"""Of a stream, what counts as its end."""
POISON = 0.2
"""How often a person's word is wrong in the poisoned arm."""
ARMS = ("with", "without", "poisoned")
PARTS: Mapping[str, Mapping[str, Any]] = {
    "patterns alone": {"shown": ["patterns"]},
    "solved tasks alone": {"shown": ["files", "similar tasks", "others"], "learn": "off"},
}
"""Arms that show what a part brings, by their settings."""
SETTINGS: Mapping[str, Any] = {"sandbox": "off", "fsync": False, "embedder": "lexical", "usd": None}
DRAWS = 2_000
GOALS = {
    "success": 0.10,
    "steps": 0.15,
    "calls": 0.15,
    "unused_context": 0.20,
    "coverage": 0.80,
    "guidance": 500,
    "repeated": 0.05,
}
"""Points of success more; less of steps, calls and unused context; types with a pattern; tokens; of mistakes
that were warned of, those that came again. Source: the seed's §12, and performance.md."""


@dataclass(frozen=True)
class Row:
    """One task in one arm, as it went."""

    seed: int
    number: int
    kind: str
    done: bool
    mistaken: bool
    warned: bool
    steps: int
    calls: int
    tokens: int
    context: int
    unused: int
    guidance: int


@dataclass
class Arm:
    """One arm of the bench."""

    rows: list[Row] = field(default_factory=list[Row])
    coverage: list[float] = field(default_factory=list[float])
    seconds: float = 0.0


def measure(
    seeds: int = SEEDS,
    rounds: int = ROUNDS,
    arms: Sequence[str] = ARMS,
    processes: int = PROCESSES,
    first: int = FIRST,
) -> dict[str, Any]:
    """The figures of each arm, over streams from the seed `first` on."""
    made = {arm: Arm() for arm in arms}
    jobs = [(arm, seed, rounds) for seed in range(first, first + seeds) for arm in arms]
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(_played, jobs))
    else:
        found = [_played(job) for job in jobs]
    for (arm, _, _), one in zip(jobs, found, strict=True):
        made[arm].rows += one.rows
        made[arm].coverage += one.coverage
        made[arm].seconds += one.seconds
    return figures(made, rounds)


def _played(job: tuple[str, int, int]) -> Arm:
    """One stream in one arm."""
    arm, seed, rounds = job
    found = Arm()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fractal-learning-") as folder:
        asyncio.run(stream_in(Path(folder), arm, seed, rounds, found))
    found.seconds = time.perf_counter() - began
    return found


async def stream_in(folder: Path, arm: str, seed: int, rounds: int, into: Arm) -> None:
    """Play one stream in one arm, in an empty folder."""
    from kernel.asking.responder import Ladder
    from runtime.models.scripted import Scripted

    worker, wrong = Worker(seed), Random(f"poison {seed}")
    memory = arm != "without"
    settings = {**SETTINGS, "remember": memory, "recall": memory, **PARTS.get(arm, {})}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((Scripted(worker),)))
    for number, task in enumerate(stream(seed, rounds)):
        _cleared(folder)
        task.lay_out(folder)
        day = worker.begin(number, task)
        result = await fractal.run(task.text, yes=True)
        done = result.exit == 0 and task.right(folder)
        steps = sum(
            step.state in ("done", "failed") for step in fractal.root_document(result.run).steps.values()
        )
        context, unused = day.context
        spent = (steps, day.calls, day.prompt_tokens, context, unused, day.guidance)
        warned = day.heard is not None and day.heard.warned
        row = Row(seed, number, task.kind, done, day.mistaken, warned, *spent)
        into.rows.append(row)
        if memory:
            said = done if arm != "poisoned" or wrong.random() >= POISON else not done
            fractal.feedback(result.run, said)  # what a run teaches is learned by itself
    if memory:
        into.coverage.append(covered(fractal))


def covered(fractal: Fractal) -> float:
    """The share of the task types that the library has a pattern for."""
    memory = fractal.memory
    found = [bool(memory.library.relevant(memory.kinds.of(task.text))) for task in stream(-1, 1)]
    return sum(found) / len(found)


def _cleared(folder: Path) -> None:
    for each in folder.iterdir():
        if each.name != ".fractal":
            shutil.rmtree(each) if each.is_dir() else each.unlink()


# ---- figures -----------------------------------------------------------------------------------------------


def figures(made: Mapping[str, Arm], rounds: int) -> dict[str, Any]:
    """Means at the end of the stream, each arm against the one without memory, task by task."""
    size = rounds * len(KINDS)
    last = {arm: [row for row in found.rows if row.number >= size * (1 - END)] for arm, found in made.items()}
    told: dict[str, Any] = {"tasks": size, "seeds": len({row.seed for row in next(iter(made.values())).rows})}
    for arm, found in made.items():
        whole = _means(last[arm])
        whole["ci"] = _interval([float(row.done) for row in last[arm]])
        whole["by_kind"] = {
            kind: _means([r for r in last[arm] if r.kind == kind])["success"] for kind in KINDS
        }
        whole["over_time"] = [_means(part) for part in _quarters(found.rows, size)]
        whole["coverage"] = round(sum(found.coverage) / len(found.coverage), 4) if found.coverage else 0.0
        whole["repeated"] = _repeated(found.rows)
        whole["warned"] = round(sum(row.warned for row in last[arm]) / max(len(last[arm]), 1), 4)
        whole["seconds"] = round(found.seconds, 1)
        if arm != "without" and "without" in made:
            whole["against_without"] = _against(last[arm], last["without"])
        told[arm] = whole
    told["guidance_tokens_max"] = max(row.guidance for found in made.values() for row in found.rows)
    told["coverage"] = told.get("with", {}).get("coverage", 0.0)
    return told


_FIGURES = {
    "success": "done",
    "steps": "steps",
    "calls": "calls",
    "tokens": "tokens",
    "unused_context": "unused",
}


def _means(rows: Sequence[Row]) -> dict[str, Any]:
    count = max(len(rows), 1)
    return {
        name: round(sum(float(getattr(row, key)) for row in rows) / count, 4)
        for name, key in _FIGURES.items()
    }


def _repeated(rows: Sequence[Row]) -> float | None:
    """How often a mistake is made once guidance has warned of it in that stream, shown again or not."""
    known: set[tuple[int, str]] = set()
    later: list[bool] = []
    for row in sorted(rows, key=lambda row: (row.seed, row.number)):
        if (row.seed, row.kind) in known:
            later.append(row.mistaken)
        elif row.warned:
            known.add((row.seed, row.kind))
    return round(sum(later) / len(later), 4) if later else None


def _quarters(rows: Sequence[Row], size: int) -> list[list[Row]]:
    return [[row for row in rows if row.number * 4 // size == quarter] for quarter in range(4)]


def _against(rows: Sequence[Row], base: Sequence[Row]) -> dict[str, Any]:
    """The difference to the arm without memory, task by task: of success in points, else in parts."""
    pairs = list(zip(rows, base, strict=True))
    told: dict[str, Any] = {}
    for name, key in _FIGURES.items():
        values = [(float(getattr(a, key)), float(getattr(b, key))) for a, b in pairs]
        told[name] = {"difference": _difference(values, name), "ci": _bootstrap(values, name)}
    return told


def _difference(values: Sequence[tuple[float, float]], name: str) -> float:
    mine, base = (sum(side) for side in zip(*values, strict=True))
    return round(
        (mine - base) / len(values) if name == "success" else (mine - base) / base if base else 0.0, 4
    )


def _bootstrap(values: Sequence[tuple[float, float]], name: str) -> list[float]:
    random = Random("bootstrap")
    found = sorted(_difference(random.choices(values, k=len(values)), name) for _ in range(DRAWS))
    return [found[DRAWS // 40], found[-DRAWS // 40 - 1]]


def _interval(values: Sequence[float]) -> list[float]:
    random = Random("interval")
    found = sorted(sum(random.choices(values, k=len(values))) / len(values) for _ in range(DRAWS))
    return [round(found[DRAWS // 40], 4), round(found[-DRAWS // 40 - 1], 4)]


def missed(told: Mapping[str, Any]) -> list[str]:
    """The goals that were not reached."""
    with_, poisoned = told["with"], told["poisoned"]
    gained = {name: each["difference"] for name, each in with_["against_without"].items()}
    found = [f"success {gained['success']:+.1%}"] if gained["success"] < GOALS["success"] else []
    for name in ("steps", "calls", "unused_context"):
        found += [f"{name} {gained[name]:+.1%}"] if gained[name] > -GOALS[name] else []
    found += [f"coverage {told['coverage']:.0%}"] if told["coverage"] < GOALS["coverage"] else []
    found += (
        [f"guidance {told['guidance_tokens_max']}"] if told["guidance_tokens_max"] > GOALS["guidance"] else []
    )
    again = with_["repeated"] or 0.0
    found += [f"mistakes that were warned of came again {again:.1%}"] if again > GOALS["repeated"] else []
    poison = poisoned["against_without"]["success"]["difference"]
    return found + ([f"poisoned {poison:+.1%}"] if poison < 0 else [])


def table(told: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["arm", "success", "steps", "calls", "tokens", "unused context", "warned"]
    rows: list[list[str]] = []
    for arm in (arm for arm in (*ARMS, *PARTS) if arm in told):
        each = told[arm]
        low, high = each["ci"]
        success = f"{each['success']:.1%} ({low:.0%}–{high:.0%})"
        counts = [f"{each['steps']:.2f}", f"{each['calls']:.2f}", f"{each['tokens']:.0f}"]
        rows.append([arm, success, *counts, f"{each['unused_context']:.0f}", f"{each['warned']:.0%}"])
        if against := each.get("against_without"):
            shown = [
                f"{against[n]['difference']:+.1%} ({against[n]['ci'][0]:+.0%} … {against[n]['ci'][1]:+.0%})"
                for n in _FIGURES
            ]
            rows.append([f"{arm} against without", *shown, ""])
    return markdown(heads, rows)


def main(
    as_json: bool,
    seeds: int = SEEDS,
    rounds: int = ROUNDS,
    parts: bool = False,
    first: int = FIRST,
    report: Path | None = None,
) -> None:
    """Measure and print; or write a page of what one stream teaches."""
    if report is not None:
        return write(report, first, rounds)
    told = measure(seeds, rounds, (*ARMS, *PARTS) if parts else ARMS, first=first)
    size = f"{told['seeds']} streams of {told['tasks']} tasks of {len(KINDS)} types"
    rates = ", ".join(f"{kind} {each.rate:.0%}" for kind, each in HAZARDS.items())
    text = (
        f"{size}; the last {END:.0%} of each:\n\n{table(told)}\n\nrates of the mistakes: {rates}\n"
        f"types with a pattern: {told['coverage']:.0%}; "
        f"guidance: at most {told['guidance_tokens_max']} tokens; "
        f"mistakes that came again after a warning: {told['with']['repeated'] or 0:.1%}"
    )
    return show(told, text, as_json, missed(told))


PATTERNS = 10
"""On the page."""
STREAMS = 4
"""That are played at most."""
CHARS = 110
"""Of a task."""
ARM = "patterns alone"


def write(path: Path, seed: int, rounds: int) -> None:
    """Play streams and write the page."""
    parts: dict[str, list[str]] = {}
    streams = 0
    while len(parts) < PATTERNS and streams < STREAMS:
        with tempfile.TemporaryDirectory(prefix="fractal-learned-") as folder:
            asyncio.run(stream_in(Path(folder), ARM, seed + streams, rounds, Arm()))
            streams += 1
            for name, lines in taught(Path(folder), streams).items():
                if len(parts) < PATTERNS:
                    parts.setdefault(name, lines)
    head = _head(len(parts), streams, seed, rounds)
    text = "\n".join(["# Learned patterns", "", *head, *chain.from_iterable(parts.values())])
    path.write_text(text + "\n", "utf-8")
    print(f"{path}: {len(parts)} patterns of {streams} streams", file=sys.stderr)


def taught(folder: Path, stream: int) -> dict[str, list[str]]:
    """What stands in a workspace where a stream was played: a section for each pattern that is in use."""
    fractal = Fractal(folder)
    found: dict[str, list[str]] = {}
    for each in chosen(fractal.memory.library.patterns()):
        whole = ["", f"## {each.title}", "", "````markdown", _file(fractal, each), "````", ""]
        found[each.name] = [*whole, f"From stream {stream}:", "", *_runs(fractal, each)]
    return found


def chosen(known: Sequence[Pattern]) -> list[Pattern]:
    """Ten: the surest of each type of task first, then the next ones; those found by comparing come first."""
    ranked = sorted(known, key=lambda each: (each.origin == "distilled", -each.confidence, each.name))
    places: dict[str, int] = {}
    order: list[tuple[bool, int, int, Pattern]] = []
    for at, each in enumerate(ranked):
        turn = places[each.types[0]] = places.get(each.types[0], 0) + 1
        order.append((each.origin == "distilled", turn, at, each))
    return [each for _, _, _, each in sorted(order, key=lambda one: one[:3])[:PATTERNS]]


def _head(count: int, streams: int, seed: int, rounds: int) -> Iterator[str]:
    yield f"{count} patterns as their files stood in `state/memory/patterns/` after streams of tasks were"
    yield f"done: those of the first stream, then what {streams - 1} more taught beside. Of each stream,"
    yield "those found by comparing attempts come before mere habits, and the surest of each type of task"
    yield "before the rest. Nothing here is written by hand; this makes the page:"
    yield ""
    yield "```text"
    yield f"python -m bench learning --first-seed {seed} --rounds {rounds} --report docs/learned-patterns.md"
    yield "```"
    yield ""
    yield "The worker is code with known mistakes, so that it is known what there is to learn; of memory it"
    yield (
        "is shown patterns alone, no solved tasks: [Learning](learning.md#what-it-contributes). "
        "Runs are named"
    )
    yield "anew each time."


def _file(fractal: Fractal, pattern: Pattern) -> str:
    return (fractal.memory.library.folder / f"{pattern.name}.md").read_text("utf-8").strip()


def _runs(fractal: Fractal, pattern: Pattern) -> Iterator[str]:
    for source in pattern.sources:
        run = Path(source).parent.name
        root = fractal.root_document(run)
        task = " ".join(root.task.split())
        yield f"- run {run}: {task if len(task) <= CHARS else task[:CHARS] + '…'}"
