"""Many runs at once in one process: runs a second, CPU of a run, memory added.

Each run reads ten files and answers: two calls of a model that takes 50 ms, as one over a network would, so
that the runs are at work side by side. Every write is fsynced, as always.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel.responder import Ask, Ladder
from runtime.bench.job import TASK, answers, files
from runtime.fractal import Fractal
from runtime.responders.scripted import Scripted

SIZES = (100, 1000)
FEW = 200
STEPS = 10
CPU_GOAL = 3
"""Milliseconds of CPU a step, as for a run alone."""
LATENCY = 0.05
"""Seconds that the model takes for a call."""


def measure(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """The figures by number of runs; those of the largest stand at the top as well."""
    _play(1, True)  # what is imported and read once is no cost of a run
    figures = {str(n): _median(n, True) for n in sorted(sizes)}
    largest = max(sizes)
    unsynced = _median(min(sizes), False)
    return {
        **figures[str(largest)],
        "by_runs": figures,
        "cpu_ms_per_run_without_fsync": unsynced["cpu_ms_per_run"],
        "runs_per_s_without_fsync": unsynced["runs_per_s"],
    }


def _median(n: int, fsync: bool) -> dict[str, Any]:
    """The figures of `n` runs at once: medians of three times, or of once where they are many."""
    played = [_play(n, fsync) for _ in range(3 if n <= FEW else 1)]
    figures = {name: statistics.median(each[name] for each in played) for name in played[0]}
    return figures | {"rss_mb": played[0]["rss_mb"], "unfinished": max(each["unfinished"] for each in played)}


def _play(n: int, fsync: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder), STEPS)
        memory, cpu, wall = _resident(), time.process_time(), time.perf_counter()
        exits = asyncio.run(_together(n, folder, fsync))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "runs": n,
        "runs_per_s": round(n / wall, 1),
        "cpu_ms_per_run": round(cpu * 1000 / n, 2),
        "rss_mb": round(_peak() - memory, 1),
        "unfinished": sum(code != 0 for code in exits),
    }


async def _together(n: int, folder: str, fsync: bool) -> list[int]:
    answer = answers(STEPS)

    async def slowly(ask: Ask) -> Any:
        await asyncio.sleep(LATENCY)
        return answer(ask)

    settings = {"fsync": fsync, "sandbox": "off"}
    fractals = [Fractal(folder, settings=settings, ladder=Ladder((Scripted(slowly),))) for _ in range(n)]
    results = await asyncio.gather(*(each.run(TASK) for each in fractals))
    return [result.exit for result in results]


def _resident() -> float:
    """The memory that this process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak() -> float:
    """The most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table(figures: Mapping[str, Any]) -> str:
    """The figures beside their goals, as markdown."""
    heads = ["runs at once", "runs/s", "CPU ms a run", "MB added", "unfinished"]
    sizes = figures["by_runs"].values()
    rows = [
        [each[name] for name in ("runs", "runs_per_s", "cpu_ms_per_run", "rss_mb", "unfinished")]
        for each in sizes
    ]
    fewest = f"{min(each['runs'] for each in sizes)}, nothing fsynced"
    rows += [
        [fewest, *(figures[f"{name}_without_fsync"] for name in ("runs_per_s", "cpu_ms_per_run")), "", ""]
    ]
    rows += [["goal", "", f"≤ {CPU_GOAL * STEPS}", "", 0]]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(each) for each in line) + " |" for line in lines)


def main(as_json: bool = False, sizes: Sequence[int] = SIZES) -> int:
    """Measure and print; returns 1 when a run did not end."""
    figures = measure(sizes)
    print(json.dumps(figures, indent=1) if as_json else table(figures))
    return int(any(each["unfinished"] for each in figures["by_runs"].values()))
