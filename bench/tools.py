"""What many tools cost a loop: tokens and time of its index, and how often that lists the best tool.

The tools are generated, in the manner of servers with dozens of tools each, and added to those that ship.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.harness import Figures, markdown, timed, tokenizer
from bench.toolbox import ALL, tasks, write_tools
from kernel.asking.conversation import index_of
from kernel.document.model import Document
from kernel.errors import UsageError
from kernel.loop.budget import Bounds
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.workspace.new_run import first_document

REFRESHES = 25


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """The figures by number of generated tools."""
    if max(sizes) > ALL:
        raise UsageError(f"{max(sizes)} tools: there are {ALL}")
    count, name = tokenizer()
    return {"tokenizer": name, "by_tools": {str(n): _with(n, count) for n in sorted(sizes)}}


def _with(n: int, count: Callable[[str], int]) -> dict[str, Any]:
    indexes: list[str] = []
    times: list[float] = []
    recall: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        names = {tool.name for tool in write_tools(Path(folder), n)}
        catalogue, read = timed(Catalogue, [Path(folder), shipped_system()])
        time.sleep(2.1)  # a folder that has just changed is listed again at each refresh
        refresh = median(timed(catalogue.refresh)[1] for _ in range(REFRESHES))
        for kind, asked in tasks().items():
            for task, best in asked.items():
                if best in names:
                    index, spent = timed(index_of, _asked(task), catalogue, count)
                    indexes.append(index)
                    times.append(spent)
                    counts = recall.setdefault(kind, {"found": 0, "of": 0})
                    counts["found"] += best in index.split(", ")
                    counts["of"] += 1
    return {
        "tools": n,
        "tokens": round(mean(map(count, indexes)), 1),
        "read_ms": round(read, 1),
        "refresh_ms": round(refresh, 2),
        "choose_ms": round(median(times), 2),
        "plan_ms": round(refresh + median(times), 2),
        "recall": recall,
    }


def _asked(task: str) -> Document:
    """The document of a run that was asked for a task."""
    return first_document("aaaaaa", task, (), Path(), Bounds(), "")


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["tools beside those that ship", "tokens of the index", "ms before each loop"]
    heads += ["ms once a process", "best tool in the index", "in tasks it was not tuned with"]
    rows: list[list[object]] = []
    for each in figures["by_tools"].values():
        recall = [each["recall"].get(kind) for kind in ("tuned", "fresh")]
        shares = [f"{counts['found']} of {counts['of']}" if counts else "" for counts in recall]
        rows.append([*(each[key] for key in ("tools", "tokens", "plan_ms", "read_ms")), *shares])
    return markdown(heads, rows, left=0)
