"""The gate between known and novel tasks, on CLINC150: intents as problem types, and questions of no intent.

Types learn the training part. One boundary is chosen on the validation part; what is reported is the test
part at that boundary. No question of no intent is learned from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import data_file, share, show
from bench.harness import table as markdown
from runtime.memory.embed import choose
from runtime.memory.store import open_shelf
from runtime.memory.tasks.gate import Without
from runtime.memory.tasks.types import NOVEL_DISTANCE, Lesson, Types

KEPT = 0.98
"""Of the validation questions whose nearest type is the right one, so many lie within the boundary. It is set
by these: the 100 validation questions of no intent are too few (a share of 0.80 has an error of 0.04)."""
GOALS: Mapping[str, float] = {"in_scope": 0.93, "out_of_scope_recall": 0.80}
"""Source: performance.md."""
PIECES: Mapping[str, Without] = {
    "words": Without(words=True),
    "spread": Without(spread=True),
    "nearest": Without(nearest=True),
    "all three": Without(words=True, spread=True, nearest=True),
}
DATA = "clinc150/data_full.json"
SPLITS = ("train", "val", "test", "oos_val", "oos_test")


@dataclass(frozen=True)
class Question:
    """A question and its intent, "oos" for one of none."""

    text: str
    intent: str
    vector: Any


def questions(embedder: str, intents: int | None = None, every: int = 1) -> dict[str, list[Question]]:
    """The splits, embedded: of the first intents only, and every so-manieth question."""
    read: dict[str, list[tuple[str, str]]] = json.loads(data_file(DATA).read_text("utf-8"))
    names = set(sorted({intent for _, intent in read["train"]})[:intents]) | {"oos"}
    makes = choose(embedder)
    splits: dict[str, list[Question]] = {}
    for split in SPLITS:
        rows = [(text, intent) for text, intent in read[split] if intent in names][::every]
        splits[split] = []
        for start in range(0, len(rows), 256):
            some = rows[start : start + 256]
            vectors = makes.embed([text for text, _ in some])
            splits[split] += [Question(*row, vector) for row, vector in zip(some, vectors, strict=True)]
    return splits


def measure(
    splits: Mapping[str, Sequence[Question]], embedder: str, without: Without | None = None
) -> dict[str, float]:
    """The figures of the test part, at the boundary of the validation part and at the one that is shipped."""
    shelf = open_shelf("memory", Path())
    types = Types(shelf, choose(embedder), without=without)
    types.learn_all([Lesson(each.text, each.vector, each.intent) for each in splits["train"]])
    looks = {split: _looks(types, splits[split]) for split in SPLITS[1:]}
    boundary = _boundary(looks["val"])
    known, novel = looks["test"], looks["oos_test"]
    return {
        "in_scope": _share(right and distance < boundary for right, distance in known),
        "out_of_scope_recall": _share(distance >= boundary for _, distance in novel),
        "auroc": _auroc([distance for _, distance in known], [distance for _, distance in novel]),
        "boundary": round(boundary, 4),
        "validation_out_of_scope_recall": _share(distance >= boundary for _, distance in looks["oos_val"]),
        "right_type": _share(right for right, _ in known),
        "shipped_in_scope": _share(right and distance <= NOVEL_DISTANCE for right, distance in known),
        "shipped_out_of_scope_recall": _share(distance > NOVEL_DISTANCE for _, distance in novel),
    }


Looks = list[tuple[bool, float]]


def _looks(types: Types, asked: Sequence[Question]) -> Looks:
    return [
        (id == each.intent, distance)
        for each in asked
        for id, distance in [types.nearest(each.text, each.vector)]
    ]


def _boundary(known: Looks) -> float:
    right = sorted(distance for right, distance in known if right)
    return right[int(KEPT * len(right))]


def _share(each: Any) -> float:
    listed = list(each)
    return share(sum(listed), len(listed))


def _auroc(known: Sequence[float], novel: Sequence[float]) -> float:
    import numpy as np

    below = np.searchsorted(np.sort(known), novel, "left") + np.searchsorted(np.sort(known), novel, "right")
    return round(float(below.mean()) / 2 / len(known), 4)


def table(figures: Mapping[str, Any]) -> str:
    """The figures as markdown."""
    heads = ["embedder", "without", "in scope", "out of scope refused", "AUROC", "right type", "boundary"]
    rows: list[list[str]] = []
    for name, each in figures["embedder"].items():
        for piece, row in [("", each), *each.get("without", {}).items()]:
            keys = ("in_scope", "out_of_scope_recall", "auroc", "right_type", "boundary")
            rows.append([name, piece, *(f"{row[key]:.3f}" for key in keys)])
    goals = (f"≥ {goal:.2f}" for goal in GOALS.values())
    return markdown(heads, [*rows, ["goal", "", *goals, "", "", ""]], left=2)


def figures_of(
    embedders: Sequence[str], pieces: bool, intents: int | None = None, every: int = 1
) -> dict[str, Any]:
    """By embedder; the first one's figures stand at the top."""
    found: dict[str, Any] = {}
    for name in embedders:
        splits = questions(name, intents, every)
        found[name] = measure(splits, name)
        if pieces:
            found[name]["without"] = {
                piece: measure(splits, name, without) for piece, without in PIECES.items()
            }
    first = found[embedders[0]]
    return {**{key: first[key] for key in ("in_scope", "out_of_scope_recall", "auroc")}, "embedder": found}


def main(as_json: bool = False, quick: bool = False) -> None:
    """Measure and print."""
    from runtime.memory.embed.choosing import told

    best, _ = told()
    figures = figures_of(list(dict.fromkeys([best, "lexical"])), not quick)
    missed = [f"{key} {figures[key]:.3f}" for key, goal in GOALS.items() if figures[key] < goal]
    show(figures, table(figures), as_json, missed)
