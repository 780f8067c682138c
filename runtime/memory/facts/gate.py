"""The gate: how much an observation surprises, and whether it merges with a memory, links to it, or is new.

Prediction error (surprise) is 1 − the similarity to the nearest memory. The thresholds depend on the embedder
and are calibrated for each (`python -m bench pairs --calibrate`). The one for a link rises where memories lie
dense, and nothing merges whose values do not agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runtime.memory.facts.agreement import SHARED, Agreement, Said, agreement, another_value
from runtime.memory.facts.graph import degrees
from runtime.memory.facts.language import Language
from runtime.memory.facts.records import Memory
from runtime.memory.store import Shelf
from runtime.memory.store.record import Vector

Route = Literal["merge", "link", "novel"]
NEAR = 5
"""Memories whose values are compared with an observation's."""
AROUND = 10
"""Memories behind these, whose mean similarity is the density around an observation."""
PAST = 4
"""So many times the memories are looked up, as some have ended."""
SETTLED = 2
"""Edges from which a memory is settled among others."""


@dataclass(frozen=True)
class Thresholds:
    """Similarities above which an observation merges with a memory, and links to it.

    A merge takes `both` if each of the two has words that the other has not, else `merge`. A link takes
    `link` + `slope` · density.
    """

    merge: float
    link: float
    both: float = 0.85
    slope: float = 0.0

    def around(self, density: float) -> Thresholds:
        """The thresholds at this density."""
        return replace(self, link=self.link + self.slope * density, slope=0.0)


REFERENCE = Thresholds(0.85, 0.50)
CALIBRATED = {
    "minilm": Thresholds(0.82, 0.41, 0.85, 0.3),
    "lexical": Thresholds(0.68, 0.21, 1.0, 0.5),
}
"""By the embedder's name up to its first `-`. Source: python -m bench pairs --calibrate; two are set by hand:

minilm merges above 0.82 and not 0.74, as one more word may mean something else (a dog, a dog's hair);
`both` is the reference's for minilm, and never met for lexical, which knows no meanings.
"""


@dataclass(frozen=True)
class Routed:
    """Where an observation goes, and by which scores."""

    route: Route
    memory: str = ""  # where it goes; the nearest for a new one, "" if there is none
    score: float = 0.0  # the similarity of the nearest
    contrary: tuple[tuple[str, str], ...] = ()  # facts that cannot hold beside it, and why
    replaced: tuple[tuple[str, str], ...] = ()  # facts that it literally says with another value, and why
    agreement: Agreement | None = None  # with `memory`
    thresholds: Thresholds = REFERENCE  # at the density here
    why: str = ""

    @property
    def surprise(self) -> float:
        """Prediction error."""
        return min(1.0, max(0.0, 1.0 - self.score))


def thresholds_of(embedder: str) -> Thresholds:
    """The gate's thresholds for vectors of an embedder."""
    return CALIBRATED.get(embedder.partition("-")[0], REFERENCE)


def said_by(memory: Memory) -> Said:
    """What a memory says, for comparison."""
    return Said(memory.text, memory.who, memory.since)


def route(said: Said, near: Sequence[tuple[Memory, float]], base: Thresholds, language: Language) -> Routed:
    """Where a statement goes among the memories nearest to it, the nearest first."""
    if not near:
        return Routed("novel", thresholds=base, why="nothing is known yet")
    here = base.around(density_of([score for _, score in near]))
    nearest, score = near[0]
    found = [(memory, each, agreement(said_by(memory), said, language)) for memory, each in near]
    contrary = tuple(
        (memory.id, agreed.why)
        for memory, _, agreed in found[:NEAR]
        if agreed.verdict == "contrary" and memory.held == "fact"
    )
    replaced = tuple(
        (memory.id, why)
        for memory, _ in near
        if memory.held == "fact" and (why := another_value(said_by(memory), said, language))
    )
    more = {"contrary": contrary, "replaced": replaced, "thresholds": here}
    merging = [(memory, each, agreed) for memory, each, agreed in found if merges(each, agreed, here)]
    if merging:
        memory, each, agreed = min(merging, key=lambda found: (found[2].verdict != "same", -found[1]))
        why = "it says the same" if agreed.verdict == "same" else f"{each:.2f} is above {here.merge:.2f}"
        return Routed("merge", memory.id, score, agreement=agreed, why=why, **more)
    agreed, linked = found[0][2], score > here.link or bool(replaced)
    why = f"{score:.2f} is {'' if linked else 'not '}above {here.link:.2f}"
    route: Route = "link" if linked else "novel"
    return Routed(route, nearest.id, score, agreement=agreed, why=(linked and agreed.why) or why, **more)


def density_of(scores: Sequence[float]) -> float:
    """The density around something with these similarities to its neighbours, the highest first."""
    behind = scores[NEAR : NEAR + AROUND]
    return sum(behind) / len(behind) if behind else 0.0


def merges(score: float, found: Agreement, here: Thresholds) -> bool:
    """Whether a statement of this similarity and agreement merges with a memory."""
    if found.verdict == "same":
        return True
    least = here.both if found.both else here.merge
    return found.verdict == "open" and found.shared >= SHARED and score > least


def nearest(
    shelf: Shelf, embedder: str, vector: Vector, *, agent: str, now: str, limit: int = NEAR + AROUND
) -> list[tuple[Memory, float]]:
    """The memories of an agent that have not ended and are nearest to a vector."""
    hits = shelf.nearest(Memory, embedder, vector, PAST * limit, {"agent": agent})
    scores = {hit.id: hit.score for hit in hits}
    ids, found = list(scores), list[tuple[Memory, float]]()
    for start in range(0, len(ids), limit):
        picked = shelf.pick(Memory, ids[start : start + limit])
        found += [(memory, scores[memory.id]) for memory in picked if not memory.ended(now)]
        if len(found) >= limit:
            break
    return found[:limit]


def congruent(shelf: Shelf, memory: Memory, score: float, borderline: float) -> bool:
    """Schema congruence: whether an observation of this similarity may become evidence of a memory.

    A memory with few edges takes only what fits well; a borderline observation waits as an episode.
    """
    return score >= borderline or degrees(shelf, [memory.id])[memory.id] >= SETTLED


SALIENCE = {"fact": 0.8, "identity": 0.8, "failure": 0.7, "reflection": 0.6, "result": 0.5, "note": 0.5}
TURN = 0.3
AT_ONCE = 0.7
"""The salience from which something new becomes a memory without waiting for a dream."""


def salience_of(text: str, said: str, names: tuple[str, ...] = ()) -> float:
    """How much an observation matters, 0 to 1, guessed from its kind and words."""
    base = SALIENCE.get(said, TURN)
    if len(set(re.findall(r"\w+", text.lower()))) < 4:
        return round(base / 2, 3)
    more = 0.1 * bool(re.search(r"\d", text)) + 0.1 * bool(names) + 0.1 * (len(text) > 120)
    return round(min(1.0, base + more), 3)
