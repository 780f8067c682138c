"""A stream of corrections for one reader, with the memory of earlier ones in its prompts and without."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.harness import Figures, markdown, share, tokenizer
from bench.work.coding_jobs import COMMAND, FALSE_FRIEND, KINDS, ONCE, CodingJob, coding_jobs
from bench.work.coding_reader import CodingReader
from kernel.asking.messages import prompt_text, prompt_tokens
from kernel.asking.responder import Ask, Ladder
from runtime.api.fractal import Fractal
from runtime.models.scripted import Scripted

ARMS = ("with", "without")
FIRST, SECOND, LATER = "first of a kind", "second of a kind", "later of a kind"
GROUPS = (FIRST, SECOND, LATER, FALSE_FRIEND, ONCE)
MOST = 20
"""Calls of one job."""
WAY_TOKENS = 60
"""The most tokens of what a prompt tells of one earlier task, on average. Source: memory-trust.md, 10."""
Row = dict[str, Any]


def measure(jobs: int = 200, seed: int = 1, embedder: str = "auto") -> Figures:
    """The figures of both arms over the same jobs in the same order."""
    _, name = tokenizer()
    play = partial(_play, coding_jobs(jobs, seed), embedder)
    with ProcessPoolExecutor(len(ARMS), mp_context=get_context("spawn")) as pool:
        rows = [row for of_arm in pool.map(play, ARMS) for row in of_arm]
    groups = {group: _both(row for row in rows if row["group"] == group) for group in GROUPS}
    told = [row["told"] for row in rows if row["ways"]]
    return {
        "jobs": jobs,
        "seed": seed,
        "tokenizer": name,
        "all": _both(rows),
        **groups,
        "tokens_of_a_way": round(sum(told) / sum(row["ways"] for row in rows), 1) if told else 0.0,
    }


def _play(jobs: Sequence[CodingJob], embedder: str, arm: str) -> list[Row]:
    """All jobs of one arm, in a folder whose memory stays."""
    count, _ = tokenizer()
    settings: dict[str, Any] = {"fsync": False, "embedder": embedder, "calls": MOST, "usd": None}
    settings |= {"remember": arm == "with", "recall": arm == "with"}
    seen: dict[str, int] = {}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="stream-") as name:
        for job in jobs:
            asks: list[Ask] = []
            lay_out(Path(name), job)
            ran = _run(Path(name), job, settings, asks)
            number = seen[job.kind] = seen.get(job.kind, 0) + 1
            known = {1: FIRST, 2: SECOND}.get(number, LATER)
            ways = _ways(prompt_text(asks[0])) if asks else []
            rows.append(
                {
                    "arm": arm,
                    "group": known if job.kind in KINDS else job.kind,
                    "done": ran and corrected(Path(name)),
                    "calls": len(asks),
                    "tokens": sum(prompt_tokens(ask, count) for ask in asks),
                    "ways": len(ways),
                    "told": sum(map(count, ways)),
                }
            )
    return rows


def lay_out(folder: Path, job: CodingJob) -> None:
    """The files of a job in place of those of the one before."""
    for path in folder.iterdir():
        if path.name != ".fractal":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in job.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _run(folder: Path, job: CodingJob, settings: dict[str, Any], asks: list[Ask]) -> bool:
    """Run one job; whether it was accepted."""
    reader = CodingReader(job)

    def answer(ask: Ask) -> str:
        asks.append(ask)
        return reader(ask)

    fractal = Fractal(folder, settings=settings, ladder=Ladder((Scripted(answer),)))
    result = asyncio.run(fractal.run(job.task, yes=True))
    fractal.brain.close()
    return result.exit == 0


def corrected(folder: Path) -> bool:
    """Whether the checks of the project hold."""
    return not subprocess.run(COMMAND, shell=True, cwd=folder, capture_output=True).returncode


def _ways(prompt: str) -> list[str]:
    """What a prompt tells of earlier tasks like this one, without the runs that it names as the source."""
    told = prompt.partition("From memory: similar tasks\n")[2].partition("\n## ")[0]
    return [line[2:].rpartition(" (run ")[0] for line in told.splitlines() if line.startswith("- ")]


def _both(rows: Iterable[Row]) -> dict[str, Any]:
    """Jobs, and for each arm the share done, calls and tokens a job."""
    every = list(rows)
    figures: dict[str, Any] = {"jobs": sum(row["arm"] == ARMS[0] for row in every)}
    for arm in ARMS:
        of_arm = [row for row in every if row["arm"] == arm]
        if of_arm:
            figures[arm] = {
                "done": share(sum(row["done"] for row in of_arm), len(of_arm)),
                "calls": round(fmean(row["calls"] for row in of_arm), 2),
                "tokens": round(fmean(row["tokens"] for row in of_arm)),
            }
    return figures


def table(figures: Figures) -> str:
    """The figures by group."""
    lines: list[list[Any]] = []
    for group in (*GROUPS, "all"):
        found = figures[group]
        if found["jobs"]:
            cells = [f"{found[a]['done']:.1%} · {found[a]['calls']} · {found[a]['tokens']:,}" for a in ARMS]
            lines.append([group, found["jobs"], *cells])
    heads = ["done · calls · prompt tokens a job", "jobs", *(f"{arm} memory" for arm in ARMS)]
    return f"{markdown(heads, lines)}\n\ntokens of a way: {figures['tokens_of_a_way']}"


def missed(figures: Figures) -> list[str]:
    """The goals that are missed: memory must pay."""
    mine, plain = (figures["all"][arm] for arm in ARMS)
    found = [
        f"{what}: {mine[what]} with memory, {plain[what]} without"
        for what, worse in (
            ("done", mine["done"] < plain["done"]),
            ("calls", mine["calls"] >= plain["calls"]),
            ("tokens", mine["tokens"] > plain["tokens"]),
        )
        if worse
    ]
    second = figures[SECOND]
    if second["jobs"] and second["with"]["calls"] >= second["without"]["calls"]:
        found.append(
            f"{SECOND}: {second['with']['calls']} calls with memory, {second['without']['calls']} without"
        )
    if figures["tokens_of_a_way"] > WAY_TOKENS:
        found.append(f"tokens of a way: {figures['tokens_of_a_way']} > {WAY_TOKENS}")
    return found
