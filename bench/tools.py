"""What many tools cost a plan: tokens and milliseconds of its index, and how often it has the best tool.

The tools are made up, in the manner of servers that give dozens each; those that ship are there as well.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.harness import milliseconds, show, tokenizer
from bench.harness import table as markdown
from bench.toolbox import ALL, FRESH, TASKS, write_tools
from kernel.asking.prompt import INDEX_TOKENS
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue

SIZES = (10, 100, ALL)
LOOKS = 25


def measure(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """The figures by number of tools beside those that ship."""
    count, name = tokenizer()
    return {"tokenizer": name, "by_tools": {str(n): _with(n, count) for n in sorted(sizes)}}


def _with(n: int, count: Callable[[str], int]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        names = {each.name for each in write_tools(Path(folder), n)}
        began = time.perf_counter()
        catalogue = Catalogue([Path(folder), shipped_system()])
        first = time.perf_counter() - began
        time.sleep(2.1)  # until then a folder that has just changed is listed at each look
        refreshes = [milliseconds(catalogue.refresh) for _ in range(LOOKS)]
        tokens: list[int] = []
        times: list[float] = []
        found: dict[str, list[bool]] = {}
        for kind, tasks in (("tuned", TASKS), ("fresh", FRESH)):
            for task, best in tasks.items():
                if best in names:
                    index = ""

                    def choose(task: str = task) -> None:
                        nonlocal index
                        index = catalogue.index(task, INDEX_TOKENS, count)

                    times.append(milliseconds(choose))
                    tokens.append(count(index))
                    found.setdefault(kind, []).append(f"\n{best}(" in f"\n{index}")
    return {
        "tools": n,
        "tokens": round(statistics.mean(tokens), 1),
        "read_ms": round(first * 1000, 1),
        "refresh_ms": round(statistics.median(refreshes), 2),
        "choose_ms": round(statistics.median(times), 2),
        "plan_ms": round(statistics.median(refreshes) + statistics.median(times), 2),
        "recall": {kind: {"found": sum(each), "of": len(each)} for kind, each in found.items()},
    }


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["tools beside those that ship", "tokens of the index", "ms before each PLAN"]
    heads += ["ms once a process", "best tool in the index", "in tasks it was not tuned with"]
    rows = [
        [
            each["tools"],
            each["tokens"],
            each["plan_ms"],
            each["read_ms"],
            _share(each, "tuned"),
            _share(each, "fresh"),
        ]
        for each in figures["by_tools"].values()
    ]
    return markdown(heads, rows, left=0)


def _share(figures: Mapping[str, Any], kind: str) -> str:
    recall = figures["recall"].get(kind)
    return f"{recall['found']} of {recall['of']}" if recall else ""


def main(as_json: bool = False, sizes: Sequence[int] = SIZES) -> None:
    """Measure and print."""
    figures = measure(sizes)
    show(figures, table(figures), as_json)
