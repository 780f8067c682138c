"""The default store: milliseconds of each operation and the memory of a process, by the number of records.

Vectors are drawn around centres, as those of texts lie; each size is measured in a process of its own, which
opens a store that another has filled. Records are put one by one with fsync, as a run puts them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.harness import disk_mb, in_new_process, milliseconds, p50_p95, peak_mb, percentiles, show
from bench.harness import table as markdown
from runtime.memory.store import Record, open_shelf, pack

SIZES = (1_000, 10_000, 100_000)
SIZE = 384
CENTRES = 1_000
TIMES = 60
"""How often each operation is measured."""
GOALS: Mapping[int, float] = {10_000: 5.0, 100_000: 30.0}
"""Milliseconds to the nearest, median. Source: performance.md."""
OPERATIONS = ("nearest", "get", "search", "put")


class Task(Record):
    """A record as procedural memory keeps them: a text, a vector and some fields."""

    KIND: ClassVar[str] = "task"

    uses: int = 0


def measure(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """The figures by number of records. `p50_ms`, `p95_ms` are those of nearest."""
    return {"records": {str(size): _measured(size) for size in sizes}}


def _measured(size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), size)
        return in_new_process("bench.store", folder, str(size))


def fill(folder: Path, size: int) -> None:
    """Fill a store."""
    shelf = open_shelf("sqlite", folder, fsync=False)
    for start, rows in vectors(size):
        names = range(start, start + len(rows))
        shelf.put(*(_task(number, row) for number, row in zip(names, rows, strict=True)))
    shelf.close()


def vectors(size: int) -> Iterator[tuple[int, Any]]:
    """Rows of unit length around centres, some thousand at a time."""
    import numpy as np

    rng = np.random.default_rng(1)
    centres = rng.standard_normal((CENTRES, SIZE), np.float32)
    for start in range(0, size, 5000):
        count = min(5000, size - start)
        rows = centres[rng.integers(CENTRES, size=count)] + rng.standard_normal((count, SIZE), np.float32)
        yield start, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _task(number: int, row: Any) -> Task:
    words = [_word(number), _word(number // 7), _word(number // 49)]
    text = "count the {} of {} in file{}.md, then sort {}".format(*words[:2], number, words[2])
    return Task(id=f"{number:07}", text=text, vectors={"bench": pack(row)}, uses=number % 10)


def _word(number: int) -> str:
    return "".join("bdfgklmnprst"[number // 12**n % 12] + "aeiou"[number // 5**n % 5] for n in range(3))


def operations(folder: Path, size: int) -> dict[str, Any]:
    """What a process that opens the store measures."""
    shelf = open_shelf("sqlite", folder)
    _, queries = next(vectors(TIMES))
    first = milliseconds(lambda: shelf.nearest(Task, "bench", queries[0]))
    asks: dict[str, Callable[[int], object]] = {
        "nearest": lambda n: shelf.nearest(Task, "bench", queries[n]),
        "get": lambda n: shelf.get(Task, f"{n * 997 % size:07}"),
        "search": lambda n: shelf.search(Task, f"{_word(n * 31)} in file{n * 997 % size}"),
        "put": lambda n: shelf.put(_task(size + n, queries[n])),
    }
    figures = {name: _repeated(asks[name]) for name in OPERATIONS}
    memory, disk = peak_mb(), disk_mb(folder)
    shelf.close()
    return {
        **figures["nearest"],
        "mb": memory,
        "disk_mb": disk,
        "first_ms": round(first, 1),
        **{name: figures[name] for name in OPERATIONS},
    }


def _repeated(ask: Callable[[int], object]) -> dict[str, float]:
    return percentiles([milliseconds(lambda: ask(number)) for number in range(TIMES)], 3)  # noqa: B023


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    times = [f"{name}: ms, p50 · p95" for name in OPERATIONS]
    heads = ["records", *times, "first nearest: ms", "MB", "MB on disk"]
    rows: list[list[str]] = []
    for size, each in figures["records"].items():
        told = [f"{each[name]:.0f}" for name in ("first_ms", "mb", "disk_mb")]
        rows.append([f"{int(size):,}", *(p50_p95(each[name], 2) for name in OPERATIONS), *told])
    goal = ", ".join(f"≤ {goal:g} at {size:,}" for size, goal in GOALS.items())
    return markdown(heads, [*rows, ["goal", goal, *[""] * (len(heads) - 2)]], left=0)


def missed(figures: Mapping[str, Any]) -> list[str]:
    """Sizes at which the nearest take longer than their goal."""
    slow = {size: figures["records"].get(str(size), {}).get("p50_ms", 0) for size in GOALS}
    return [f"nearest of {size:,}: {ms} ms" for size, ms in slow.items() if ms > GOALS[size]]


def main(as_json: bool = False, sizes: Sequence[int] = SIZES) -> None:
    """Measure and print."""
    figures = measure(sizes)
    show(figures, table(figures), as_json, missed(figures))


if __name__ == "__main__":
    print(json.dumps(operations(Path(sys.argv[1]), int(sys.argv[2]))))
