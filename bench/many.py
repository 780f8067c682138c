"""Many runs at once in one process: runs per second, CPU per run, memory added.

Each run reads ten files and answers, with two calls of a model that takes 50 ms, like one over a network.
Every write is fsynced, as always.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Figures, cost, markdown, peak_mb
from bench.job import TASK, answers, write_files
from kernel.asking.responder import Ask, Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted

FEW = 200
"""Up to so many runs, the measurement is repeated."""
STEPS = 10
CPU_GOAL = 3
"""Milliseconds of CPU per step, as for a single run."""
LATENCY = 0.05
"""Seconds of a model call."""


def measure(sizes: Sequence[int], times: int = 3) -> dict[str, Any]:
    """The figures by number of runs; those of the largest number are also at the top level."""
    _play(1, True)  # imports and first reads are not part of a run
    figures = {str(n): _median(n, times, True) for n in sorted(sizes)}
    unsynced = _median(min(sizes), times, False)
    return {
        **figures[str(max(sizes))],
        "by_runs": figures,
        "cpu_ms_per_run_without_fsync": unsynced["cpu_ms_per_run"],
        "runs_per_s_without_fsync": unsynced["runs_per_s"],
    }


def _median(n: int, times: int, fsync: bool) -> dict[str, Any]:
    played = [_play(n, fsync) for _ in range(times if n <= FEW else 1)]
    figures = {name: median(each[name] for each in played) for name in played[0]}
    return figures | {"rss_mb": played[0]["rss_mb"], "unfinished": max(each["unfinished"] for each in played)}


def _play(n: int, fsync: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), STEPS)
        memory = _resident_mb()
        with cost() as spent:
            exits = asyncio.run(_together(n, folder, fsync))
    return {
        "runs": n,
        "runs_per_s": round(n / spent.wall, 1),
        "cpu_ms_per_run": round(spent.cpu * 1000 / n, 2),
        "rss_mb": round(peak_mb() - memory, 1),
        "unfinished": sum(code != 0 for code in exits),
    }


async def _together(n: int, folder: str, fsync: bool) -> list[int]:
    answer = answers(STEPS)

    async def slow(ask: Ask) -> Any:
        await asyncio.sleep(LATENCY)
        return answer(ask)

    settings = {"fsync": fsync, "sandbox": "off"}
    fractals = [Fractal(folder, settings=settings, ladder=Ladder((Scripted(slow),))) for _ in range(n)]
    results = await asyncio.gather(*(each.run(TASK) for each in fractals))
    return [result.exit for result in results]


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def table(figures: Figures) -> str:
    """The figures beside their goals, as markdown."""
    names = ("runs", "runs_per_s", "cpu_ms_per_run", "rss_mb", "unfinished")
    sizes = figures["by_runs"].values()
    fewest = f"{min(each['runs'] for each in sizes)}, nothing fsynced"
    unsynced = [figures[f"{name}_without_fsync"] for name in ("runs_per_s", "cpu_ms_per_run")]
    rows = [[each[name] for name in names] for each in sizes]
    rows += [[fewest, *unsynced, "", ""], ["goal", "", f"≤ {CPU_GOAL * STEPS}", "", 0]]
    return markdown(["runs at once", "runs/s", "CPU ms per run", "MB added", "unfinished"], rows)


def missed(figures: Figures) -> list[str]:
    """Sizes at which some runs did not end."""
    counts = {size: each["unfinished"] for size, each in figures["by_runs"].items()}
    return [f"{n} of {size} runs did not end" for size, n in counts.items() if n]
