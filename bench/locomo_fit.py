"""The weights of retrieval, fitted: a linear score by which the evidence of a question stands out.

The loss is minus the logarithm of the softmax at each piece of evidence, the mean over the questions, with a
small penalty on the weights; it is convex, and Newton's steps find its one lowest place, so that the same
data give the same weights. A score is then the share of the softmax that a turn has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import locomo
from bench.locomo import Conversation, Ground
from runtime.memory.embed import Embedder, choose
from runtime.memory.facts.retrieval import ALL, Parts
from runtime.memory.facts.retrieval.parts import FEATURES, WEIGHTS
from runtime.memory.facts.retrieval.scoring import features, late, question_of

PENALTY = 1e-3
STEPS = 30
FREE = ("asks", "first_person", "length", "told", "word", "late", "late_square")
"""What may weigh for or against a turn: forms, and what is measured twice, where one corrects the other. All
else is a likeness to the question."""
RECOUNTED = ("neighbours", "speaker")
"""Parts without which others are measured in another way."""
FITTED = tuple(name for name, part in FEATURES.items() if part != "names")


@dataclass(frozen=True, eq=False)
class Lesson:
    """One question: what is measured of every turn, and which turns are evidence."""

    values: Any  # (turns, features)
    evidence: Any


def lessons_of(ground: Ground, parts: Parts = ALL) -> list[Lesson]:
    """The lessons of a conversation."""
    import numpy as np

    index = ground.retrieval.index
    index.refresh()
    rows = list(range(index.columns.count))
    lessons: list[Lesson] = []
    for each in ground.conversation.questions:
        question = question_of(index, each.text, parts)
        told = features(index, question, parts)
        if parts.late:
            told |= late(index, question, rows)
        zero = np.zeros(len(rows), np.float32)
        values = np.stack([told.get(name, zero) for name in FITTED], axis=1)
        evidence = np.array([index.at["observation", id] for id in each.evidence])
        lessons.append(Lesson(values[index.columns.alive], evidence))
    return lessons


def without_part(lessons: Sequence[Lesson], part: str) -> list[Lesson]:
    """The same with what a part measures left out."""
    kept = [FEATURES[name] != part for name in FITTED]
    return [Lesson(each.values * kept, each.evidence) for each in lessons]


def fit(lessons: Sequence[Lesson]) -> dict[str, float]:
    """The weights by feature. None of a likeness is negative: what would be is left out."""
    import numpy as np

    table = _Table(lessons)
    taken = np.flatnonzero(table.scale > 0)
    weights = np.zeros(len(FITTED))
    while True:
        weights[taken] = table.lowest(taken, weights[taken])
        wrong = [at for at in taken if weights[at] < 0 and FITTED[at] not in FREE]
        if not wrong:
            break
        worst = min(wrong, key=lambda at: weights[at])
        weights[worst], taken = 0.0, taken[taken != worst]
    scaled = weights / np.where(table.scale > 0, table.scale, 1.0)
    return {name: round(float(weight), 4) for name, weight in zip(FITTED, scaled, strict=True)}


class _Table:
    """All lessons as one table, each feature in units of its own spread."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        import numpy as np

        values = np.concatenate([each.values for each in lessons]).astype(float)
        spread = values.std(axis=0)
        self.scale = np.where(spread > 1e-9, spread, 0.0)
        self.values = values / np.where(self.scale > 0, self.scale, 1.0)
        self.lengths = np.array([len(each.values) for each in lessons])
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        self.wanted = np.zeros(len(values))
        for start, each in zip(self.starts, lessons, strict=True):
            self.wanted[start + each.evidence] = 1 / len(each.evidence)

    def lowest(self, taken: Any, weights: Any) -> Any:
        """Where the loss is lowest, by Newton's steps from these weights."""
        import numpy as np

        values = np.ascontiguousarray(self.values[:, taken])
        loss, chance = self._loss(values, weights)
        for _ in range(STEPS):
            slope = values.T @ (chance - self.wanted) / len(self.starts) + 2 * PENALTY * weights
            means = np.add.reduceat(values * chance[:, None], self.starts, axis=0)
            curve = (values.T @ (values * chance[:, None]) - means.T @ means) / len(self.starts)
            step = np.linalg.solve(curve + 2 * PENALTY * np.eye(len(weights)), slope)
            share = 1.0
            while (found := self._loss(values, weights - share * step))[0] > loss:
                share /= 2
                if share < 1e-6:
                    return weights
            weights = weights - share * step
            loss, chance = found
            if float(np.abs(share * step).max()) < 1e-6:
                break
        return weights

    def _loss(self, values: Any, weights: Any) -> tuple[float, Any]:
        """The loss, and the share of the softmax that each row has."""
        import numpy as np

        scores = values @ weights
        most = np.maximum.reduceat(scores, self.starts)
        odds = np.exp(scores - np.repeat(most, self.lengths))
        total = np.add.reduceat(odds, self.starts)
        loss = float((np.log(total) + most).sum() - self.wanted @ scores) / len(self.starts)
        return loss + PENALTY * float(weights @ weights), odds / np.repeat(total, self.lengths)


# ---- shipped, and measured on what was left out ----------------------------------------------------------


def ship(
    found: Sequence[Conversation],
    path: Path = WEIGHTS,
    *,
    stores: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Fit on all of these, for each embedder, and write the file that comes with the program."""
    from runtime.memory.facts.retrieval.parts import weights_of

    weights: dict[str, Mapping[str, float]] = {}
    for name in ("minilm", "lexical", "none"):
        say(f"weights for {name}")
        made = locomo.grounds(found, choose("lexical" if name == "none" else name), stores)
        parts = ALL.without("meaning", "late") if name == "none" else ALL
        weights[name] = fit([lesson for each in made for lesson in lessons_of(each, parts)])
    told = {
        "made_by": "python -m bench locomo --fit",
        "conversations": [each.name for each in found],
        "weights": weights,
    }
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    weights_of.cache_clear()


def leave_one_out(
    found: Sequence[Conversation],
    embedder: Embedder,
    *,
    without: bool = True,
    stores: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Each conversation by weights that the others gave; without a part, by weights fitted without it."""
    say(f"{sum(len(each.turns) for each in found)} turns are read and embedded by {embedder.name}")
    ready = locomo.grounds(found, embedder, stores)
    lessons = [lessons_of(each) for each in ready]
    told: dict[str, Any] = {"fractal": _left_out(ready, lessons)}
    told |= {name: locomo.figures_of(each) for name, each in locomo.plain(found, embedder).items()}
    if without:
        told["without"] = {}
        for part in dict.fromkeys(part for part in FEATURES.values() if part != "names"):
            say(f"without {part}")
            off = ALL.without(part)
            recounted = part in RECOUNTED
            others = [
                lessons_of(ground, off) if recounted else without_part(some, part)
                for ground, some in zip(ready, lessons, strict=True)
            ]
            told["without"][part] = _left_out(ready, others, off)
    return told


def _left_out(
    ready: Sequence[Ground], lessons: Sequence[Sequence[Lesson]], parts: Parts = ALL
) -> dict[str, Any]:
    answers: list[Any] = []
    for at, each in enumerate(ready):
        others = [lesson for other, some in enumerate(lessons) if other != at for lesson in some]
        answers += each.answers(parts, fit(others))
    return locomo.figures_of(answers)
