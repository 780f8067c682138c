"""The thresholds of the gate for facts: fitted on pairs of statements and on the conversations of LoCoMo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bench.harness import Figures, available, data_file, embedded, markdown
from bench.locomo import DATA, read_conversations
from bench.pairs import judge, pairs
from runtime.memory.embed import choose
from runtime.memory.facts.agreement import SHARED
from runtime.memory.facts.gate import AROUND, NEAR

SIZES = (20, 50, 100, 200, 400)
SLOPES = (-0.5, -0.3, -0.15, 0.0, 0.15, 0.3, 0.5)
"""Of the threshold over density: below 0 dense regions lower it, as in the seed; above 0 they raise it."""
EVERY = 3
"""One turn in so many is sampled."""


def measure(embedders: Sequence[str] = ()) -> dict[str, Any]:
    """By embedder the thresholds, and how well each slope separates conversations."""
    return {name: {"merge": _merge(name), **_link(name)} for name in embedders or available()}


def _merge(embedder: str) -> float:
    """The similarity from which a pair may merge if its values agree."""
    undecided = [
        pair
        for pair in judge(embedder, pairs("build"))
        if pair["agreement"].verdict == "open" and pair["agreement"].shared >= SHARED
    ]
    worst = max((pair["score"] for pair in undecided if pair["label"] != "duplicate"), default=0.0)
    above = [pair["score"] for pair in undecided if pair["label"] == "duplicate" and pair["score"] > worst]
    return round((worst + min(above, default=1.0)) / 2, 2)


def _link(embedder: str) -> dict[str, Any]:
    """The slope and the threshold at density 0 that separate conversations best."""
    samples = np.array(list(_samples(embedder)))
    by_slope: dict[str, Any] = {}
    for slope in SLOPES:
        held_out = [_held_out(samples, conversation, slope) for conversation in sorted(set(samples[:, 1]))]
        accuracy, link = np.mean(held_out, axis=0)
        by_slope[f"{slope:+}"] = {"accuracy": round(float(accuracy), 4), "link": round(float(link), 3)}
    best = max(by_slope, key=lambda slope: by_slope[slope]["accuracy"])
    return {"slope": float(best), "link": by_slope[best]["link"], "by_slope": by_slope, "n": len(samples)}


def _held_out(samples: Any, conversation: float, slope: float) -> tuple[float, float]:
    """Balanced accuracy on one conversation, with the threshold that is best on the others."""
    scores = samples[:, 2] - slope * samples[:, 3]
    known, held_out = samples[:, 0] == 1, samples[:, 1] == conversation

    def accuracy(rows: Any, threshold: float) -> float:
        above = scores > threshold
        return float((above[rows & known].mean() + (~above[rows & ~known]).mean()) / 2)

    thresholds = np.linspace(-0.5, 1, 301)
    best = thresholds[int(np.argmax([accuracy(~held_out, each) for each in thresholds]))]
    return accuracy(held_out, float(best)), float(best)


def _samples(embedder: str) -> Iterator[tuple[float, float, float, float]]:
    """Whether the store is the turn's own conversation, which one, the nearest similarity, the density."""
    turns = [
        (number, turn)
        for number, conversation in enumerate(read_conversations(data_file(DATA)))
        for turn in conversation.texts
    ]
    rows = embedded(choose(embedder), [text for _, text in turns])
    conversations = np.array([number for number, _ in turns])
    random = np.random.default_rng(1)
    for at in range(0, len(turns), EVERY):
        before = np.flatnonzero(conversations[:at] == conversations[at])
        others = np.flatnonzero(conversations == (conversations[at] + 1) % (conversations.max() + 1))
        for size in SIZES:
            if len(before) < size or len(others) <= size:
                continue
            start = int(random.integers(0, len(others) - size))
            for label, store in ((1, before[-size:]), (0, others[start : start + size])):
                near = np.sort(rows[store] @ rows[at])[::-1]
                yield label, conversations[at], near[0], near[NEAR : NEAR + AROUND].mean()


def table(figures: Figures) -> str:
    """The thresholds as markdown."""
    heads = ["embedder", "merge", "link", "slope", *(f"slope {each:+}" for each in SLOPES)]
    rows: list[list[object]] = []
    for name, each in figures.items():
        accuracies = [each["by_slope"][f"{slope:+}"]["accuracy"] for slope in SLOPES]
        rows.append([name, each["merge"], each["link"], each["slope"], *accuracies])
    return markdown(heads, rows)
