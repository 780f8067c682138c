"""What learning contributes: a worker with known mistakes does streams of tasks, with and without memory.

The worker is code in the place of a model. It reads the prompt that is sent, and makes the usual mistake of a
task's type unless guidance in the prompt warns of it. Each task runs through the whole runtime, on real
files, and comes once, so its guidance was learned from other tasks. After each task a person says whether it
was done; in the arm `poisoned` every fifth statement is wrong.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from bench.apprentice.reader import HAZARDS
from bench.apprentice.tasks import KINDS, stream
from bench.apprentice.worker import Worker
from bench.harness import Figures, cost, markdown
from kernel.asking.responder import Ladder
from runtime.api.fractal import Fractal
from runtime.memory.learning.patterns import Pattern
from runtime.models.scripted import Scripted

PROCESSES = 2
END = 0.4
"""The part of a stream that counts as its end."""
POISON = 0.2
"""The share of wrong feedback in the arm `poisoned`."""
ARMS = ("with", "without", "poisoned")
PARTS: Mapping[str, Mapping[str, Any]] = {
    "patterns alone": {"shown": ["patterns"]},
    "solved tasks alone": {"shown": ["files", "similar tasks", "others"], "learn": "off"},
}
"""Arms with a part of memory, and their settings."""
SETTINGS: Mapping[str, Any] = {
    "sandbox": "off",
    "check": "always",
    "fsync": False,
    "embedder": "lexical",
    "usd": None,
}
SAMPLES = 2_000
"""Of the bootstrap."""
GOALS = {
    "success": 0.10,
    "steps": 0.15,
    "calls": 0.15,
    "unused_context": 0.20,
    "coverage": 0.80,
    "guidance": 500,
    "repeated": 0.05,
}
"""At least: points of success gained; shares of steps, calls and unused context saved; share of types with a
pattern. At most: tokens of guidance; share of mistakes repeated after a warning. Source: the seed's §12, and
performance.md."""
MEANS = {
    "success": "done",
    "steps": "steps",
    "calls": "calls",
    "tokens": "tokens",
    "unused_context": "unused",
}
"""Figures that are means of a field of `Row`."""


@dataclass(frozen=True)
class Row:
    """The outcome of one task in one arm."""

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
    """The outcomes of one arm."""

    rows: list[Row] = field(default_factory=list[Row])
    coverage: list[float] = field(default_factory=list[float])
    seconds: float = 0.0


def measure(
    seeds: int,
    rounds: int,
    arms: Sequence[str] = ARMS,
    *,
    first: int = 2,
    parts: bool = False,
    processes: int = PROCESSES,
) -> dict[str, Any]:
    """The figures of each arm, and with `parts` of those with a part of memory."""
    arms = (*arms, *PARTS) if parts else arms
    results = {arm: Arm() for arm in arms}
    jobs = [(arm, seed, rounds) for seed in range(first, first + seeds) for arm in arms]
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            played = list(pool.map(_play, jobs))
    else:
        played = list(map(_play, jobs))
    for (arm, _, _), one in zip(jobs, played, strict=True):
        results[arm].rows += one.rows
        results[arm].coverage += one.coverage
        results[arm].seconds += one.seconds
    return figures_of(results, rounds)


def _play(job: tuple[str, int, int]) -> Arm:
    """One stream in one arm."""
    with tempfile.TemporaryDirectory(prefix="fractal-learning-") as folder, cost() as spent:
        arm = asyncio.run(play(Path(folder), *job))
    arm.seconds = spent.wall
    return arm


async def play(folder: Path, arm: str, seed: int, rounds: int) -> Arm:
    """Play one stream in one arm, in an empty folder."""
    result, worker, poison = Arm(), Worker(seed), Random(f"poison {seed}")
    memory = arm != "without"
    settings = {**SETTINGS, "remember": memory, "recall": memory, **PARTS.get(arm, {})}
    fractal = Fractal(folder, settings=settings, ladder=Ladder((Scripted(worker),)))
    for number, task in enumerate(stream(seed, rounds)):
        _clear(folder)
        task.lay_out(folder)
        day = worker.begin(number, task)
        run = await fractal.run(task.text, yes=True)
        done = run.exit == 0 and task.is_done(folder)
        steps = fractal.root_document(run.run).steps.values()
        taken = sum(step.state in ("done", "failed") for step in steps)
        spent = (taken, day.calls, day.prompt_tokens, *day.context, day.guidance)
        warned = day.advice is not None and day.advice.warns
        result.rows.append(Row(seed, number, task.kind, done, day.mistaken, warned, *spent))
        if memory:
            true = arm != "poisoned" or poison.random() >= POISON
            fractal.feedback(run.run, done is true)
    if memory:
        kinds, library = fractal.memory.brain.kinds, fractal.memory.library
        known = [bool(library.relevant(kinds.of(task.text))) for task in stream(-1, 1)]
        result.coverage.append(sum(known) / len(known))
    return result


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and path.name != ".fractal":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


# ---- figures -----------------------------------------------------------------------------------------------


def figures_of(arms: Mapping[str, Arm], rounds: int) -> dict[str, Any]:
    """Means at the end of the streams, and each arm compared with the one without memory, task by task."""
    size = rounds * len(KINDS)
    end = {arm: [row for row in each.rows if row.number >= size * (1 - END)] for arm, each in arms.items()}
    seeds = {row.seed for each in arms.values() for row in each.rows}
    figures: dict[str, Any] = {"tasks": size, "seeds": len(seeds)}
    for arm, each in arms.items():
        rows = end[arm]
        by_kind = {kind: [row for row in rows if row.kind == kind] for kind in KINDS}
        quarters = [[row for row in each.rows if row.number * 4 // size == n] for n in range(4)]
        figures[arm] = {
            **_means(rows),
            "ci": _interval([float(row.done) for row in rows], _mean, "interval"),
            "by_kind": {kind: _means(some)["success"] for kind, some in by_kind.items()},
            "over_time": [_means(quarter) for quarter in quarters],
            "coverage": _mean(each.coverage),
            "repeated": _repeated(each.rows),
            "warned": _mean([row.warned for row in rows]),
            "seconds": round(each.seconds, 1),
        }
        if arm != "without" and "without" in arms:
            figures[arm]["against_without"] = _compared(rows, end["without"])
    figures["guidance_tokens_max"] = max(row.guidance for each in arms.values() for row in each.rows)
    figures["coverage"] = figures.get("with", {}).get("coverage", 0.0)
    return figures


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / max(len(values), 1), 4)


def _means(rows: Sequence[Row]) -> dict[str, float]:
    return {name: _mean([float(getattr(row, key)) for row in rows]) for name, key in MEANS.items()}


def _repeated(rows: Sequence[Row]) -> float | None:
    """The share of mistakes made after guidance of that stream has warned of them."""
    warned: set[tuple[int, str]] = set()
    later: list[bool] = []
    for row in sorted(rows, key=lambda row: (row.seed, row.number)):
        if (row.seed, row.kind) in warned:
            later.append(row.mistaken)
        elif row.warned:
            warned.add((row.seed, row.kind))
    return _mean(later) if later else None


def _compared(rows: Sequence[Row], base: Sequence[Row]) -> dict[str, Any]:
    """The differences to the arm without memory: of success in points, of the others relative."""
    compared: dict[str, Any] = {}
    for name, key in MEANS.items():
        pairs = [(float(getattr(a, key)), float(getattr(b, key))) for a, b in zip(rows, base, strict=True)]

        def difference(pairs: Sequence[tuple[float, float]], points: bool = name == "success") -> float:
            mine, base = (sum(side) for side in zip(*pairs, strict=True))
            whole = len(pairs) if points else base
            return round((mine - base) / whole if whole else 0.0, 4)

        compared[name] = {"difference": difference(pairs), "ci": _interval(pairs, difference, "bootstrap")}
    return compared


def _interval(values: Sequence[Any], statistic: Callable[[Sequence[Any]], float], seed: str) -> list[float]:
    """The 95 % interval of a statistic, by bootstrap."""
    random = Random(seed)
    drawn = sorted(statistic(random.choices(values, k=len(values))) for _ in range(SAMPLES))
    return [drawn[SAMPLES // 40], drawn[-SAMPLES // 40 - 1]]


def missed(figures: Figures) -> list[str]:
    """The missed goals."""
    compared = figures["with"]["against_without"]
    gained = {name: each["difference"] for name, each in compared.items()}
    repeated, guidance = figures["with"]["repeated"] or 0.0, figures["guidance_tokens_max"]
    poisoned = figures["poisoned"]["against_without"]["success"]["difference"]
    goals = {f"success {gained['success']:+.1%}": gained["success"] < GOALS["success"]}
    for name in ("steps", "calls", "unused_context"):
        goals[f"{name} {gained[name]:+.1%}"] = gained[name] > -GOALS[name]
    goals |= {
        f"coverage {figures['coverage']:.0%}": figures["coverage"] < GOALS["coverage"],
        f"guidance {guidance}": guidance > GOALS["guidance"],
        f"mistakes repeated after a warning {repeated:.1%}": repeated > GOALS["repeated"],
        f"poisoned {poisoned:+.1%}": poisoned < 0,
    }
    return [goal for goal, fails in goals.items() if fails]


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["arm", "success", "steps", "calls", "tokens", "unused context", "warned"]
    rows: list[list[str]] = []
    for arm in (arm for arm in (*ARMS, *PARTS) if arm in figures):
        each = figures[arm]
        low, high = each["ci"]
        success = f"{each['success']:.1%} ({low:.0%}–{high:.0%})"
        counts = [f"{each['steps']:.2f}", f"{each['calls']:.2f}", f"{each['tokens']:.0f}"]
        rows.append([arm, success, *counts, f"{each['unused_context']:.0f}", f"{each['warned']:.0%}"])
        if "against_without" in each:
            cells = [
                f"{one['difference']:+.1%} ({one['ci'][0]:+.0%} … {one['ci'][1]:+.0%})"
                for one in each["against_without"].values()
            ]
            rows.append([f"{arm} against without", *cells, ""])
    rates = ", ".join(f"{kind} {hazard.rate:.0%}" for kind, hazard in HAZARDS.items())
    return (
        f"{figures['seeds']} streams of {figures['tasks']} tasks of {len(KINDS)} types; the last {END:.0%} "
        f"of each:\n\n{markdown(heads, rows)}\n\nrates of the mistakes: {rates}\n"
        f"types with a pattern: {figures['coverage']:.0%}; "
        f"guidance: at most {figures['guidance_tokens_max']} tokens; "
        f"mistakes repeated after a warning: {figures['with']['repeated'] or 0:.1%}"
    )


# ---- the page of learned patterns ------------------------------------------------------------------------

PATTERNS = 10
"""On the page."""
STREAMS = 4
"""Played at most."""
CHARS = 110
"""Of a task."""
_PAGE = """# Learned patterns

{count} patterns as they are in `state/memory/patterns/` after {streams} streams of tasks. From each
stream, patterns found by comparing attempts come before habits, and the pattern with the highest confidence
of each type of task before the others. Nothing on this page is written by hand:

```text
python -m bench learning --first-seed {seed} --rounds {rounds} --report docs/learned-patterns.md
```

The worker is code with known mistakes, so it is known what can be learned. From memory it receives
patterns alone, no solved tasks: [Learning](learning.md#what-it-contributes). The ids of runs differ each
time.
"""


def write_page(path: Path, seed: int, rounds: int) -> None:
    """Play streams and write the page."""
    sections: dict[str, str] = {}
    streams = 0
    while len(sections) < PATTERNS and streams < STREAMS:
        with tempfile.TemporaryDirectory(prefix="fractal-learned-") as folder:
            asyncio.run(play(Path(folder), "patterns alone", seed + streams, rounds))
            streams += 1
            fractal = Fractal(Path(folder))
            for pattern in _chosen(fractal.memory.library.patterns()):
                if len(sections) < PATTERNS and pattern.name not in sections:
                    sections[pattern.name] = "\n".join(_section(fractal, pattern, streams))
    head = _PAGE.format(count=len(sections), streams=streams, seed=seed, rounds=rounds)
    path.write_text("\n".join([head.rstrip("\n"), *sections.values(), ""]), "utf-8")
    print(f"{path}: {len(sections)} patterns of {streams} streams", file=sys.stderr)


def _chosen(patterns: Sequence[Pattern]) -> list[Pattern]:
    """The ten of the page, in order."""
    ranked = sorted(patterns, key=lambda each: (each.origin == "distilled", -each.confidence, each.name))
    seen: dict[str, int] = {}
    rank: dict[str, int] = {}
    for pattern in ranked:
        rank[pattern.name] = seen[pattern.types[0]] = seen.get(pattern.types[0], 0) + 1
    return sorted(ranked, key=lambda each: (each.origin == "distilled", rank[each.name]))[:PATTERNS]


def _section(fractal: Fractal, pattern: Pattern, stream: int) -> Iterator[str]:
    file = fractal.memory.library.folder / f"{pattern.name}.md"
    yield from ("", f"## {pattern.title}", "", "````markdown", file.read_text("utf-8").strip(), "````", "")
    yield from (f"From stream {stream}:", "")
    for source in pattern.sources:
        run = Path(source).parent.name
        task = " ".join(fractal.root_document(run).task.split())
        yield f"- run {run}: {task if len(task) <= CHARS else task[:CHARS] + '…'}"
