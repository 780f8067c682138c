"""Fits the weights of retrieval: a linear score that ranks the evidence of a question first.

The loss is the negative log-likelihood of the evidence under a softmax over all turns, averaged over the
questions, with a small L2 penalty. It is convex and minimised by Newton's method, so the same data give the
same weights. The score of a turn is its share of the softmax.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import data_file
from bench.locomo import (
    DATA,
    TRIED,
    Answer,
    Indexed,
    baselines,
    figures_of,
    index_all,
    loss_of,
    read_conversations,
)
from runtime.cli.output import notify
from runtime.memory.embed import choose
from runtime.memory.facts.retrieval import ALL, Parts
from runtime.memory.facts.retrieval.parts import FEATURES, WEIGHTS, weights_of
from runtime.memory.facts.retrieval.scoring import closely, features, question_of

PENALTY = 1e-3
STEPS = 30
FREE = ("asks", "first_person", "length")
"""Forms, whose weight may be negative. All others are similarities to the question."""
REMEASURED = ("neighbours", "speaker")
"""Parts without which other features have other values."""
FITTED = tuple(name for name, part in FEATURES.items() if part != "names")


@dataclass(frozen=True, eq=False)
class Lesson:
    """One question: the features of every turn, and which turns are evidence."""

    values: Any  # (turns, features)
    evidence: Any


def lessons_of(indexed: Indexed, parts: Parts = ALL) -> list[Lesson]:
    """The lessons of a conversation."""
    index = indexed.retrieval.index
    index.refresh()
    rows = np.arange(index.columns.count)
    lessons: list[Lesson] = []
    for each in indexed.conversation.questions:
        question = question_of(index, each.text, parts)
        columns = features(index, question, parts) | closely(index, question, rows, parts)
        zero = np.zeros(len(rows), np.float32)
        values = np.stack([columns.get(name, zero) for name in FITTED], axis=1)
        evidence = np.array([index.at["observation", id] for id in each.evidence])
        lessons.append(Lesson(values[index.columns.alive], evidence))
    return lessons


def _without_part(lessons: Sequence[Lesson], part: str) -> list[Lesson]:
    """The same lessons, with the features of a part set to 0."""
    kept = [FEATURES[name] != part for name in FITTED]
    return [Lesson(each.values * kept, each.evidence) for each in lessons]


def fit(lessons: Sequence[Lesson]) -> dict[str, float]:
    """The weights by feature. A similarity whose weight would be negative gets 0."""
    problem = _Problem(lessons)
    used = np.flatnonzero(problem.scale > 0)
    weights = np.zeros(len(FITTED))
    while True:
        weights[used] = problem.minimum(used, weights[used])
        negative = [at for at in used if weights[at] < 0 and FITTED[at] not in FREE]
        if not negative:
            break
        worst = min(negative, key=lambda at: weights[at])
        weights[worst], used = 0.0, used[used != worst]
    scaled = weights / np.where(problem.scale > 0, problem.scale, 1.0)
    return {name: round(float(weight), 4) for name, weight in zip(FITTED, scaled, strict=True)}


class _Problem:
    """All lessons in one matrix, each feature scaled to unit variance."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        values = np.concatenate([each.values for each in lessons]).astype(float)
        spread = values.std(axis=0)
        self.scale = np.where(spread > 1e-9, spread, 0.0)
        self.values = values / np.where(self.scale > 0, self.scale, 1.0)
        self.lengths = np.array([len(each.values) for each in lessons])
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        self.target = np.zeros(len(values))
        for start, each in zip(self.starts, lessons, strict=True):
            self.target[start + each.evidence] = 1 / len(each.evidence)

    def minimum(self, used: Any, weights: Any) -> Any:
        """The weights of the used features with the least loss, by Newton's method with step halving."""
        values = np.ascontiguousarray(self.values[:, used])
        loss, softmax = self._loss(values, weights)
        for _ in range(STEPS):
            gradient = values.T @ (softmax - self.target) / len(self.starts) + 2 * PENALTY * weights
            means = np.add.reduceat(values * softmax[:, None], self.starts, axis=0)
            hessian = (values.T @ (values * softmax[:, None]) - means.T @ means) / len(self.starts)
            step = np.linalg.solve(hessian + 2 * PENALTY * np.eye(len(weights)), gradient)
            share = 1.0
            while (following := self._loss(values, weights - share * step))[0] > loss:
                share /= 2
                if share < 1e-6:
                    return weights
            weights = weights - share * step
            loss, softmax = following
            if float(np.abs(share * step).max()) < 1e-6:
                break
        return weights

    def _loss(self, values: Any, weights: Any) -> tuple[float, Any]:
        """The loss, and the softmax of each row."""
        scores = values @ weights
        most = np.maximum.reduceat(scores, self.starts)
        odds = np.exp(scores - np.repeat(most, self.lengths))
        total = np.add.reduceat(odds, self.starts)
        loss = float((np.log(total) + most).sum() - self.target @ scores) / len(self.starts)
        return loss + PENALTY * float(weights @ weights), odds / np.repeat(total, self.lengths)


# ---- the weights that ship, and leave-one-out ------------------------------------------------------------


def write_weights(path: Path | None = None, *, stores: Path | None = None) -> None:
    """Fit on all conversations with each embedder, and write the file that ships."""
    conversations = read_conversations(path or data_file(DATA))
    weights: dict[str, Mapping[str, float]] = {}
    for name in ("minilm", "lexical", "none"):
        notify(f"weights for {name}")
        indexed = index_all(conversations, choose("lexical" if name == "none" else name), stores)
        parts = ALL.without("meaning", "late") if name == "none" else ALL
        weights[name] = fit([lesson for each in indexed for lesson in lessons_of(each, parts)])
    record = {
        "made_by": "python -m bench locomo --fit",
        "conversations": [each.name for each in conversations],
        "weights": weights,
    }
    WEIGHTS.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    weights_of.cache_clear()


def measure(
    path: Path | None = None,
    embedder: str = "auto",
    *,
    quick: bool = False,
    stores: Path | None = None,
) -> dict[str, Any]:
    """Each conversation with weights fitted on the others; without a part, with weights fitted without it."""
    conversations, chosen = read_conversations(path or data_file(DATA)), choose(embedder)
    indexed = index_all(conversations, chosen, stores)
    lessons = [lessons_of(each) for each in indexed]
    answers = _leave_one_out(indexed, lessons)
    figures = {"fractal": figures_of(answers), **baselines(conversations, chosen)}
    if not quick:
        figures["without"] = {}
        for part in TRIED:
            notify(f"without {part}")
            parts = ALL.without(part)
            others = (
                [lessons_of(each, parts) for each in indexed]
                if part in REMEASURED
                else [_without_part(some, part) for some in lessons]
            )
            figures["without"][part] = loss_of(_leave_one_out(indexed, others, parts), answers)
    return figures | {"embedder": chosen.name, "leave_one_out": True}


def _leave_one_out(
    indexed: Sequence[Indexed], lessons: Sequence[Sequence[Lesson]], parts: Parts = ALL
) -> list[Answer]:
    answers: list[Answer] = []
    for at, each in enumerate(indexed):
        others = [lesson for other, some in enumerate(lessons) if other != at for lesson in some]
        answers += each.answers(parts, fit(others))
    return answers
