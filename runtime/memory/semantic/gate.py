"""The gate: how far an observation was expected, and whether it merges with a memory, links to it, or is new.

Prediction error is 1 − the similarity to the nearest memory. Where the thresholds lie depends on the
embedder, so they are calibrated for each; they move with the density of memories around; and nothing merges
whose values do not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.memory.semantic.records import Memory
from runtime.memory.semantic.values import Agreement, Said, agreement
from runtime.store import Shelf
from runtime.store.record import Vector
from runtime.store.shelf import Hit

Route = Literal["merge", "link", "novel"]
NEAR = 5
"""Memories that tell how dense it is around an observation."""


@dataclass(frozen=True)
class Thresholds:
    """Similarities above which an observation merges with a memory, and links to it."""

    merge: float
    link: float


REFERENCE = Thresholds(0.85, 0.50)
CALIBRATED = {"minilm": REFERENCE, "lexical": REFERENCE}
"""By the embedder's name up to its first `-`."""


@dataclass(frozen=True)
class Routed:
    """Where an observation goes, and by which scores."""

    route: Route
    memory: str = ""  # the nearest, "" where there is none
    score: float = 0.0  # its similarity
    density: float = 0.0  # mean similarity of the nearest few
    thresholds: Thresholds = REFERENCE  # as they are here
    agreement: Agreement | None = None  # with the nearest
    near: tuple[Hit, ...] = ()
    why: str = ""

    @property
    def surprise(self) -> float:
        """Prediction error."""
        return min(1.0, max(0.0, 1.0 - self.score))


def thresholds_of(embedder: str) -> Thresholds:
    """Where the gate's thresholds lie for vectors of an embedder."""
    return CALIBRATED.get(embedder.partition("-")[0], REFERENCE)


def route(said: Said, near: Sequence[tuple[Memory, float]], base: Thresholds) -> Routed:
    """Where a saying goes among the memories nearest to it, the nearest first."""
    if not near:
        return Routed("novel", thresholds=base, why="nothing is known yet")
    hits = tuple(Hit(memory.id, score) for memory, score in near)
    density = sum(score for _, score in near[:NEAR]) / len(near[:NEAR])
    best, score = near[0]
    found = agreement(said, Said(best.text, best.who, best.since))

    def told(way: Route, why: str) -> Routed:
        return Routed(way, best.id, score, density, base, found, hits, why)

    if found.verdict == "same":
        return told("merge", "it says the same")
    if score > base.merge and found.mergeable:
        return told("merge", f"{score:.2f} is above {base.merge:.2f}, and their values agree")
    if score > base.link:
        return told("link", found.why or f"{score:.2f} is above {base.link:.2f}")
    return told("novel", f"{score:.2f} is not above {base.link:.2f}")


def nearest(
    shelf: Shelf, embedder: str, vector: Vector, *, agent: str, limit: int = NEAR, besides: str = ""
) -> list[tuple[Memory, float]]:
    """The memories of an agent that still hold and are nearest to a vector."""
    hits = shelf.nearest(Memory, embedder, vector, limit + 1, {"agent": agent, "superseded": "", "until": ""})
    hits = [hit for hit in hits if hit.id != besides][:limit]
    scores = {hit.id: hit.score for hit in hits}
    return [(memory, scores[memory.id]) for memory in shelf.pick(Memory, scores)]
