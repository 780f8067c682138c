"""What is known, as one thing to ask and to tell: observations, memories, edges and goals of one agent.

Cheap to make and cheap to tell: an observation is embedded when somebody first asks, not when it comes.
The same observation again changes nothing, and two processes may work on one shelf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from kernel.events import now as present
from runtime.memory.semantic import (
    contradictions,
    gate,
    goals,
    graph,
    keeping,
    links,
    review,
    saturation,
    wander,
)
from runtime.memory.semantic.dates import moment, normal
from runtime.memory.semantic.gate import Routed, Thresholds
from runtime.memory.semantic.names import names_of
from runtime.memory.semantic.records import (
    DEFAULT,
    Edge,
    Goal,
    MadeBy,
    Memory,
    Observation,
    Relation,
    Waiting,
)
from runtime.memory.semantic.salience import AT_ONCE, salience_of
from runtime.memory.semantic.values import Said
from runtime.store import Shelf, pack

if TYPE_CHECKING:
    from runtime.embedding import Embedder
    from runtime.memory.brain import Brain
    from runtime.memory.semantic.contradictions import Settled
    from runtime.memory.semantic.language import Language
    from runtime.memory.semantic.values import Agreement

BATCH = 64
"""Texts that are embedded together."""
LONGEST = 20_000
"""Characters of an observation; what is longer is a file, and belongs into one."""


@dataclass(frozen=True)
class Settings:
    """How a mind works. `systems` are the folders with data about language, the nearest first."""

    systems: tuple[Path, ...] = ()
    thresholds: Thresholds | None = None  # None: as calibrated for the embedder


class Mind:
    """What one agent knows."""

    def __init__(
        self,
        shelf: Shelf,
        embedder: Embedder,
        *,
        agent: str = DEFAULT,
        clock: Callable[[], str] = present,
        settings: Settings | None = None,
    ) -> None:
        self.shelf = shelf
        self.embedder = embedder
        self.agent = agent
        self.clock = clock
        self.settings = settings or Settings()

    @classmethod
    def of(cls, brain: Brain, *, agent: str = DEFAULT, clock: Callable[[], str] = present) -> Mind:
        """The mind on a workspace's shelf."""
        return cls(
            brain.shelf, brain.embedder, agent=agent, clock=clock, settings=Settings(brain.settings.systems)
        )

    @property
    def thresholds(self) -> Thresholds:
        """The gate's, as set or as calibrated for the embedder."""
        return self.settings.thresholds or gate.thresholds_of(self.embedder.name)

    @cached_property
    def language(self) -> Language:
        """What is known of words for telling whether sayings agree."""
        from runtime.memory.semantic.language import language_of

        return language_of(self.settings.systems)

    # ---- telling -----------------------------------------------------------------------------------------

    def noting(self, text: str, **fields: Any) -> Observation:
        """An observation as it would be kept; nothing is written. Raises `UsageError` for what is none."""
        if not text.strip():
            raise UsageError("an observation needs some words")
        if len(text) > LONGEST:
            raise UsageError(
                f"an observation of {len(text)} characters is too long, {LONGEST} are the most; "
                "keep it in a file and tell what it is about"
            )
        now = normal(self.clock())
        told = {"at": "", "said": "note", "who": "", "source": "", "thread": "", "turn": 0, **fields}
        given = told["at"] = normal(told["at"])
        if told.get("names") is None:
            told["names"] = names_of(text, self.language)
        if told.get("salience") is None:
            told["salience"] = salience_of(text, told["said"], told["names"])
        place = {name: told[name] for name in ("who", "source", "thread", "turn")}
        id = keeping.observation_id(text, at=given, agent=self.agent, **place)
        told["at"] = given or now
        try:
            return Observation(id=id, text=text, noted=now, agent=self.agent, **told)
        except ValueError as error:  # of pydantic
            raise UsageError(f"an observation cannot be kept so: {error}") from None

    def observe(self, text: str, *, at_once: bool = False, **fields: Any) -> Observation:
        """Keep what came in; `fields` are those of `Observation`. The gate looks at it at the next `take_in`.

        With `at_once` that is now. Without `names` and `salience` both are told from the text.
        """
        observation = self.noting(text, **fields)
        (kept,) = self.keep([observation])
        if at_once:
            self.take_in()
            kept = self.shelf.get(Observation, kept.id) or kept
        return kept

    def keep(self, observations: Iterable[Observation]) -> list[Observation]:
        """Keep many at once, all or none; returns each as it is on the shelf."""
        wanted = {each.id: each for each in observations}
        with self.shelf.transaction():
            there = {each.id: each for each in self.shelf.pick(Observation, wanted)}
            new = [each for id, each in wanted.items() if id not in there]
            self.shelf.put(*new, *(Waiting(id=each.id) for each in new))
        return [there.get(id, each) for id, each in wanted.items()]

    def remember(self, text: str, **fields: Any) -> Memory:
        """Keep what a person asked to remember: an observation, and a memory of it at once."""
        told = {"said": "fact", "source": "person", "salience": 1.0, **fields}
        observation = self.noting(text, **told)
        known = self._memory_of(observation)
        if known is not None and (known.superseded or known.until):
            observation = self.noting(text, **{**told, "at": told.get("at") or self.clock()})
        self.keep([observation])
        self.take_in()
        with self.shelf.transaction():
            kept = self.shelf.get(Observation, observation.id) or observation
            memory = self._memory_of(kept)
            if memory is None:
                memory = self.place(kept)
            surer = max(memory.confidence, keeping.TOLD)
            if surer != memory.confidence:
                memory = memory.model_copy(update={"confidence": surer})
                self.shelf.put(memory)
        return memory

    def _memory_of(self, observation: Observation) -> Memory | None:
        kept = self.shelf.get(Observation, observation.id)
        return self.shelf.get(Memory, kept.memory) if kept is not None and kept.memory else None

    # ---- the gate ----------------------------------------------------------------------------------------

    def take_in(self) -> int:
        """Embed what waits and let the gate look at it, in the order of time; returns how many waited."""
        self._index_anew()
        waiting = [each.id for each in self.shelf.scan(Waiting)]
        found = self.shelf.pick(Observation, waiting)
        found.sort(key=lambda each: (each.at, each.thread, each.turn, each.id))
        for start in range(0, len(found), BATCH):
            self._take_in(found[start : start + BATCH])
        gone = set(waiting) - {each.id for each in found}
        if gone:
            self.shelf.delete(Waiting, *gone)
        return len(found)

    def _take_in(self, batch: Sequence[Observation]) -> None:
        name = self.embedder.name
        rows = self.embedder.embed([each.text for each in batch])
        with self.shelf.transaction():
            waiting = {each.id for each in self.shelf.pick(Waiting, [each.id for each in batch])}
            for observation, row in zip(batch, rows, strict=True):
                if observation.id not in waiting:
                    continue  # another process was quicker
                whole = observation.model_copy(update={"vectors": {**observation.vectors, name: pack(row)}})
                routed = self.route(whole)
                told = {"route": routed.route, "surprise": round(routed.surprise, 6), "gate": name}
                whole = whole.model_copy(update=told)
                self.shelf.put(whole)
                news = routed.route == "novel" or bool(routed.contrary)
                if news and whole.salience >= AT_ONCE:
                    self.place(whole, routed)
            self.shelf.delete(Waiting, *waiting)

    def _index_anew(self) -> None:
        """After another embedder has come: vectors of it for everything, those that were made before kept."""
        name = self.embedder.name
        known = self.shelf.get(MadeBy, "semantic")
        if known is not None and known.embedder == name:
            return
        for kind in (Observation, Memory, Goal):
            waiting = {each.id for each in self.shelf.scan(Waiting)} if kind is Observation else set[str]()
            old = (each for each in self.shelf.scan(kind) if name not in each.vectors)
            ids = [each.id for each in old if each.id not in waiting]  # those are embedded anyway
            for start in range(0, len(ids), BATCH):
                part = self.shelf.pick(kind, ids[start : start + BATCH])
                rows = self.embedder.embed([each.text for each in part])
                with self.shelf.transaction():
                    there = {each.id: each for each in self.shelf.pick(kind, ids[start : start + BATCH])}
                    for each, row in zip(part, rows, strict=True):
                        if (now := there.get(each.id)) is not None and now.text == each.text:
                            vectors = {**now.vectors, name: pack(row)}
                            self.shelf.put(now.model_copy(update={"vectors": vectors}))
        self.shelf.put(MadeBy(id="semantic", embedder=name))

    def route(self, observation: Observation) -> Routed:
        """Where the gate sends an observation among the memories of now; nothing is written."""
        name = self.embedder.name
        vector = observation.vector(name)
        if vector is None:
            (vector,) = self.embedder.embed([observation.text])
        near = gate.nearest(self.shelf, name, vector, agent=observation.agent)
        said = Said(observation.text, observation.who, observation.at)
        return gate.route(said, near, self.thresholds, self.language)

    def place(self, observation: Observation, routed: Routed | None = None) -> Memory:
        """An observation as evidence of the memory that it merges with, else as a memory of its own.

        That one is linked to the nearest; what it contradicts is kept beside it, or superseded by it.
        """
        with self.shelf.transaction():
            routed = routed or self.route(observation)
            merged = routed.route == "merge"
            memory = self.merge(observation, routed.memory) if merged else self.create(observation)
            if routed.route == "link" and routed.memory != memory.id and not routed.contrary:
                self.link(memory.id, routed.memory, text=routed.why, weight=min(1.0, max(0.0, routed.score)))
            for id, found in routed.contrary:
                self.settle(memory.id, id, found)
            return self.shelf.get(Memory, memory.id) or memory

    def settle(self, memory: str, other: str, found: Agreement | None = None) -> Settled | None:
        """Keep the contradiction of two memories, the later superseding; None where there is none."""
        pair = self.shelf.pick(Memory, [memory, other])
        if len(pair) < 2:
            return None
        found = found or contradictions.contradicts(pair[0], pair[1], self.language)
        if found is None:
            return None
        return contradictions.settle(self.shelf, pair[0], pair[1], found, self.language, normal(self.clock()))

    def create(self, observation: Observation, **fields: Any) -> Memory:
        """A memory that says what an observation says; `fields` are those of `Memory`."""
        return keeping.create(self.shelf, observation, normal(self.clock()), **fields)

    def merge(self, observation: Observation, memory: str) -> Memory:
        """An observation as evidence of a memory. Raises `UsageError` where there is no such memory."""
        known = self.shelf.get(Memory, memory)
        if known is None:
            raise UsageError(f"there is no memory {memory}")
        return keeping.merge(self.shelf, observation, known, normal(self.clock()))

    # ---- what is there -----------------------------------------------------------------------------------

    def memories(self, *, past: bool = False) -> Iterator[Memory]:
        """The memories of this agent that hold; with `past`, those that were superseded as well."""
        where: dict[str, Any] = {"agent": self.agent}
        return self.shelf.scan(Memory, where if past else {**where, "superseded": "", "until": ""})

    def edges_of(self, ids: Iterable[str]) -> dict[str, list[Edge]]:
        """The edges of each of these memories, whichever end it is."""
        return links.edges_of(self.shelf, ids)

    def link(
        self, source: str, target: str, relation: Relation = "related", *, text: str = "", weight: float = 0.5
    ) -> Edge:
        """The edge from one memory to another, dated on both sides; one that is there stays as it is."""
        if source == target:
            raise UsageError(f"{source}: a memory has no edge to itself")
        dates = {memory.id: memory.since for memory in self.shelf.pick(Memory, [source, target])}
        return links.link(
            self.shelf,
            source,
            target,
            relation,
            text=text,
            weight=weight,
            at=normal(self.clock()),
            source_at=dates.get(source, ""),
            target_at=dates.get(target, ""),
        )

    # ---- use, review, walks ------------------------------------------------------------------------------

    def used(self, found: Mapping[str, tuple[float, int]]) -> None:
        """Memories were of use for a question: by id, the score and how many edges away each was found."""
        now = normal(self.clock())
        with self.shelf.transaction():
            for memory in self.shelf.pick(Memory, found):
                score, hop = found[memory.id]
                told = {"accessed": memory.accessed + 1, "last_access": now}
                told |= {"last_score": score, "last_hop": hop}
                self.shelf.put(memory.model_copy(update=told))

    def feedback(self, id: str, helpful: bool) -> Memory:
        """A word on a memory moves its confidence. Raises `UsageError` where there is no such memory."""
        with self.shelf.transaction():
            memory = self.shelf.get(Memory, id)
            if memory is None:
                raise UsageError(f"there is no memory {id}")
            memory = review.feedback(memory, helpful)
            self.shelf.put(memory)
        return memory

    def due(self) -> list[Memory]:
        """The memories whose review is due, those due longest first."""
        now = moment(normal(self.clock()))
        found = [memory for memory in self.memories() if review.due(memory, now)]
        return sorted(found, key=lambda memory: (review.due_at(memory), memory.id))

    def wander(self, *, seed: int, about: str = "", steps: int = wander.STEPS) -> list[wander.Step]:
        """A walk from memories near `about`, else from anywhere; the same for the same seed and shelf."""
        self.take_in()
        name = self.embedder.name
        if about.strip():
            (row,) = self.embedder.embed([about])
            near = gate.nearest(self.shelf, name, row, agent=self.agent, limit=wander.SEEDS)
            start = [memory for memory, _ in near]
        else:
            start = list(self.memories())
        return wander.walk(
            self.shelf,
            start,
            moment(normal(self.clock())),
            seed=seed,
            goals=self.goals(),
            embedder=name,
            near=self.thresholds.link,
            steps=steps,
        )

    def connectivity(self) -> graph.Connectivity:
        """How well the memories that hold hang together."""
        nodes = {memory.id for memory in self.memories()}
        edges = (edge for edge in self.shelf.scan(Edge) if edge.source in nodes and edge.target in nodes)
        return graph.fiedler(sorted(nodes), ((edge.source, edge.target, edge.weight) for edge in edges))

    def saturation(self) -> saturation.Saturation:
        """Whether what comes in about oneself still surprises."""
        found = self.shelf.scan(Observation, {"agent": self.agent, "said": list(saturation.KINDS)})
        return saturation.saturation(found, moment(normal(self.clock())))

    # ---- goals -------------------------------------------------------------------------------------------

    def set_goal(self, text: str, *, priority: float = 0.5) -> Goal:
        """A state that is wished for; the same words again are the same goal, and open again."""
        now = normal(self.clock())
        return goals.wish(self.shelf, self.embedder, self.agent, text, priority=priority, now=now)

    def reached(self, id: str) -> Goal:
        """The goal is so; it draws nothing any more. Raises `UsageError` where there is no such goal."""
        return goals.reach(self.shelf, id, normal(self.clock()))

    def goals(self, *, past: bool = False) -> list[Goal]:
        """The goals that are not reached, the most important first; with `past`, the others as well."""
        return goals.goals(self.shelf, self.agent, past=past)

    def gap(self, goal: Goal) -> float:
        """How far a goal is from what is believed: 1 − the similarity of the nearest memory."""
        self._index_anew()
        return goals.gap(self.shelf, self.embedder.name, goal)
