"""What the stages on observations and memories share: what is new, what is near, agreement, wordings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

from runtime.memory.dream.gist import GROUNDED, fillers, gist, grounded, keywords
from runtime.memory.dream.nearness import Nearness
from runtime.memory.dream.stages import Dream, Form
from runtime.memory.facts import gate
from runtime.memory.facts.agreement import Agreement, Said, agreement
from runtime.memory.facts.graph import settle
from runtime.memory.facts.language import Language, language_of
from runtime.memory.facts.records import Goal, Memory, Observation, normal, stamp
from runtime.memory.store import pack

JOINS: Mapping[str, tuple[float, float]] = {"minilm": (0.70, 0.80), "lexical": (0.50, 0.60)}
"""The similarities from which an observation becomes evidence of a memory, and of one with few edges.

Those of minilm are the reference engine's; those of lexical have the same distance to the gate's thresholds.
"""
OTHERWISE = (0.70, 0.80)
FULL = 8
"""Observations of one memory; more become a memory of their own, with an edge."""
LOOKED_AT = 10_000
"""New observations of one dream, those that concern a goal first; the rest waits for the next dream."""
LEFT = 3
"""Dreams that look at an observation before it is left alone."""
GOAL = 0.45
"""The cosine from which an observation concerns a goal."""
ASKED = 20
"""Wordings that a stage asks a model for; the others are extracted."""
NEAR = 5
FAR = 0.1
"""So far below the gate's threshold for a link, values are not compared."""
SAME_TOPIC = 0.3
"""The share of terms in common from which two statements are about the same."""
MUCH, OTHER = "it has much evidence", "it says something else"


class Work:
    """One dream's view of the shelf; each stage makes its own."""

    def __init__(self, dream: Dream) -> None:
        self.dream = dream
        self.shelf = dream.shelf
        self.embedder = dream.brain.embedder
        self.name = self.embedder.name
        self.now = stamp(dream.now)
        self.systems = dream.brain.settings.systems
        self.thresholds = gate.thresholds_of(self.name)
        self.joins, self.sure = self.of_embedder(JOINS, OTHERWISE)
        self.form: Form = "extractive"
        self.refused: list[str] = []
        self._questions_left = ASKED

    def of_embedder(self, table: Mapping[str, Any], other: Any) -> Any:
        """A constant that depends on the embedder, by its name up to the first `-`."""
        return table.get(self.name.partition("-")[0], other)

    @cached_property
    def empty(self) -> frozenset[str]:
        """Words that say nothing."""
        return fillers(self.systems)

    @cached_property
    def language(self) -> Language:
        """The words that decide whether statements agree."""
        return language_of(self.systems)

    def new(self) -> list[Observation]:
        """Observations that no memory leads to, those that concern a goal first, then by time.

        Without what came before `since`, and what several dreams have left.
        """
        since = normal(self.dream.since)
        observations = [
            each
            for each in self.shelf.scan(Observation, {"memory": ""})
            if each.left < LEFT and (each.noted or each.at) >= since
        ]
        wanted = self._concern_a_goal(observations)
        observations.sort(key=lambda each: (each.id not in wanted, each.at, each.thread, each.turn, each.id))
        return observations[:LOOKED_AT]

    def _concern_a_goal(self, observations: Sequence[Observation]) -> set[str]:
        goals: dict[str, list[Any]] = {}
        for goal in self.shelf.scan(Goal, {"reached": ""}):
            if (vector := goal.vector(self.name)) is not None:
                goals.setdefault(goal.agent, []).append(vector)
        return {
            each.id
            for each in observations
            if (goal_vectors := goals.get(each.agent))
            and (vector := each.vector(self.name)) is not None
            and max(float(goal_vector @ vector) for goal_vector in goal_vectors) >= GOAL
        }

    @cached_property
    def near(self) -> dict[str, Nearness]:
        """The memories that hold, by agent."""
        rows: dict[str, list[tuple[str, Any]]] = {}
        for memory in self.shelf.scan(Memory, {"superseded": "", "until": ""}):
            vector = memory.vector(self.name)
            if vector is not None and memory.held != "abstraction":
                rows.setdefault(memory.agent, []).append((memory.id, vector))
        return {agent: Nearness(rows_of_agent) for agent, rows_of_agent in rows.items()}

    def expect(self, coming: Iterable[Observation]) -> None:
        """Prepare for memories of these observations, so that no later search looks at all of them."""
        rows: dict[str, list[Any]] = {}
        for observation in coming:
            rows.setdefault(observation.agent, []).append(observation.vector(self.name))
        for agent, new in rows.items():
            index = self.near.get(agent)
            self.near[agent] = Nearness(index.items() if index else [], new)

    def nearest(self, agent: str, vector: Any, limit: int = NEAR) -> list[tuple[str, float]]:
        """The memories of an agent that are nearest, and their cosines."""
        return self.near[agent].find(vector, limit) if agent in self.near else []

    def middle(self, group: Sequence[Observation]) -> Any:
        """The mean of the vectors of some observations, with unit length."""
        import numpy as np

        rows: list[Any] = [each.vector(self.name) for each in group]
        total = np.sum(rows, axis=0)
        return total / max(float(np.linalg.norm(total)), 1e-9)

    def why_separate(self, group: Sequence[Observation], memory: Memory) -> str:
        """Why these observations may not become evidence of a memory; "" if their values agree.

        What a person stated is no conversation: a fact takes only what the gate would merge with it.
        """
        if len(memory.evidence) + len(group) > FULL:
            return MUCH
        evidence = self.shelf.pick(Observation, memory.evidence)
        statements = [(statement_of(each), each.vector(self.name)) for each in evidence]
        statements = statements or [(gate.said_by(memory), memory.vector(self.name))]
        for observation in group:
            vector, statement = observation.vector(self.name), statement_of(observation)
            compared = [(_cosine(row, vector), self._agreement(one, statement)) for one, row in statements]
            merges = any(gate.merges(cosine, verdict, self.thresholds) for cosine, verdict in compared)
            if memory.held == "fact" and (not merges or statement.text.rstrip().endswith("?")):
                return OTHER
            closest = max(cosine for cosine, _ in compared)
            for cosine, verdict in compared:
                near = cosine >= self.joins or cosine == closest
                if verdict.verdict == "contrary" or (near and _values_differ(verdict)):
                    return verdict.why or "their values differ"
        return ""

    def agree(self, one: Observation, another: Observation) -> bool:
        """Whether two turns may share a memory: neither denies the other, or repeats it with other values."""
        if _cosine(one.vector(self.name), another.vector(self.name)) < self.thresholds.link:
            return True
        if keywords(one.text, self.empty).isdisjoint(keywords(another.text, self.empty)):
            return True
        return not _values_differ(self._agreement(statement_of(one), statement_of(another)))

    def _agreement(self, one: Said, other: Said) -> Agreement:
        earlier, later = sorted((one, other), key=lambda each: each.at)
        return agreement(earlier, later, self.language)

    def routed(self, observation: Observation) -> gate.Routed:
        """Where the gate sends an observation among the current memories."""
        scores = dict(self.nearest(observation.agent, observation.vector(self.name), gate.NEAR + gate.AROUND))
        best = max(scores.values(), default=0.0)
        if best < self.thresholds.link - FAR:
            return gate.Routed("novel", score=best, thresholds=self.thresholds)
        near = [(memory, scores[memory.id]) for memory in self.shelf.pick(Memory, scores)]
        return gate.route(statement_of(observation), near, self.thresholds, self.language)

    def settle(self, memory: Memory, replaced: Iterable[tuple[str, str]]) -> int:
        """Let a memory supersede what it says with another value; returns how many memories."""
        count = 0
        for id, why in replaced:
            other = self.shelf.get(Memory, id)
            if other is not None and other.id != memory.id:
                settle(self.shelf, memory, other, why, self.language, self.now)
                count += 1
        return count

    def wording(self, evidence: Sequence[Observation], before: str = "") -> str:
        """What some evidence says: by a model if there is one and its answer is grounded."""
        plain = gist(evidence, self.empty)
        if len(evidence) < 2 or not self.may_ask():
            return plain
        texts = [text for each in evidence for text in (each.text, each.who)]
        return self.reply("refine", {"memory": before or "none", "evidence": listed(evidence)}, plain, texts)

    def may_ask(self) -> bool:
        """Whether a model may be asked once more in this stage; this counts as asked."""
        if self.dream.ask is None:
            return False
        self._questions_left -= 1
        return self._questions_left >= 0

    def reply(
        self,
        prompt: str,
        slots: Mapping[str, str],
        otherwise: str,
        texts: Sequence[str],
        least: float = GROUNDED,
    ) -> str:
        """A model's text, if it is grounded in these texts; else `otherwise`."""
        assert self.dream.ask is not None
        text = " ".join(self.dream.ask(prompt, slots).split())
        if why := grounded(text, texts, self.empty, least):
            self.refused.append(f"the reply to {prompt} was refused: {why}")
            return otherwise
        self.form = "model"
        return text

    def answer(self, prompt: str, slots: Mapping[str, str]) -> Mapping[str, Any]:
        """The object that a model replies with; an empty one if the reply is unusable."""
        reply: Any = None
        if self.dream.ask is not None:
            with suppress(ValueError, RecursionError):
                reply = json.loads(self.dream.ask(prompt, slots))
        return cast(Mapping[str, Any], reply) if isinstance(reply, dict) else {}

    def with_mean_vector(self, memory: Memory, evidence: Sequence[Observation]) -> Memory:
        """A memory with the mean of its evidence as its vector, so that each part of it is near.

        Usually nothing is embedded, which would block other writers.
        """
        if any(each.vector(self.name) is None for each in evidence):
            (middle,) = self.embedder.embed([memory.text])
        else:
            middle = self.middle(evidence)
        return memory.model_copy(update={"vectors": {self.name: pack(middle)}})


def _values_differ(verdict: Agreement) -> bool:
    """Whether two statements say the same with other values: both cannot be evidence of one memory."""
    return verdict.clashes or (not verdict.mergeable and verdict.shared >= SAME_TOPIC)


def listed(evidence: Iterable[Observation]) -> str:
    """Observations as a model sees them: a line each."""
    lines = (f"[{each.at[:10]}] {each.who + ': ' if each.who else ''}{each.text}" for each in evidence)
    return "\n".join(" ".join(line.split()) for line in lines)


def statement_of(observation: Observation) -> Said:
    """What an observation says, for comparison."""
    return Said(observation.text, observation.who, observation.at)


def _cosine(one: Any, other: Any) -> float:
    return 0.0 if one is None or other is None else float(one @ other)
