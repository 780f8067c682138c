"""Many runs at once in one process: runs a second, CPU of a run, memory added.

Each run reads ten files and answers: two calls of a model that takes 50 ms, as one over a network would, so
that the runs are at work side by side. Every write is fsynced, as always.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import peak_mb, show
from bench.harness import table as markdown
from bench.job import TASK, answers, files
from kernel.asking.responder import Ask, Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted

SIZES = (100, 1000)
FEW = 200
STEPS = 10
CPU_GOAL = 3
"""Milliseconds of CPU a step, as for a run alone."""
LATENCY = 0.05
"""Seconds that the model takes for a call."""


def measure(sizes: Sequence[int] = SIZES, times: int = 3) -> dict[str, Any]:
    """The figures by number of runs; those of the largest stand at the top as well."""
    _play(1, True)  # what is imported and read once is no cost of a run
    figures = {str(n): _median(n, times, True) for n in sorted(sizes)}
    largest = max(sizes)
    unsynced = _median(min(sizes), times, False)
    return {
        **figures[str(largest)],
        "by_runs": figures,
        "cpu_ms_per_run_without_fsync": unsynced["cpu_ms_per_run"],
        "runs_per_s_without_fsync": unsynced["runs_per_s"],
    }


def _median(n: int, times: int, fsync: bool) -> dict[str, Any]:
    """The figures of `n` runs at once: medians of some repetitions, or one measurement where `n` is large."""
    played = [_play(n, fsync) for _ in range(times if n <= FEW else 1)]
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
        "rss_mb": round(peak_mb() - memory, 1),
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


def table(figures: Mapping[str, Any]) -> str:
    """The figures beside their goals, as markdown."""
    names = ("runs", "runs_per_s", "cpu_ms_per_run", "rss_mb", "unfinished")
    sizes = figures["by_runs"].values()
    fewest = f"{min(each['runs'] for each in sizes)}, nothing fsynced"
    unsynced = [figures[f"{name}_without_fsync"] for name in ("runs_per_s", "cpu_ms_per_run")]
    rows = [[each[name] for name in names] for each in sizes]
    rows += [[fewest, *unsynced, "", ""], ["goal", "", f"≤ {CPU_GOAL * STEPS}", "", 0]]
    return markdown(["runs at once", "runs/s", "CPU ms per run", "MB added", "unfinished"], rows)


def main(as_json: bool = False, sizes: Sequence[int] = SIZES) -> None:
    """Measure and print."""
    figures = measure(sizes)
    left = {size: each["unfinished"] for size, each in figures["by_runs"].items() if each["unfinished"]}
    show(figures, table(figures), as_json, [f"{n} of {size} runs did not end" for size, n in left.items()])
