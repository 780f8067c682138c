"""Learns which way of asking a model suits a problem type.

A type is asked in one shot while that succeeds. Otherwise it is asked in the way with the best share of
successes, plus a bonus for ways that were rarely tried (UCB). Only the last attempts count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from kernel.asking.prompt import MEMORY
from kernel.document.model import Document
from runtime.memory.store import Record, Shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.rewards import RELIABILITY
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.types import Types
from runtime.text.sections import sections

ONE_SHOT = "one shot"
"""This way adds nothing to a prompt."""
EXAMPLE = "worked example"
"""This way needs a solved task in the prompt."""
WINDOW = 40
"""The last attempts of a type, which count."""
SERVES = 0.7
"""One shot stays while its expected share of successes is at least this."""
BONUS = 0.25
"""Weight of the bonus: enough to try a new way if the best succeeds six times in ten, not if nine times."""

Tried = tuple[str, bool, float]
"""A way, whether it succeeded, and how far the source of that is trusted."""

_WAY = f"{MEMORY}: way"
"""The source of memory's advice on how to approach the task."""


class Asked(Record):
    """The attempts of one problem type, by decision, the oldest first; its id is the type's."""

    KIND: ClassVar[str] = "asked"

    tried: dict[str, Tried] = Field(default_factory=dict[str, Tried])


class Untyped(Record):
    """The id of a decision whose task has no type yet; it gets one before the next task is recognised."""

    KIND: ClassVar[str] = "untyped"


def read_ways(systems: Sequence[Path]) -> dict[str, str]:
    """The ways of `system/memory/asking.md` and their texts; none without the file."""
    found = ({name: " ".join(text.split()) for name, text in sections([s], "asking.md")} for s in systems)
    return next(filter(None, found), {})


def way_of(document: Document) -> str:
    """The way in which a loop's model was asked, from §1."""
    notes = (each for each in document.section(1).notes if each.key == "context" and each.source == _WAY)
    return next((each.text.partition(":")[0].strip() for each in notes), ONE_SHOT)


def best(tried: Collection[Tried], possible: Sequence[str]) -> str:
    """The best way by what was tried; of equal ones the first of `possible`."""
    counts: dict[str, tuple[float, float]] = dict.fromkeys((ONE_SHOT, *possible), (0.0, 0.0))
    for name, good, trust in tried:
        right, wrong = counts.get(name, (0.0, 0.0))
        counts[name] = (right + trust, wrong) if good else (right, wrong + trust)
    right, wrong = counts[ONE_SHOT]
    if not wrong or _mean(right, wrong) >= SERVES:
        return ONE_SHOT
    whole = math.log(1 + sum(map(sum, counts.values())))

    def promise(name: str) -> float:
        right, wrong = counts[name]
        return _mean(right, wrong) + BONUS * math.sqrt(whole / (1 + right + wrong))

    return max((ONE_SHOT, *possible), key=promise)


def _mean(right: float, wrong: float) -> float:
    """The expected share of successes, with a Beta(1, 1) prior."""
    return (right + 1) / (right + wrong + 2)


class Ways:
    """The ways that one shelf has recorded."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    @property
    def empty(self) -> bool:
        """Whether nothing is recorded."""
        return not (self.shelf.count(Asked) or self.shelf.count(Untyped))

    def choose(self, type: str, possible: Mapping[str, str] | Sequence[str]) -> str:
        """The way in which a task of this type is asked."""
        known = self.shelf.get(Asked, type) if type else None
        return best(known.tried.values(), tuple(possible)) if known else ONE_SHOT

    def settle(self, decision: Decision) -> None:
        """Count the outcome of a decision; a later outcome replaces it."""
        if not decision.way or decision.outcome is None:
            return
        if not decision.type:
            self.shelf.put(Untyped(id=decision.id))
            return
        known = self.shelf.get(Asked, decision.type) or Asked(id=decision.type)
        trust = RELIABILITY.get(decision.source, 1.0)
        tried = {**known.tried, decision.id: (decision.way, decision.outcome, trust)}
        self.shelf.put(known.model_copy(update={"tried": dict([*tried.items()][-WINDOW:])}))

    def take_in(self, types: Types) -> None:
        """Give a type to the decisions that have none, including failed ones."""
        waiting = [each.id for each in self.shelf.scan(Untyped)]
        for decision in self.shelf.pick(Decision, waiting):
            with self.shelf.transaction():
                if type := decision.type or self._type(decision, types):
                    decision = decision.model_copy(update={"type": type})
                    self.shelf.put(decision)
                    self.settle(decision)
                self.shelf.delete(Untyped, decision.id)
        self.shelf.delete(Untyped, *waiting)  # also those whose decisions are gone

    def _type(self, decision: Decision, types: Types) -> str:
        tree = self.shelf.get(NeuronTree, decision.tree) if decision.tree else None
        if tree and tree.type:
            return tree.type
        if decision.outcome:  # a solved task that was not learned makes no new type
            return types.recognise(decision.text).type
        return types.learn(decision.text, at=decision.at)
