"""Whether a memory is settled enough for an observation that fits it only nearly to become its evidence."""

from __future__ import annotations

from runtime.memory.semantic.links import degrees
from runtime.memory.semantic.records import Memory
from runtime.store import Shelf

SETTLED = 2
"""Edges from which a memory has a place among others."""


def congruent(shelf: Shelf, memory: Memory, score: float, borderline: float) -> bool:
    """Whether an observation with this similarity may join a memory.

    Around a memory with few edges only what fits well joins; what is borderline stays an episode, and waits.
    """
    return score >= borderline or degrees(shelf, [memory.id])[memory.id] >= SETTLED
