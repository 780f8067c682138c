"""The default store: milliseconds of each operation and the memory of a process, by the number of records.

Vectors are drawn around centres, as those of texts lie; each size is measured in a process of its own, which
opens a store that another has filled. Records are put one by one with fsync, as a run puts them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from runtime.store import Record, open_shelf, pack

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
        words = [sys.executable, "-m", "runtime.bench.store", folder, str(size)]
        ran = subprocess.run(words, capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        return json.loads(ran.stdout)


def fill(folder: Path, size: int) -> None:
    """Fill a store; beyond very many records, with its index."""
    shelf = open_shelf("sqlite", folder, fsync=False)
    row: Any = None
    for start, rows in vectors(size):
        row = rows[0]
        names = range(start, start + len(rows))
        shelf.put(*(_task(number, row) for number, row in zip(names, rows, strict=True)))
    if size > max(SIZES):
        shelf.rebuild()
    shelf.nearest(Task, "bench", row)  # as in a workspace where others have asked before
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
    import resource

    shelf = open_shelf("sqlite", folder)
    _, queries = next(vectors(TIMES))
    began = time.perf_counter()
    shelf.nearest(Task, "bench", queries[0])
    first = (time.perf_counter() - began) * 1000
    asks: dict[str, Callable[[int], object]] = {
        "nearest": lambda n: shelf.nearest(Task, "bench", queries[n]),
        "get": lambda n: shelf.get(Task, f"{n * 997 % size:07}"),
        "search": lambda n: shelf.search(Task, f"{_word(n * 31)} in file{n * 997 % size}"),
        "put": lambda n: shelf.put(_task(size + n, queries[n])),
    }
    figures = {name: _percentiles(asks[name]) for name in OPERATIONS}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    disk = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    shelf.close()
    return {
        **figures["nearest"],
        "mb": round(memory, 1),
        "disk_mb": round(disk, 1),
        "first_ms": round(first, 1),
        **{name: figures[name] for name in OPERATIONS},
    }


def _percentiles(ask: Callable[[int], object]) -> dict[str, float]:
    times: list[float] = []
    for number in range(TIMES):
        began = time.perf_counter()
        ask(number)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return {"p50_ms": round(times[TIMES // 2], 3), "p95_ms": round(times[TIMES * 95 // 100], 3)}


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = [
        "records",
        *(f"{name}: ms, p50 · p95" for name in OPERATIONS),
        "first nearest: ms",
        "MB",
        "MB on disk",
    ]
    lines = [heads, ["---:"] * len(heads)]
    for size, each in figures["records"].items():
        told = [f"{each[name]['p50_ms']:.2f} · {each[name]['p95_ms']:.2f}" for name in OPERATIONS]
        lines.append(
            [
                f"{int(size):,}",
                *told,
                f"{each['first_ms']:.0f}",
                f"{each['mb']:.0f}",
                f"{each['disk_mb']:.0f}",
            ]
        )
    goal = ", ".join(f"≤ {goal:g} at {size:,}" for size, goal in GOALS.items())
    lines.append(["goal", goal, *[""] * (len(heads) - 2)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(as_json: bool = False, sizes: Sequence[int] = SIZES) -> int:
    """Measure and print; returns 1 when the nearest take longer than their goal."""
    figures = measure(sizes)
    print(json.dumps(figures, indent=1) if as_json else table(figures))
    slow = [
        size for size, goal in GOALS.items() if figures["records"].get(str(size), {}).get("p50_ms", 0) > goal
    ]
    return int(bool(slow))


if __name__ == "__main__":
    print(json.dumps(operations(Path(sys.argv[1]), int(sys.argv[2]))))
