"""What a dream does to memory: retrieval of talk before and after, answers of solved tasks, stage by stage.

The semantic stages are measured on conversations (`dreaming_talk`), the procedural ones on families of tasks
(`dreaming_trees`): each on the kind of memory that it works on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import dreaming_talk, dreaming_trees
from bench.harness import show
from runtime.memory.embed import choose

HALVES = ("talk", "trees")


def measure(
    path: Path | None = None,
    *,
    halves: Sequence[str] = HALVES,
    embedder: str = "auto",
    families: int = dreaming_trees.FAMILIES,
    sizes: Sequence[int] = dreaming_trees.SIZES,
) -> dict[str, Any]:
    """The figures; `path` is a file of conversations (`.json`) or of families (`.jsonl`)."""
    of_trees = path if path and path.suffix == ".jsonl" else None
    of_talk = path if path and path.suffix != ".jsonl" else None
    found: dict[str, Any] = {}
    if "talk" in halves:
        found |= dreaming_talk.measure(of_talk, choose(embedder), sizes=sizes)
    if "trees" in halves:
        found["trees"] = dreaming_trees.measure(of_trees, families, embedder, sizes)
    return found


def missed(figures: Mapping[str, Any]) -> list[str]:
    """Which goals are not reached."""
    found: list[str] = []
    if "before" in figures:
        found += dreaming_talk.missed(figures)
    if trees := figures.get("trees"):
        found += dreaming_trees.slow(trees["seconds"])
        for kind in ("lived", "imported"):
            before, after = trees[kind]["before"], trees[kind]["after"]
            if after["wrong"] > before["wrong"]:
                found.append(f"{kind}: {after['wrong']} wrong after the dream, {before['wrong']} before")
    return found


def main(
    as_json: bool = False,
    path: Path | None = None,
    *,
    half: str = "all",
    embedder: str = "auto",
    families: int = dreaming_trees.FAMILIES,
    sizes: Sequence[int] = dreaming_trees.SIZES,
) -> None:
    """Measure and print."""
    halves = HALVES if half == "all" else (half,)
    figures = measure(path, halves=halves, embedder=embedder, families=families, sizes=sizes)
    told = [dreaming_talk.table(figures)] if "before" in figures else []
    told += [dreaming_trees.table(figures["trees"])] if "trees" in figures else []
    show(figures, "\n\n".join(told), as_json, missed(figures))
