"""A task's token states as a tree: the running mean of the states turns where the thought turns.

Source: seed 000_39bad3da279292ba, "Trajectory Segmentation Algorithm".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]

SIGMA = 1.0
"""Standard deviations below the mean at which the cosine of two deltas splits. Source: memory.md."""
LEAST = 2
"""Tokens of the shortest segment."""
DEEPEST = 4
"""Levels of the tree below its root."""


@dataclass(frozen=True)
class Segment:
    """Tokens `start` up to `end` of a task, and the segments inside it."""

    start: int
    end: int
    children: tuple[Segment, ...] = field(default=())

    def all(self) -> list[Segment]:
        """This segment and all inside it, parents first."""
        return [self, *(each for child in self.children for each in child.all())]


def segment(states: Array, *, sigma: float = SIGMA, least: int = LEAST, deepest: int = DEEPEST) -> Segment:
    """The tree of segments of `states`, shape (tokens, dimensions)."""
    return _segment(np.asarray(states, np.float32), 0, sigma, max(least, 1), deepest)


def _segment(states: Array, offset: int, sigma: float, least: int, deepest: int) -> Segment:
    end = offset + len(states)
    if deepest <= 0 or len(states) < 2 * least:
        return Segment(offset, end)
    cuts = _turns(states, sigma, least)
    if not cuts:
        return Segment(offset, end)
    edges = [0, *cuts, len(states)]
    parts = pairwise(edges)
    children = (_segment(states[a:b], offset + a, sigma, least, deepest - 1) for a, b in parts)
    return Segment(offset, end, tuple(children))


def _turns(states: Array, sigma: float, least: int) -> list[int]:
    """Where the running mean changes its direction more than it does on the whole."""
    counts = np.arange(1, len(states) + 1, dtype=np.float32)[:, None]
    means = np.cumsum(states, axis=0) / counts
    deltas = np.diff(means, axis=0)
    norms = np.linalg.norm(deltas, axis=1)
    both = norms[:-1] * norms[1:]
    if not len(both):
        return []
    cosines = np.einsum("ij,ij->i", deltas[:-1], deltas[1:]) / np.where(both > 0, both, 1)
    threshold = float(cosines.mean() - sigma * cosines.std())
    cuts: list[int] = []
    for at in np.flatnonzero(cosines < threshold):
        place = int(at) + 2  # deltas[at + 1] brought token at + 2 into the mean
        if place - (cuts[-1] if cuts else 0) >= least and len(states) - place >= least:
            cuts.append(place)
    return cuts


def label(text: str, spans: Sequence[tuple[int, int]], part: Segment) -> str:
    """The text that a segment covers."""
    covered = spans[part.start : part.end]
    return text[covered[0][0] : covered[-1][1]] if covered else ""
