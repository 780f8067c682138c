"""What a problem type is, and what a task is taken for: recognized, familiar or novel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from secrets import randbits
from typing import ClassVar, Literal, Self

from runtime.memory.procedural.decisions import Recognition as Kind
from runtime.store import Record

MEMBERSHIP_THRESHOLD = 0.3
NOVEL_DISTANCE = 0.80
TEMPERATURE_DECAY = 0.95
"""At each use. Source of the three: memory.md; the gate's distance is scaled so that 0.80 is the boundary."""
WARMTH = 0.3
"""What a temperature of 1 adds to the spread of a type, as a share."""
SCOPE = NOVEL_DISTANCE / math.sqrt(-2 * math.log(MEMBERSHIP_THRESHOLD))
"""Of a new type: a cold one has a membership of 0.3 just at the novel distance."""
RECOGNIZED = 0.6
"""From this membership on a task is recognized; from the threshold to it, familiar."""
WIDTH: Mapping[Kind, int] = {"recognized": 8, "familiar": 16, "novel": 32}
"""Candidates to compare with a task."""
SHAPE_RECOGNIZED, SHAPE_FAMILIAR = 0.9, 0.7
"""From this cosine of the nearest stored shape on a task is recognized, or familiar, by its shape alone."""
Origin = Literal["explicit", "emergent", "archived"]


class ProblemType(Record):
    """A kind of task: `text` is its label, `vectors` its centroid by embedder."""

    KIND: ClassVar[str] = "problem-type"

    scope: float = SCOPE
    temperature: float = 1.0
    members: int = 0  # ever taught
    uses: int = 0  # tasks that were recognized as of this type
    origin: Origin = "emergent"
    created: str = ""
    updated: str = ""
    used: str = ""

    @property
    def label(self) -> str:
        """What it is about, in words."""
        return self.text

    @property
    def sigma(self) -> float:
        """How wide it is: a warm type takes in more."""
        return self.scope * (1 + WARMTH * self.temperature)

    def membership(self, distance: float) -> float:
        """Between 0 and 1, by a Gaussian."""
        return math.exp(-(distance**2) / (2 * self.sigma**2))


class Member(Record):
    """A task of a type, as the gate compares it: `text` is the task."""

    KIND: ClassVar[str] = "type-member"

    type: str


class Stamp(Record):
    """Another number after each change: who holds a gate sees by it that others changed the types."""

    KIND: ClassVar[str] = "type-stamp"

    number: int = 0

    @classmethod
    def another(cls) -> Self:
        """A stamp that was never there, even when what is around it is rolled back; as long as all others."""
        return cls(id="types", number=2**52 + randbits(52))


@dataclass(frozen=True)
class Recognition:
    """What a task was taken for; `type` is the nearest one's id where it is recognized or familiar."""

    kind: Kind
    type: str = ""
    membership: float = 0.0
    distance: float = math.inf

    @property
    def width(self) -> int:
        """How many candidates to compare with the task."""
        return WIDTH[self.kind]


@dataclass
class WorkingMemory:
    """The candidates of one query, thrown away after it: no more than its recognition asks for."""

    task: str
    recognition: Recognition
    candidates: dict[str, float] = field(default_factory=dict[str, float])

    def take(self, found: Iterable[tuple[str, float]]) -> None:
        """Candidates with their scores; of one that is there already the better score counts."""
        for id, score in found:
            self.candidates[id] = max(score, self.candidates.get(id, -math.inf))
        best = sorted(self.candidates.items(), key=lambda each: (-each[1], each[0]))
        self.candidates = dict(best[: self.recognition.width])


def by_shape(likeness: float) -> Recognition:
    """What a task is taken for before any embedder is asked, by the cosine of the nearest stored shape."""
    kind: Kind = "novel"
    if likeness >= SHAPE_FAMILIAR:
        kind = "recognized" if likeness >= SHAPE_RECOGNIZED else "familiar"
    return Recognition(kind, "", likeness, 1 - likeness)


def recognition(of: ProblemType, distance: float) -> Recognition:
    """What a task at this distance from its nearest type is taken for."""
    membership = of.membership(distance)
    if membership < MEMBERSHIP_THRESHOLD or distance > NOVEL_DISTANCE:
        return Recognition("novel", "", membership, distance)
    return Recognition("recognized" if membership >= RECOGNIZED else "familiar", of.id, membership, distance)
