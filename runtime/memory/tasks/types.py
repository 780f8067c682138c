"""Problem types: what kind of task this is, and whether it is one that is known.

Each type is a Gaussian cluster around a centroid, with some of its tasks as members. Types and members are
records; `Gate`, which measures the distance to them, is rebuilt when another process has taught something.

Source: seed 000_39bad3da279292ba, "Substrat Index".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import randbits
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from runtime.memory.embed import Embedder
from runtime.memory.store import Record, Shelf, pack
from runtime.memory.store.record import LONGEST_ID
from runtime.memory.store.words import COMMON
from runtime.memory.tasks import ALL, Parts
from runtime.memory.tasks.decisions import Recognition as Kind
from runtime.memory.tasks.rewards import SURPRISING
from runtime.text.tokens import tokens

if TYPE_CHECKING:
    from runtime.memory.tasks.gate import Gate, Weights

MEMBERSHIP_THRESHOLD = 0.3
NOVEL_DISTANCE = 0.80
TEMPERATURE_DECAY = 0.95
"""At each use. Source of the three: the seed; the gate's distance is scaled so that 0.80 is the boundary."""
WARMTH = 0.3
"""What a temperature of 1 adds to the spread of a type, as a share. Source: the seed."""
SCOPE = NOVEL_DISTANCE / math.sqrt(-2 * math.log(MEMBERSHIP_THRESHOLD))
"""Of a new type: at temperature 0 its membership is 0.3 at the novel distance."""
RECOGNIZED = 0.6
"""From this membership on a task is recognized; from the threshold to it, familiar."""
WIDTH: Mapping[Kind, int] = {"recognized": 8, "familiar": 16, "novel": 32}
"""Candidates that are compared with a task."""
SHAPE_RECOGNIZED, SHAPE_FAMILIAR = 0.9, 0.7
"""The cosine of the nearest stored shape from which on a task is recognized, or familiar, by shape alone."""
STEP, SURPRISED_STEP = 0.05, 0.25
"""How far a centroid moves towards a familiar task; and, times the surprise, towards a surprising one."""
MEMBERS, ALL_MEMBERS, LEAST_MEMBERS = 100, 20_000, 8
"""Kept of one type; of all types; and of each type however many there are."""
TYPES, ARCHIVED = 2_000, 2_000
"""In use: beyond, the least recently used is archived. In the archive: beyond, it is deleted."""
Origin = Literal["explicit", "emergent", "archived"]


class ProblemType(Record):
    """A kind of task: `text` is its label, `vectors` its centroid by embedder."""

    KIND: ClassVar[str] = "problem-type"

    scope: float = SCOPE
    temperature: float = 1.0  # plasticity
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
        """Its spread; larger for a warm type."""
        return self.scope * (1 + WARMTH * self.temperature)

    def membership(self, distance: float) -> float:
        """Between 0 and 1, by a Gaussian of the distance."""
        return math.exp(-(distance**2) / (2 * self.sigma**2))


class Member(Record):
    """A task of a type: `text` is the task."""

    KIND: ClassVar[str] = "type-member"

    type: str


class Stamp(Record):
    """A new random number after each change; a process with another number rebuilds its gate."""

    KIND: ClassVar[str] = "type-stamp"

    number: int = 0

    @classmethod
    def another(cls) -> Self:
        """A new stamp; random, so that it stays unique when a transaction is rolled back."""
        return cls(id="types", number=2**52 + randbits(52))


@dataclass(frozen=True)
class Recognition:
    """What a task was taken for; `type` is the nearest one's id unless the task is novel."""

    kind: Kind
    type: str = ""
    membership: float = 0.0
    distance: float = math.inf
    ms: float = 0.0  # milliseconds that it took

    @property
    def width(self) -> int:
        """How many candidates to compare with the task."""
        return WIDTH[self.kind]


@dataclass
class WorkingMemory:
    """The candidates for one task: the best ones, as many as its recognition asks for."""

    task: str
    recognition: Recognition
    candidates: dict[str, float] = field(default_factory=dict[str, float])
    found: int = 0  # before the best ones were taken

    def take(self, found: Iterable[tuple[str, float]]) -> None:
        """Add candidates with their scores; the better score of a repeated one counts."""
        for id, score in found:
            self.candidates[id] = max(score, self.candidates.get(id, -math.inf))
        self.found = len(self.candidates)
        best = sorted(self.candidates.items(), key=lambda each: (-each[1], each[0]))
        self.candidates = dict(best[: self.recognition.width])


def by_shape(likeness: float) -> Recognition:
    """What a task is taken for by the cosine of the nearest stored shape, without an embedder."""
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


@dataclass(frozen=True)
class Lesson:
    """A task to be learned; without a type, the gate decides."""

    task: str
    vector: Any = None
    type: str = ""


class Types:
    """All problem types of one shelf, by the vectors of one embedder."""

    def __init__(
        self, shelf: Shelf, embedder: Embedder, parts: Parts = ALL, weights: Weights | None = None
    ) -> None:
        self.shelf, self.embedder, self.parts, self.weights = shelf, embedder, parts, weights
        self._types: dict[str, ProblemType] = {}  # in use
        self._built: Gate | None = None
        self._stamp = -1

    def recognise(self, task: str, vector: Any = None) -> Recognition:
        """Whether a task is of a known type; changes nothing."""
        id, distance = self.nearest(task, vector) if self.parts.types else ("", math.inf)
        return recognition(self._types[id], distance) if id else Recognition("novel")

    def nearest(self, task: str, vector: Any = None) -> tuple[str, float]:
        """The nearest type and its distance; "" and infinity if there are no types."""
        return self._gate.look(self._vector(task) if vector is None else vector, task)

    def get(self, id: str) -> ProblemType | None:
        """One type, archived or not."""
        return self.shelf.get(ProblemType, id)

    def learn(self, task: str, vector: Any = None, at: str = "") -> str:
        """Make a solved task a member of its type, or the first of a new one; returns the type's id.

        Returns "" when problem types are switched off.
        """
        return self.learn_all([Lesson(task, vector)], at)[0]

    def learn_all(self, lessons: Sequence[Lesson], at: str = "") -> list[str]:
        """Learn many tasks in one transaction; a named type that does not exist becomes an explicit one."""
        if not self.parts.types:
            return [""] * len(lessons)
        with self._changing():
            ids = [self._learn(each, at) for each in lessons]
            for id, lesson in dict(zip(ids, lessons, strict=True)).items():
                of = self._types[id]
                several = of.members > 1 and of.origin != "explicit"
                if several and (name := name_of(self._gate.shared(id), lesson.task)):
                    self._put(id, text=name)
            self._archive(sorted(self._types.values(), key=_age)[: max(len(self._types) - TYPES, 0)])
        return ids

    def used(self, found: Recognition, task: str, vector: Any = None, at: str = "") -> None:
        """Count a use of the recognised type: it cools, and moves towards a task that was only familiar."""
        if not found.type:
            return
        with self._changing():
            if (of := self._types.get(found.type)) is None:
                return
            if found.kind == "familiar":
                self._move(of.id, self._vector(task) if vector is None else vector, STEP)
            cooler = of.temperature * TEMPERATURE_DECAY
            self._put(of.id, used=at, updated=at, uses=of.uses + 1, temperature=cooler)

    def moved(self, type: str, vectors: Mapping[str, bytes], surprise: float) -> None:
        """Move a type's centroid towards a surprising task, further for a greater surprise."""
        raw = vectors.get(self.embedder.name)
        if raw is None or surprise <= SURPRISING or not (self.parts.types and self.parts.surprise):
            return
        import numpy as np

        with self._changing():
            if type in self._types:
                self._move(type, np.frombuffer(raw, "<f4"), min(SURPRISED_STEP * surprise, 1.0))

    def _vector(self, task: str) -> Any:
        return self.embedder.embed([task])[0]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction on the types as they are on the shelf now."""
        with self.shelf.transaction():
            _ = self._gate
            try:
                yield
            except BaseException:
                self._built = None
                raise
            stamp = Stamp.another()
            self._stamp = stamp.number
            self.shelf.put(stamp)

    @property
    def _gate(self) -> Gate:
        """The gate of all types in use, built again if they have changed on the shelf."""
        stamp = self.shelf.get(Stamp, "types")
        number = stamp.number if stamp else 0
        if self._built is None or number != self._stamp:
            self._built, self._stamp = self._rebuilt(), number
        return self._built

    def _rebuilt(self) -> Gate:
        """A gate of what is on the shelf; what has no vector of this embedder gets one."""
        from runtime.memory.tasks.gate import WHOLE, Gate

        name, gate = self.embedder.name, Gate(self.embedder.size, self.weights or WHOLE)
        self._types = {each.id: each for each in self.shelf.scan(ProblemType) if each.origin != "archived"}
        members = self._members()
        if missing := [each.id for each in members if name not in each.vectors]:
            self.shelf.embed(Member, missing, self.embedder)
            members = self._members()
        for id, each in self._types.items():
            if each.vector(name) is None:
                rows: list[Any] = [m.vector(name) for m in members if m.type == id]
                centre = sum(rows) / len(rows) if rows else self._vector(each.text)
                vectors = {**each.vectors, name: pack(centre)}
                self._types[id] = each.model_copy(update={"vectors": vectors})
            gate.add_type(id, self._types[id].vector(name))
        for each in members:
            gate.add(each.type, each.vector(name), each.text)
        return gate

    def _members(self) -> list[Member]:
        return [each for each in self.shelf.scan(Member) if each.type in self._types]

    def _learn(self, lesson: Lesson, at: str) -> str:
        task, name = lesson.task, self.embedder.name
        vector = self._vector(task) if lesson.vector is None else lesson.vector
        id = lesson.type or self.recognise(task, vector).type or f"type-{digest(task)}"
        if id not in self._types:
            self._begin(id, task, vector, "explicit" if lesson.type else "emergent", at)
        gate = self._gate
        of = self._types[id]
        name_of_member = f"{id}/{digest(task)}"[:LONGEST_ID]
        member = Member(id=name_of_member, type=id, text=task, vectors={name: pack(vector)})
        if self.shelf.get(Member, member.id) is None:
            if gate.count(id) < max(min(MEMBERS, ALL_MEMBERS // len(self._types)), LEAST_MEMBERS):
                self.shelf.put(member)
                gate.add(id, vector, task)
            self._move(id, vector, 1 / (min(of.members, MEMBERS) + 1))
            self._put(id, members=of.members + 1, updated=at)
        return id

    def _begin(self, id: str, task: str, vector: Any, origin: Origin, at: str) -> None:
        """Begin a type, or take it out of the archive."""
        if was := self.get(id):
            self.shelf.put(was.model_copy(update={"origin": origin, "updated": at}))
            self._built = None
            return
        vectors = {self.embedder.name: pack(vector)}
        text = id if origin == "explicit" else task[:80]
        made = ProblemType(id=id, text=text, created=at, updated=at, origin=origin, vectors=vectors)
        self._gate.add_type(id, vector)
        self._types[id] = made
        self.shelf.put(made)

    def _move(self, id: str, vector: Any, step: float) -> None:
        vectors = {**self._types[id].vectors, self.embedder.name: pack(self._gate.move(id, vector, step))}
        self._put(id, vectors=vectors)

    def _put(self, id: str, **changes: Any) -> None:
        self._types[id] = self._types[id].model_copy(update=changes)
        self.shelf.put(self._types[id])

    def _archive(self, old: Sequence[ProblemType]) -> None:
        if not old:
            return
        self._built = None
        self.shelf.put(*(each.model_copy(update={"origin": "archived"}) for each in old))
        aside = sorted(self.shelf.scan(ProblemType, {"origin": "archived"}), key=_age)
        for each in aside[: max(len(aside) - ARCHIVED, 0)]:
            self.shelf.delete(Member, *(row.id for row in self.shelf.rows(Member.KIND, {"type": each.id})))
            self.shelf.delete(ProblemType, each.id)


def _age(type: ProblemType) -> tuple[str, str]:
    return max(type.used, type.updated), type.id


def name_of(shared: Collection[str], task: str) -> str:
    """A readable name of a type: the words that its tasks share, in the order of one of them.

    A small word between two of them stays: `count lines in file`. "" if they share no word of that task.
    """
    said = [*dict.fromkeys(token.low for token in tokens(task) if token.kind == "word")]
    kept = [False, *(word in shared for word in said), False]
    beside = [word in COMMON and kept[n - 1] and kept[n + 1] for n, word in enumerate(said, 1)]
    return " ".join(word for n, word in enumerate(said) if kept[n + 1] or beside[n])


def digest(text: str) -> str:
    """A short hash of a text, for ids."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
