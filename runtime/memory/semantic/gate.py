"""The gate: how far an observation was expected, and whether it merges with a memory, links to it, or is new.

Prediction error is 1 − the similarity to the nearest memory. Where the thresholds lie depends on the
embedder, so they are calibrated for each (`fractal bench pairs --calibrate`); the one for a link rises where
memories lie dense, and nothing merges whose values do not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runtime.memory.semantic.language import Language
from runtime.memory.semantic.records import Memory
from runtime.memory.semantic.values import SHARED, Agreement, Said, agreement
from runtime.store import Shelf
from runtime.store.record import Vector
from runtime.store.shelf import Hit

Route = Literal["merge", "link", "novel"]
NEAR = 5
"""Memories whose values are compared with an observation's."""
AROUND = 10
"""Memories behind these whose mean similarity is the density around an observation."""


@dataclass(frozen=True)
class Thresholds:
    """Similarities above which an observation merges with a memory, and links to it.

    To merge takes `both` where each of the two has words that the other has not, else `merge`. To link
    takes `link` + `slope` · d where the density is d.
    """

    merge: float
    link: float
    both: float = 0.85
    slope: float = 0.0

    def around(self, density: float) -> Thresholds:
        """The thresholds where it is as dense as that."""
        return replace(self, link=self.link + self.slope * density, slope=0.0)


REFERENCE = Thresholds(0.85, 0.50)
CALIBRATED = {
    "minilm": Thresholds(0.82, 0.41, 0.85, 0.3),
    "lexical": Thresholds(0.68, 0.21, 1.0, 0.5),
}
"""By the embedder's name up to its first `-`. Source: fractal bench pairs --calibrate, but for two by hand:

minilm merges above 0.82 and not 0.74, as one word more may make it something else (a dog, a dog's hair);
`both` is the reference's for minilm, and never for lexical, which knows no meanings.
"""


@dataclass(frozen=True)
class Routed:
    """Where an observation goes, and by which scores."""

    route: Route
    memory: str = ""  # where it goes; for a new one the nearest, "" where there is none
    score: float = 0.0  # the similarity of the nearest
    density: float = 0.0
    thresholds: Thresholds = REFERENCE  # as they are here
    agreement: Agreement | None = None  # with `memory`
    contrary: tuple[tuple[str, Agreement], ...] = ()  # memories that it contradicts
    near: tuple[Hit, ...] = ()
    why: str = ""

    @property
    def surprise(self) -> float:
        """Prediction error."""
        return min(1.0, max(0.0, 1.0 - self.score))


def thresholds_of(embedder: str) -> Thresholds:
    """Where the gate's thresholds lie for vectors of an embedder."""
    return CALIBRATED.get(embedder.partition("-")[0], REFERENCE)


def said_by(memory: Memory) -> Said:
    """What a memory says, for comparing."""
    return Said(memory.text, memory.who, memory.since)


def route(said: Said, near: Sequence[tuple[Memory, float]], base: Thresholds, language: Language) -> Routed:
    """Where a saying goes among the memories nearest to it, the nearest first."""
    if not near:
        return Routed("novel", thresholds=base, why="nothing is known yet")
    density = density_of([score for _, score in near])
    here = base.around(density)
    score = near[0][1]
    found = [(memory, each, agreement(said_by(memory), said, language)) for memory, each in near[:NEAR]]
    routed = Routed(
        "novel",
        near[0][0].id,
        score,
        density,
        here,
        found[0][2],
        tuple((memory.id, told) for memory, _, told in found if told.verdict == "contrary"),
        tuple(Hit(memory.id, each) for memory, each in near),
        f"{score:.2f} is not above {here.link:.2f}",
    )
    merging = [(memory, each, told) for memory, each, told in found if merges(each, told, here)]
    if merging:
        memory, each, told = min(merging, key=lambda found: (found[2].verdict != "same", -found[1]))
        why = "it says the same" if told.verdict == "same" else f"{each:.2f} is above {here.merge:.2f}"
        return replace(routed, route="merge", memory=memory.id, agreement=told, why=why)
    if score > here.link or routed.contrary:
        told = found[0][2]
        return replace(routed, route="link", why=told.why or f"{score:.2f} is above {here.link:.2f}")
    return routed


def density_of(scores: Sequence[float]) -> float:
    """How dense it is around what has these similarities to its neighbours, the highest first."""
    behind = scores[NEAR : NEAR + AROUND]
    return sum(behind) / len(behind) if behind else 0.0


def merges(score: float, found: Agreement, here: Thresholds) -> bool:
    """Whether a saying of this similarity and agreement is one with a memory."""
    if found.verdict == "same":
        return True
    least = here.both if found.both else here.merge
    return found.verdict == "open" and found.shared >= SHARED and score > least


def nearest(
    shelf: Shelf,
    embedder: str,
    vector: Vector,
    *,
    agent: str,
    limit: int = NEAR + AROUND,
) -> list[tuple[Memory, float]]:
    """The memories of an agent that still hold and are nearest to a vector."""
    hits = shelf.nearest(Memory, embedder, vector, limit, {"agent": agent, "superseded": "", "until": ""})
    scores = {hit.id: hit.score for hit in hits}
    return [(memory, scores[memory.id]) for memory in shelf.pick(Memory, scores)]
