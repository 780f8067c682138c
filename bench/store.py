"""The default store: time of each operation and memory of a process, by number of records.

Vectors are drawn around centres, like those of texts. A new process opens a store that another has filled.
Records are put one by one with fsync, as a run does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bench.harness import (
    Figures,
    disk_mb,
    in_new_process,
    made_up_word,
    markdown,
    p50_p95,
    peak_mb,
    percentiles,
    timed,
)
from runtime.memory.store import Record, open_shelf, pack

SIZE = 384
CENTRES = 1_000
TIMES = 60
"""Measurements of each operation."""
GOALS: Mapping[int, float] = {10_000: 5.0, 100_000: 30.0}
"""Milliseconds of a nearest-neighbour search (median) by number of records. Source: performance.md."""
OPERATIONS = ("nearest", "get", "search", "put")


class Task(Record):
    """A record like those of procedural memory: a text, a vector and a field."""

    KIND: ClassVar[str] = "task"

    uses: int = 0


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """The figures by number of records. `p50_ms` and `p95_ms` are those of `nearest`."""
    figures: dict[str, Any] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), size)
            figures[str(size)] = in_new_process(operations, folder, size)
    return {"records": figures}


def fill(folder: Path, size: int) -> None:
    """Fill a store."""
    shelf = open_shelf("sqlite", folder, fsync=False)
    for start, rows in vectors(size):
        shelf.put(*(_task(number, row) for number, row in enumerate(rows, start)))
    shelf.close()


def vectors(size: int) -> Iterator[tuple[int, Any]]:
    """Batches of random unit vectors around centres, each with the number of its first row."""
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((CENTRES, SIZE), np.float32)
    for start in range(0, size, 5000):
        count = min(5000, size - start)
        rows = centres[rng.integers(CENTRES, size=count)] + rng.standard_normal((count, SIZE), np.float32)
        yield start, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _task(number: int, row: Any) -> Task:
    first, second, third = (_word(number // divisor) for divisor in (1, 7, 49))
    text = f"count the {first} of {second} in file{number}.md, then sort {third}"
    return Task(id=f"{number:07}", text=text, vectors={"bench": pack(row)}, uses=number % 10)


def _word(number: int) -> str:
    return made_up_word(number, 3)


def operations(folder: str, size: int) -> dict[str, Any]:
    """The figures of a process that opens the store."""
    shelf = open_shelf("sqlite", Path(folder))
    _, queries = next(vectors(TIMES))
    _, first = timed(shelf.nearest, Task, "bench", queries[0])
    calls: dict[str, Callable[[int], object]] = {
        "nearest": lambda n: shelf.nearest(Task, "bench", queries[n]),
        "get": lambda n: shelf.get(Task, f"{n * 997 % size:07}"),
        "search": lambda n: shelf.search(Task, f"{_word(n * 31)} in file{n * 997 % size}"),
        "put": lambda n: shelf.put(_task(size + n, queries[n])),
    }
    figures = {
        name: percentiles([timed(call, n)[1] for n in range(TIMES)], 3) for name, call in calls.items()
    }
    memory, disk = peak_mb(), disk_mb(Path(folder))
    shelf.close()
    return {**figures["nearest"], "mb": memory, "disk_mb": disk, "first_ms": round(first, 1), **figures}


def table(figures: Figures) -> str:
    """The figures as markdown."""
    times = [f"{name}: ms, p50 · p95" for name in OPERATIONS]
    heads = ["records", *times, "first nearest: ms", "MB", "MB on disk"]
    rows: list[list[str]] = []
    for size, each in figures["records"].items():
        single = [f"{each[name]:.0f}" for name in ("first_ms", "mb", "disk_mb")]
        rows.append([f"{int(size):,}", *(p50_p95(each[name], 2) for name in OPERATIONS), *single])
    goal = ", ".join(f"≤ {goal:g} at {size:,}" for size, goal in GOALS.items())
    return markdown(heads, [*rows, ["goal", goal, *[""] * (len(heads) - 2)]], left=0)


def missed(figures: Figures) -> list[str]:
    """Sizes at which `nearest` takes longer than its goal."""
    medians = {size: figures["records"].get(str(size), {}).get("p50_ms", 0) for size in GOALS}
    return [f"nearest of {size:,}: {ms} ms" for size, ms in medians.items() if ms > GOALS[size]]
