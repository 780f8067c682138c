"""What a dream does to memory: retrieval and answers before and after it, and without each stage.

The semantic stages are measured on conversations (`dreaming_talk`), the procedural ones on families of tasks
(`dreaming_trees`): each on the kind of memory that it works on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import dreaming_talk, dreaming_trees
from bench.harness import Figures
from runtime.memory.embed import choose


def measure(
    path: Path | None = None, *, half: str, embedder: str, families: int, sizes: Sequence[int]
) -> dict[str, Any]:
    """The figures; `path` is a file of conversations (`.json`) or of families (`.jsonl`)."""
    of_trees = path if path and path.suffix == ".jsonl" else None
    of_talk = path if path and path.suffix != ".jsonl" else None
    figures: dict[str, Any] = {}
    if half in ("talk", "all"):
        figures |= dreaming_talk.measure(of_talk, choose(embedder), sizes=sizes)
    if half in ("trees", "all"):
        figures["trees"] = dreaming_trees.measure(of_trees, families, embedder, sizes)
    return figures


def missed(figures: Figures) -> list[str]:
    """The missed goals."""
    goals = dreaming_talk.missed(figures) if "before" in figures else []
    if trees := figures.get("trees"):
        goals += dreaming_trees.slow(trees["seconds"])
        for kind in ("lived", "imported"):
            before, after = trees[kind]["before"], trees[kind]["after"]
            if after["wrong"] > before["wrong"]:
                goals.append(f"{kind}: {after['wrong']} wrong after the dream, {before['wrong']} before")
    return goals


def table(figures: Figures) -> str:
    """The figures as markdown."""
    tables = [dreaming_talk.table(figures)] if "before" in figures else []
    tables += [dreaming_trees.table(figures["trees"])] if "trees" in figures else []
    return "\n\n".join(tables)
