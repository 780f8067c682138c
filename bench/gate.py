"""The gate between known and novel tasks, on CLINC150: its intents are problem types, the rest has no intent.

The types learn the training split. A boundary is chosen on the validation split; the figures are those of the
test split at that boundary. No question without an intent is learned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Figures, data_file, embedded, markdown, share
from runtime.memory.embed import choose
from runtime.memory.embed.choosing import resolve_embedder
from runtime.memory.store import open_shelf
from runtime.memory.tasks.gate import Weights
from runtime.memory.tasks.types import NOVEL_DISTANCE, Lesson, Types

KEPT = 0.98
"""The share of correctly typed validation questions within the boundary. The boundary depends on these alone:
100 validation questions without an intent are too few (a share of 0.80 has an error of 0.04)."""
GOALS: Mapping[str, float] = {"in_scope": 0.93, "out_of_scope_recall": 0.80}
"""Source: performance.md."""
PIECES: Mapping[str, Weights] = {
    "words": Weights(words=0, unknown=0),
    "spread": Weights(belief=1e9),
    "nearest": Weights(spread=1, nearest=0),
    "all three": Weights(words=0, unknown=0, belief=1e9, spread=1, nearest=0),
}
DATA = "clinc150/data_full.json"
SPLITS = ("train", "val", "test", "oos_val", "oos_test")


@dataclass(frozen=True)
class Question:
    """A question and its intent, "oos" for none."""

    text: str
    intent: str
    vector: Any


def questions(embedder: str, intents: int | None = None, every: int = 1) -> dict[str, list[Question]]:
    """The embedded splits: questions of the first intents, and of those every n-th."""
    read: dict[str, list[tuple[str, str]]] = json.loads(data_file(DATA).read_text("utf-8"))
    names = set(sorted({intent for _, intent in read["train"]})[:intents]) | {"oos"}
    splits: dict[str, list[Question]] = {}
    for split in SPLITS:
        rows = [(text, intent) for text, intent in read[split] if intent in names][::every]
        vectors = embedded(choose(embedder), [text for text, _ in rows])
        splits[split] = [Question(*row, vector) for row, vector in zip(rows, vectors, strict=True)]
    return splits


def measure(quick: bool = False) -> dict[str, Any]:
    """The figures by embedder; those of the best embedder are also at the top level."""
    best, _ = resolve_embedder()
    return measure_embedders(list(dict.fromkeys([best, "lexical"])), pieces=not quick)


def measure_embedders(
    embedders: Sequence[str], pieces: bool, intents: int | None = None, every: int = 1
) -> dict[str, Any]:
    """The figures by embedder, with `pieces` also without each piece of the gate."""
    figures: dict[str, Any] = {}
    for name in embedders:
        splits = questions(name, intents, every)
        figures[name] = measure_splits(splits, name)
        if pieces:
            figures[name]["without"] = {
                piece: measure_splits(splits, name, weights) for piece, weights in PIECES.items()
            }
    first = figures[embedders[0]]
    return {**{key: first[key] for key in ("in_scope", "out_of_scope_recall", "auroc")}, "embedder": figures}


def measure_splits(
    splits: Mapping[str, Sequence[Question]], embedder: str, weights: Weights | None = None
) -> dict[str, float]:
    """The figures of the test split, at the boundary of the validation split and at the one that ships."""
    shelf = open_shelf("memory", Path())
    types = Types(shelf, choose(embedder), weights=weights)
    types.learn_all([Lesson(each.text, each.vector, each.intent) for each in splits["train"]])
    nearest: dict[str, list[tuple[bool, float]]] = {}  # whether the type is right, and its distance
    for split in SPLITS[1:]:
        answers = [(each.intent, *types.nearest(each.text, each.vector)) for each in splits[split]]
        nearest[split] = [(type_ == intent, distance) for intent, type_, distance in answers]
    right = sorted(distance for right, distance in nearest["val"] if right)
    boundary = right[int(KEPT * len(right))]
    known, novel = nearest["test"], [distance for _, distance in nearest["oos_test"]]
    return {
        "in_scope": _share(right and distance < boundary for right, distance in known),
        "out_of_scope_recall": _share(distance >= boundary for distance in novel),
        "auroc": _auroc([distance for _, distance in known], novel),
        "boundary": round(boundary, 4),
        "validation_out_of_scope_recall": _share(distance >= boundary for _, distance in nearest["oos_val"]),
        "right_type": _share(right for right, _ in known),
        "shipped_in_scope": _share(right and distance <= NOVEL_DISTANCE for right, distance in known),
        "shipped_out_of_scope_recall": _share(distance > NOVEL_DISTANCE for distance in novel),
    }


def _share(outcomes: Iterable[bool]) -> float:
    listed = list(outcomes)
    return share(sum(listed), len(listed))


def _auroc(known: Sequence[float], novel: Sequence[float]) -> float:
    below = np.searchsorted(np.sort(known), novel, "left") + np.searchsorted(np.sort(known), novel, "right")
    return round(float(below.mean()) / 2 / len(known), 4)


def table(figures: Figures) -> str:
    """The figures as markdown."""
    heads = ["embedder", "without", "in scope", "out of scope refused", "AUROC", "right type", "boundary"]
    keys = ("in_scope", "out_of_scope_recall", "auroc", "right_type", "boundary")
    rows: list[list[str]] = []
    for name, each in figures["embedder"].items():
        for piece, row in [("", each), *each.get("without", {}).items()]:
            rows.append([name, piece, *(f"{row[key]:.3f}" for key in keys)])
    goals = (f"≥ {goal:.2f}" for goal in GOALS.values())
    return markdown(heads, [*rows, ["goal", "", *goals, "", "", ""]], left=2)


def missed(figures: Figures) -> list[str]:
    """The missed goals."""
    return [f"{key} {figures[key]:.3f}" for key, goal in GOALS.items() if figures[key] < goal]
