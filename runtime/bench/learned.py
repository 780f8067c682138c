"""A page of what one stream of the bench teaches: ten patterns as their files have them, and from which runs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.bench.learning import Arm, stream_in
from runtime.fractal import Fractal
from runtime.memory.learning.patterns import Pattern

PATTERNS = 10
"""On the page."""
CHARS = 110
"""Of a task."""
ARM = "patterns alone"


def write(path: Path, seed: int, rounds: int) -> int:
    """Play the stream and write the page; 1 where fewer patterns than ten were learned."""
    with tempfile.TemporaryDirectory(prefix="fractal-learned-") as folder:
        asyncio.run(stream_in(Path(folder), ARM, seed, rounds, Arm()))
        text, count = page(Path(folder), seed, rounds)
    path.write_text(text, "utf-8")
    print(f"{path}: {min(count, PATTERNS)} of {count} patterns", file=sys.stderr)
    return int(count < PATTERNS)


def page(folder: Path, seed: int, rounds: int) -> tuple[str, int]:
    """The page on a workspace where a stream was played, and how many patterns are in use there."""
    fractal = Fractal(folder)
    known = fractal.memory.library.patterns()
    lines = ["# Learned patterns", "", *_head(known, seed, rounds)]
    for each in chosen(known):
        lines += ["", f"## {each.title}", "", "````markdown", _file(fractal, each), "````", ""]
        lines += ["It came from:", "", *_runs(fractal, each)]
    return "\n".join(lines) + "\n", len(known)


def chosen(known: Sequence[Pattern]) -> list[Pattern]:
    """Ten: the surest of each type of task first, then the next ones; those found by comparing come first."""
    ranked = sorted(known, key=lambda each: (each.origin == "distilled", -each.confidence, each.name))
    places: dict[str, int] = {}
    order: list[tuple[bool, int, int, Pattern]] = []
    for at, each in enumerate(ranked):
        turn = places[each.types[0]] = places.get(each.types[0], 0) + 1
        order.append((each.origin == "distilled", turn, at, each))
    return [each for _, _, _, each in sorted(order, key=lambda one: one[:3])[:PATTERNS]]


def _head(known: Sequence[Pattern], seed: int, rounds: int) -> Iterator[str]:
    compared = sum(each.origin != "distilled" for each in known)
    yield f"Ten of the {len(known)} patterns that stood in `state/memory/patterns/` after a stream of tasks:"
    yield f"{compared} found by comparing attempts, {len(known) - compared} habits of attempts that went well."
    yield "The surest of each type of task come first. Nothing here is written by hand; this makes the page:"
    yield ""
    yield "```text"
    yield f"fractal bench learning --first-seed {seed} --rounds {rounds} --report docs/learned-patterns.md"
    yield "```"
    yield ""
    yield "The worker is code with known mistakes, so that it is known what there is to learn:"
    yield "[Learning](learning.md#what-it-brings). Which attempts come together differs from run to run."


def _file(fractal: Fractal, pattern: Pattern) -> str:
    return (fractal.memory.library.folder / f"{pattern.name}.md").read_text("utf-8").strip()


def _runs(fractal: Fractal, pattern: Pattern) -> Iterator[str]:
    for source in pattern.sources:
        run = Path(source).parent.name
        root = fractal.root_document(run)
        task = " ".join(root.task.split())
        yield f"- run {run}: {task if len(task) <= CHARS else task[:CHARS] + '…'}"
