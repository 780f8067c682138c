"""A page of what streams of the bench teach: ten patterns as their files have them, and from which runs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from runtime.bench.learning import Arm, stream_in
from runtime.fractal import Fractal
from runtime.memory.learning.patterns import Pattern

PATTERNS = 10
"""On the page."""
STREAMS = 4
"""That are played at most."""
CHARS = 110
"""Of a task."""
ARM = "patterns alone"


def write(path: Path, seed: int, rounds: int) -> int:
    """Play streams and write the page; 1 where they taught fewer than ten patterns."""
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
    return int(len(parts) < PATTERNS)


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
    yield f"fractal bench learning --first-seed {seed} --rounds {rounds} --report docs/learned-patterns.md"
    yield "```"
    yield ""
    yield "The worker is code with known mistakes, so that it is known what there is to learn; of memory it"
    yield "is shown patterns alone, no solved tasks: [Learning](learning.md#what-it-brings). Runs are named"
    yield "anew each time."


def _file(fractal: Fractal, pattern: Pattern) -> str:
    return (fractal.memory.library.folder / f"{pattern.name}.md").read_text("utf-8").strip()


def _runs(fractal: Fractal, pattern: Pattern) -> Iterator[str]:
    for source in pattern.sources:
        run = Path(source).parent.name
        root = fractal.root_document(run)
        task = " ".join(root.task.split())
        yield f"- run {run}: {task if len(task) <= CHARS else task[:CHARS] + '…'}"
