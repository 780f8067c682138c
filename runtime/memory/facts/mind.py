"""What one agent knows, as one object: observations, memories, edges and goals.

Observing is cheap: an observation is embedded when somebody first asks, not when it arrives. The same
observation again changes nothing, and two processes may work on one shelf.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from kernel.events import now as present
from runtime.memory.facts import gate, goals, graph, health, review
from runtime.memory.facts.agreement import Said, canonical
from runtime.memory.facts.claims import valid
from runtime.memory.facts.gate import AT_ONCE, Routed, Thresholds, salience_of
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.records import (
    DEFAULT,
    Edge,
    Goal,
    Links,
    MadeBy,
    Memory,
    Observation,
    Relation,
    Waiting,
    moment,
    normal,
)
from runtime.memory.facts.terms import names_of
from runtime.memory.store import Shelf, pack

if TYPE_CHECKING:
    from runtime.memory.embed import Embedder
    from runtime.memory.stored import Stored

BATCH = 64
"""Texts that are embedded together."""
LONGEST = 20_000
"""Characters of an observation; longer texts belong into a file."""


class Mind:
    """What one agent knows. `systems` are folders with data about language, the nearest first."""

    def __init__(
        self,
        shelf: Shelf,
        embedder: Embedder,
        *,
        systems: tuple[Path, ...] = (),
        agent: str = DEFAULT,
        clock: Callable[[], str] = present,
    ) -> None:
        self.shelf = shelf
        self.embedder = embedder
        self.agent = agent
        self.clock = clock
        self.systems = systems

    @classmethod
    def of(cls, brain: Stored, *, agent: str = DEFAULT, clock: Callable[[], str] = present) -> Mind:
        """The mind on a workspace's shelf."""
        return cls(brain.shelf, brain.embedder, systems=brain.settings.systems, agent=agent, clock=clock)

    @property
    def thresholds(self) -> Thresholds:
        """The gate's, as calibrated for the embedder."""
        return gate.thresholds_of(self.embedder.name)

    @cached_property
    def language(self) -> Language:
        """The words that decide whether statements agree."""
        return language_of(self.systems)

    @property
    def now(self) -> str:
        """The clock's time, as it is stored."""
        return normal(self.clock())

    def noting(self, text: str, **fields: Any) -> Observation:
        """An observation as it would be kept; nothing is written. Raises `UsageError` for an invalid one.

        `fields` are those of `Observation`. Without `names` and `salience` both are derived from the text.
        """
        if not text.strip():
            raise UsageError("an observation needs some words")
        if len(text) > LONGEST:
            raise UsageError(
                f"an observation of {len(text)} characters is too long (at most {LONGEST}); "
                "keep it in a file and say what it is about"
            )
        now = self.now
        values = {"said": "note", "who": "", "source": "", "thread": "", "turn": 0, **fields}
        at = normal(values.get("at") or "")
        if values.get("names") is None:
            values["names"] = names_of(text, self.language)
        if values.get("salience") is None:
            values["salience"] = salience_of(text, values["said"], values["names"])
        place = (values["source"], values["thread"], str(values["turn"]), values["who"])
        id = graph.digest(self.agent, *place, at, text)
        try:
            return Observation(
                **{**values, "id": id, "text": text, "at": at or now, "noted": now, "agent": self.agent}
            )
        except ValueError as error:  # of pydantic
            raise UsageError(f"invalid observation: {error}") from None

    def observe(self, text: str, *, at_once: bool = False, **fields: Any) -> Observation:
        """Keep what came in; `fields` as for `noting`. The gate looks at it at the next `take_in`.

        With `at_once` that is now.
        """
        (kept,) = self.keep([self.noting(text, **fields)])
        if at_once:
            self.take_in()
            kept = self.shelf.get(Observation, kept.id) or kept
        return kept

    def keep(self, observations: Iterable[Observation]) -> list[Observation]:
        """Keep many, all or none; returns each as it is on the shelf."""
        wanted = {each.id: each for each in observations}
        with self.shelf.transaction():
            there = {each.id: each for each in self.shelf.pick(Observation, wanted)}
            new = [each for id, each in wanted.items() if id not in there]
            self.shelf.put(*new, *(Waiting(id=each.id) for each in new))
        return [there.get(id, each) for id, each in wanted.items()]

    def remember(self, text: str, **fields: Any) -> Memory:
        """Keep what a person asked to remember: an observation, and a memory of it at once."""
        values = {"said": "fact", "source": "person", "salience": 1.0, **fields}
        observation = self.noting(text, **values)
        known = self._memory_of(observation)
        if known is not None and known.ended(self.now):
            observation = self.noting(text, **{**values, "at": values.get("at") or self.clock()})
        self.keep([observation])
        self.take_in()
        with self.shelf.transaction():
            kept = self.shelf.get(Observation, observation.id) or observation
            memory = self._memory_of(kept) or self.place(kept)
            if memory.confidence < graph.TOLD:
                memory = memory.model_copy(update={"confidence": graph.TOLD})
                self.shelf.put(memory)
        return memory

    def withdraw(self, id: str) -> None:
        """Take an observation out again, and its memory if that has no other evidence."""
        shelf = self.shelf
        with shelf.transaction():
            kept = shelf.get(Observation, id)
            memory = shelf.get(Memory, kept.memory) if kept is not None and kept.memory else None
            if memory is not None and set(memory.evidence) <= {id}:
                shelf.delete(Edge, *(edge.id for edge in self.edges_of([memory.id])[memory.id]))
                shelf.delete(Links, memory.id)
                shelf.delete(Memory, memory.id)
            elif memory is not None:
                evidence, unread = (
                    tuple(each for each in ids if each != id) for ids in (memory.evidence, memory.unread)
                )
                shelf.put(memory.model_copy(update={"evidence": evidence, "unread": unread}))
            shelf.delete(Observation, id)
            shelf.delete(Waiting, id)

    def _memory_of(self, observation: Observation) -> Memory | None:
        kept = self.shelf.get(Observation, observation.id)
        return self.shelf.get(Memory, kept.memory) if kept is not None and kept.memory else None

    def take_in(self) -> int:
        """Embed what waits and pass it through the gate, oldest first; returns how many waited."""
        self._reembed()
        waiting = [each.id for each in self.shelf.scan(Waiting)]
        found = self.shelf.pick(Observation, waiting)
        found.sort(key=lambda each: (each.at, each.thread, each.turn, each.id))
        for start in range(0, len(found), BATCH):
            self._take_in(found[start : start + BATCH])
        if gone := set(waiting) - {each.id for each in found}:
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
                values = {"route": routed.route, "surprise": round(routed.surprise, 6), "gate": name}
                whole = whole.model_copy(update=values)
                self.shelf.put(whole)
                news = routed.route == "novel" or routed.replaced or routed.contrary
                if news and whole.salience >= AT_ONCE:
                    self.place(whole, routed)
            self.shelf.delete(Waiting, *waiting)

    def _reembed(self) -> None:
        """After a change of the embedder: add its vectors to everything; the earlier ones are kept."""
        name = self.embedder.name
        known = self.shelf.get(MadeBy, "semantic")
        if known is not None and known.embedder == name:
            return
        for kind in (Observation, Memory, Goal):
            waiting = {each.id for each in self.shelf.scan(Waiting)}  # these are embedded anyway
            missing = [each.id for each in self.shelf.scan(kind) if name not in each.vectors]
            self.shelf.embed(kind, [id for id in missing if id not in waiting], self.embedder)
        self.shelf.put(MadeBy(id="semantic", embedder=name))

    def route(self, observation: Observation) -> Routed:
        """Where the gate sends an observation among the current memories; nothing is written."""
        vector = observation.vector(self.embedder.name)
        if vector is None:
            (vector,) = self.embedder.embed([observation.text])
        near = gate.nearest(self.shelf, self.embedder.name, vector, agent=observation.agent, now=self.now)
        said = Said(observation.text, observation.who, observation.at)
        return gate.route(said, near, self.thresholds, self.language)

    def place(self, observation: Observation, routed: Routed | None = None) -> Memory:
        """Make an observation evidence of the memory that it merges with, else a memory of its own.

        A new memory is linked to the nearest. It supersedes what it literally says with another value.
        """
        with self.shelf.transaction():
            routed = routed or self.route(observation)
            known = self.shelf.get(Memory, routed.memory) if routed.route == "merge" else None
            if known is not None:
                memory = graph.merge(self.shelf, [observation], known, self.now)
            else:
                holds = valid(observation.text, observation.at, self.language)
                memory = graph.create(self.shelf, observation, self.now, *holds)
            if routed.route == "link" and routed.memory != memory.id and not routed.replaced:
                self.link(memory.id, routed.memory, text=routed.why, weight=min(1.0, max(0.0, routed.score)))
            for id, why in routed.replaced if observation.said == "fact" else ():
                self.settle(memory.id, id, why)
            return self.shelf.get(Memory, memory.id) or memory

    def settle(self, memory: str, other: str, why: str) -> graph.Settled | None:
        """Let the later of two memories supersede the earlier; None if one of them is gone."""
        pair = self.shelf.pick(Memory, [memory, other])
        if len(pair) < 2:
            return None
        one, another = pair
        return graph.settle(self.shelf, one, another, why, self.language, self.now)

    def memories(self, *, past: bool = False) -> Iterator[Memory]:
        """The memories of this agent that have not ended; with `past`, all of them."""
        now = self.now
        found = self.shelf.scan(Memory, {"agent": self.agent})
        return (memory for memory in found if past or not memory.ended(now))

    def edges_of(self, ids: Collection[str]) -> dict[str, list[Edge]]:
        """The edges of each of these memories, in either direction."""
        return graph.edges_of(self.shelf, ids)

    def link(
        self, source: str, target: str, relation: Relation = "related", *, text: str = "", weight: float = 0.5
    ) -> Edge:
        """The edge from one memory to another, dated on both sides; one that exists stays as it is."""
        if source == target:
            raise UsageError(f"{source}: a memory has no edge to itself")
        dates = {memory.id: memory.since for memory in self.shelf.pick(Memory, [source, target])}
        ends = {"source_at": dates.get(source, ""), "target_at": dates.get(target, "")}
        return graph.link(self.shelf, source, target, relation, text=text, weight=weight, at=self.now, **ends)

    def used(self, found: Mapping[str, tuple[float, int]]) -> None:
        """Memories helped with a question: by id, the score and how many edges away each was found."""
        now = self.now
        with self.shelf.transaction():
            for memory in self.shelf.pick(Memory, found):
                score, hop = found[memory.id]
                values = {
                    "accessed": memory.accessed + 1,
                    "last_access": now,
                    "last_score": score,
                    "last_hop": hop,
                }
                self.shelf.put(memory.model_copy(update=values))

    def feedback(self, id: str, helpful: bool) -> Memory:
        """Feedback on a memory moves its confidence. Raises `UsageError` if there is no such memory."""
        with self.shelf.transaction():
            memory = self.shelf.get(Memory, id)
            if memory is None:
                raise UsageError(f"there is no memory {id}")
            memory = review.feedback(memory, helpful)
            self.shelf.put(memory)
        return memory

    def due(self) -> list[Memory]:
        """The memories whose review is due, the longest overdue first."""
        now = moment(self.now)
        found = [memory for memory in self.memories() if review.due(memory, now)]
        return sorted(found, key=lambda memory: (review.due_at(memory), memory.id))

    def wander(self, *, seed: int, about: str = "", steps: int = goals.STEPS) -> list[goals.Step]:
        """A walk from what is near `about`, else from anywhere; the same for the same seed and shelf."""
        self.take_in()
        name = self.embedder.name
        if about.strip():
            (row,) = self.embedder.embed([about])
            start = goals.about(self._nearest(row, goals.TOP, self.agent), self.thresholds.link)
        else:
            start = list(self.memories())
        drawn = {"goals": self.goals(), "embedder": name, "near": self.thresholds.link}
        return goals.wander(self.shelf, start, moment(self.now), seed=seed, steps=steps, **drawn)

    def connectivity(self) -> health.Connectivity:
        """How well the memories that hold hang together."""
        nodes = {memory.id for memory in self.memories()}
        edges = (edge for edge in self.shelf.scan(Edge) if edge.source in nodes and edge.target in nodes)
        return health.fiedler(sorted(nodes), ((edge.source, edge.target, edge.weight) for edge in edges))

    def saturation(self) -> health.Saturation:
        """Whether observations about oneself still surprise."""
        found = self.shelf.scan(Observation, {"agent": self.agent, "said": list(health.SELF)})
        return health.saturation(found, moment(self.now))

    def set_goal(self, text: str, *, priority: float = 0.5) -> Goal:
        """A desired state; the same words again are the same goal, and open again."""
        if not text.strip():
            raise UsageError("a goal needs some words")
        if not 0 <= priority <= 1:
            raise UsageError(f"priority {priority}: it must be between 0 and 1")
        id = graph.digest(self.agent, "goal", canonical(text))
        (row,) = self.embedder.embed([text])
        with self.shelf.transaction():
            known = self.shelf.get(Goal, id)
            goal = Goal(
                id=id,
                text=text,
                created=known.created if known else self.now,
                priority=priority,
                agent=self.agent,
                vectors={self.embedder.name: pack(row)},
            )
            self.shelf.put(goal)
        return goal

    def reached(self, id: str) -> Goal:
        """Mark a goal as reached; it keeps the first time. Raises `UsageError` if there is no such goal."""
        with self.shelf.transaction():
            goal = self.shelf.get(Goal, id)
            if goal is None:
                raise UsageError(f"there is no goal {id}")
            goal = goal.model_copy(update={"reached": goal.reached or self.now})
            self.shelf.put(goal)
        return goal

    def goals(self, *, past: bool = False) -> list[Goal]:
        """The open goals, the most important first; with `past`, the reached ones as well."""
        where: dict[str, Any] = {"agent": self.agent} if past else {"agent": self.agent, "reached": ""}
        return sorted(self.shelf.scan(Goal, where), key=lambda goal: (-goal.priority, goal.created, goal.id))

    def gap(self, goal: Goal) -> float | None:
        """Forward prediction error: how far a goal is from what is known, 0 to 1; None if nothing tells."""
        self._reembed()
        vector = (self.shelf.get(Goal, goal.id) or goal).vector(self.embedder.name)
        near = self._nearest(vector, gate.NEAR, goal.agent) if vector is not None else []
        return goals.gap(goal, [memory for memory, _ in near], self.language)

    def _nearest(self, vector: Any, limit: int, agent: str) -> list[tuple[Memory, float]]:
        return gate.nearest(self.shelf, self.embedder.name, vector, agent=agent, now=self.now, limit=limit)
