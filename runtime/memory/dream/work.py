"""What the semantic stages of a dream have in common: what is new, what is near, and taking evidence in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

from runtime.memory.dream.gist import GROUNDED, fillers, gist, grounded, keywords
from runtime.memory.dream.nearness import Nearness
from runtime.memory.dream.stage import Dream
from runtime.memory.semantic import gate
from runtime.memory.semantic.contradictions import settle
from runtime.memory.semantic.dates import normal, stamp
from runtime.memory.semantic.language import Language, language_of
from runtime.memory.semantic.mind import Mind
from runtime.memory.semantic.mind import Settings as MindSettings
from runtime.memory.semantic.records import Goal, Memory, Observation
from runtime.memory.semantic.values import Agreement, Said, agreement
from runtime.store import pack

JOINS: Mapping[str, tuple[float, float]] = {"minilm": (0.70, 0.80), "lexical": (0.50, 0.60)}
"""The similarities from which an observation becomes evidence of a memory, and of one that has few edges.

Those of minilm are the reference engine's; those of lexical lie as far between the gate's thresholds.
"""
OTHERWISE = (0.70, 0.80)
FULL = 8
"""Observations that one memory is evidence of; more are a memory of their own, with an edge."""
LOOKED_AT = 10_000
"""New observations of one dream, those that concern a goal first; the others are the next dream's."""
LEFT = 3
"""Dreams that look at an observation before it is left as it is."""
GOAL = 0.45
"""The cosine from which an observation concerns a goal."""
ASKED = 20
"""Wordings that a stage asks a model for; the others are extracted."""
NEAR = 5
FAR = 0.1
"""So much below the gate's threshold for a link nobody compares values."""
OF_THE_SAME = 0.3
"""The part of their terms that two sayings share from which they tell of the same."""
MUCH = "it has much evidence"


class Work:
    """One dream's view of the shelf; made anew by each stage."""

    def __init__(self, dream: Dream) -> None:
        self.dream = dream
        self.shelf = dream.shelf
        self.embedder = dream.brain.embedder
        self.now = stamp(dream.now)
        self.systems = dream.brain.settings.systems
        self.form: Any = "extractive"
        self.refused: list[str] = []
        self._asks = ASKED

    @property
    def name(self) -> str:
        """Of the embedder."""
        return self.embedder.name

    @cached_property
    def empty(self) -> frozenset[str]:
        """Words that tell nothing."""
        return fillers(self.systems)

    @cached_property
    def language(self) -> Language:
        """What is known of words that contradict each other."""
        return language_of(self.systems)

    @cached_property
    def thresholds(self) -> gate.Thresholds:
        """Of the gate, for this embedder."""
        return gate.thresholds_of(self.name)

    @cached_property
    def joins(self) -> float:
        """The similarity from which an observation becomes evidence."""
        return JOINS.get(self.name.partition("-")[0], OTHERWISE)[0]

    @cached_property
    def sure(self) -> float:
        """The same for a memory that has few edges."""
        return JOINS.get(self.name.partition("-")[0], OTHERWISE)[1]

    def mind(self, agent: str) -> Mind:
        """What an agent knows, at the dream's time."""
        return Mind(
            self.shelf,
            self.embedder,
            agent=agent,
            clock=lambda: self.now,
            settings=MindSettings(self.systems),
        )

    # ---- what is new -------------------------------------------------------------------------------------

    def new(self) -> list[Observation]:
        """Observations that no memory leads to, in the order of time, those that concern a goal first.

        What came before `since` is left out, and what several dreams have left.
        """
        since = normal(self.dream.since) if self.dream.since else ""
        found = [
            each
            for each in self.shelf.scan(Observation, {"memory": ""})
            if each.left < LEFT and (each.noted or each.at) >= since
        ]
        wanted = self._concern(found)
        found.sort(key=lambda each: (each.id not in wanted, each.at, each.thread, each.turn, each.id))
        return found[:LOOKED_AT]

    def _concern(self, found: Sequence[Observation]) -> set[str]:
        """Which of these concern a goal of their agent."""
        import numpy as np

        goals: dict[str, list[Any]] = {}
        for goal in self.shelf.scan(Goal, {"reached": ""}):
            vector = goal.vector(self.name)
            if vector is not None:
                goals.setdefault(goal.agent, []).append(vector)
        matrices = {agent: np.array(rows) for agent, rows in goals.items()}
        return {
            each.id
            for each in found
            if each.agent in matrices
            and (vector := each.vector(self.name)) is not None
            and float((matrices[each.agent] @ vector).max()) >= GOAL
        }

    # ---- what is near ------------------------------------------------------------------------------------

    @cached_property
    def near(self) -> dict[str, Nearness]:
        """The memories that hold, by agent."""
        vectors: dict[str, list[tuple[str, Any]]] = {}
        for each in self.shelf.scan(Memory, {"superseded": "", "until": ""}):
            vector = each.vector(self.name)
            if vector is not None and each.held != "abstraction":
                vectors.setdefault(each.agent, []).append((each.id, vector))
        found: dict[str, Nearness] = {}
        for agent, rows in vectors.items():
            found[agent] = Nearness(len(rows), [row for _, row in rows])
            for id, row in rows:
                found[agent].put(id, row)
        return found

    def expect(self, coming: Iterable[Observation]) -> None:
        """Make room for memories of these observations, so that none of the searches looks at all of them."""
        rows: dict[str, list[Any]] = {}
        for each in coming:
            vector = each.vector(self.name)
            if vector is not None:
                rows.setdefault(each.agent, []).append(vector)
        for agent, new in rows.items():
            known = self.near.get(agent)
            there = known.items() if known else []
            self.near[agent] = Nearness(len(there) + len(new), [*(row for _, row in there), *new])
            for id, row in there:
                self.near[agent].put(id, row)

    def nearest(self, agent: str, vector: Any, limit: int = NEAR) -> list[tuple[str, float]]:
        """The memories of an agent that are nearest, and their cosines."""
        return self.near[agent].find(vector, limit) if agent in self.near else []

    def middle(self, group: Sequence[Observation]) -> Any:
        """The middle of the vectors of some observations, of unit length."""
        import numpy as np

        rows: list[Any] = [each.vector(self.name) for each in group]
        total = np.sum(rows, axis=0)
        return total / max(float(np.linalg.norm(total)), 1e-9)

    def may_join(self, group: Sequence[Observation], memory: Memory) -> str:
        """Why these observations may not be evidence of a memory; "" when they may: their values agree."""
        if len(memory.evidence) + len(group) > FULL:
            return MUCH
        known = self.shelf.pick(Observation, memory.evidence)
        told = [(_said(each), each.vector(self.name)) for each in known]
        if not told:
            told = [(gate.said_by(memory), memory.vector(self.name))]
        for each in group:
            vector = each.vector(self.name)
            found = [(_cosine(row, vector), self.agreement(said, _said(each))) for said, row in told]
            closest = max(cosine for cosine, _ in found)
            for cosine, verdict in found:
                near = cosine >= self.joins or cosine == closest
                if verdict.verdict == "contrary" or (near and differing(verdict)):
                    return verdict.why or "their values differ"
        return ""

    def agreement(self, one: Said, other: Said) -> Agreement:
        """How two sayings stand to each other; the earlier one is compared with the later."""
        earlier, later = sorted((one, other), key=lambda each: each.at)
        return agreement(earlier, later, self.language)

    def agree(self, one: Observation, another: Observation) -> bool:
        """Whether two turns may stand in one memory: none denies the other, or says it with other values."""
        if _cosine(one.vector(self.name), another.vector(self.name)) < self.thresholds.link:
            return True
        if not keywords(one.text, self.empty) & keywords(another.text, self.empty):
            return True
        return not differing(self.agreement(_said(one), _said(another)))

    def routed(self, observation: Observation) -> gate.Routed:
        """Where the gate sends an observation among the memories of now."""
        vector = observation.vector(self.name)
        scores = dict(self.nearest(observation.agent, vector, gate.NEAR + gate.AROUND))
        best = max(scores.values(), default=0.0)
        if best < self.thresholds.link - FAR:
            return gate.Routed("novel", score=best, thresholds=self.thresholds)
        near = [(memory, scores[memory.id]) for memory in self.shelf.pick(Memory, scores)]
        return gate.route(_said(observation), near, self.thresholds, self.language)

    def settle(self, memory: Memory, contrary: Iterable[tuple[str, Agreement]]) -> int:
        """Keep what a memory contradicts, the later superseding; returns how many that are."""
        count = 0
        for id, found in contrary:
            other = self.shelf.get(Memory, id)
            if other is not None and other.id != memory.id:
                settle(self.shelf, memory, other, found, self.language, self.now)
                count += 1
        return count

    def tells(self, observation: Observation) -> bool:
        """Whether an observation has a word that tells something."""
        return bool(keywords(observation.text, self.empty))

    # ---- taking in ---------------------------------------------------------------------------------------

    def attach(self, group: Sequence[Observation], memory: Memory) -> Memory:
        """Observations as further evidence of a memory; its wording is left to refine."""
        new = [each for each in group if each.id not in memory.evidence]
        known = {each.id: each.at for each in self.shelf.pick(Observation, memory.evidence)}
        known |= {each.id: each.at for each in new}
        evidence = sorted(dict.fromkeys((*memory.evidence, *known)), key=lambda id: (known.get(id, ""), id))
        doubt = (1 - memory.confidence) * 0.7 ** len(new)
        grown = memory.model_copy(
            update={
                "evidence": tuple(evidence),
                "unread": tuple(dict.fromkeys((*memory.unread, *(each.id for each in new)))),
                "names": tuple(
                    dict.fromkeys((*memory.names, *(name for each in new for name in each.names)))
                ),
                "since": min(filter(None, (memory.since, *(each.at for each in new))), default=""),
                "salience": max(memory.salience, *(each.salience for each in new), 0.0),
                "confidence": round(1 - doubt, 6),
                "changed": self.now,
            }
        )
        self.shelf.put(grown, *(each.model_copy(update={"memory": memory.id}) for each in new))
        return grown

    def wording(self, evidence: Sequence[Observation], before: str = "") -> str:
        """What is told of some evidence: by a model where there is one and its answer is grounded."""
        plain = gist(evidence, self.empty)
        if self.dream.ask is None or len(evidence) < 2 or not self.asks():
            return plain
        texts = [each.text for each in evidence]
        told = self.dream.ask("refine", {"memory": before or "none", "evidence": spoken(evidence)})
        why = grounded(told, [*texts, *(each.who for each in evidence)], self.empty, GROUNDED)
        if why:
            self.refused.append(f"a wording was refused: {why}")
            return plain
        self.form = "model"
        return " ".join(told.split())

    def asks(self) -> bool:
        """Whether a model may be asked once more in this stage; it counts as asked."""
        self._asks -= 1
        return self._asks >= 0

    def answer(self, prompt: str, slots: Mapping[str, str]) -> Mapping[str, Any]:
        """The object that a model replies with; an empty one where it says nothing of use."""
        import json

        told: Any = None
        if self.dream.ask is not None:
            with suppress(ValueError, RecursionError):
                told = json.loads(self.dream.ask(prompt, slots))
        return cast(Mapping[str, Any], told) if isinstance(told, dict) else {}

    def placed(self, memory: Memory, evidence: Sequence[Observation]) -> Memory:
        """A memory with its vector: the middle of its evidence, so that each part of it is near.

        Nothing is embedded for it, which would hold up who wants to write.
        """
        if any(each.vector(self.name) is None for each in evidence) or not evidence:
            (middle,) = self.embedder.embed([memory.text])
        else:
            middle = self.middle(evidence)
        return memory.model_copy(update={"vectors": {self.name: pack(middle)}})


def differing(found: Agreement) -> bool:
    """Whether two sayings tell of the same with other values: both cannot be evidence of one memory."""
    return found.clashes or (not found.mergeable and found.shared >= OF_THE_SAME)


def spoken(evidence: Iterable[Observation]) -> str:
    """Observations as they are shown to a model: a line each."""
    lines = (f"[{each.at[:10]}] {each.who + ': ' if each.who else ''}{each.text}" for each in evidence)
    return "\n".join(" ".join(line.split()) for line in lines)


def _said(observation: Observation) -> Said:
    return Said(observation.text, observation.who, observation.at)


def _cosine(one: Any, other: Any) -> float:
    return 0.0 if one is None or other is None else float(one @ other)
