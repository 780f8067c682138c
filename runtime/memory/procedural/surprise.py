"""Prediction and surprise: what was expected of a recall, and how far off that was.

What surprises is told to the problem type, which then moves further than it would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runtime.memory.procedural.decisions import Decision

SURPRISING = 0.3
"""From here on a difference between what was expected and what came counts. Source: memory.md."""


class Moved(Protocol):
    """Whoever holds problem types: told of a type, the task's vectors by embedder, and the surprise."""

    def __call__(self, type: str, vectors: Mapping[str, bytes], surprise: float) -> object:
        """Take note of it."""
        ...


def surprise(decision: Decision, good: bool) -> float | None:
    """|confidence before - outcome after|; None where nothing had been expected."""
    if not decision.predicts:
        return None
    return round(abs(decision.predicted - good), 4)
