"""Which way of asking a model suits a problem type, learned from what came of its attempts.

A type that asking in one shot serves never pays for trying another way. One that it failed is asked in the
way with the best share of successes, plus a bonus for what was seldom tried; only its last attempts count, so
that what was given up long ago is tried again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from kernel.document import Document
from kernel.errors import ConfigurationError
from kernel.offering import WAY
from runtime.memory.procedural.decisions import Decision
from runtime.memory.procedural.rewards import RELIABILITY
from runtime.memory.procedural.trees import NeuronTree
from runtime.memory.procedural.types import Types
from runtime.store import Record, Shelf

ONE_SHOT = "one shot"
"""The way that adds nothing to a prompt."""
EXAMPLE = "worked example"
"""The way that needs a solved task in the prompt."""
WINDOW = 40
"""Attempts of a type that count, the last ones."""
SERVES = 0.7
"""From this expected share of successes on, one shot stays although it has failed."""
BONUS = 0.25
"""What a way that was never tried has ahead of one that was tried often: enough to come to it again where the
best one goes well six times in ten, too little where it does nine times."""
_SECTION = re.compile(r"(?m)^## +(.+?) *$")

Tried = tuple[str, bool, float]
"""A way, whether it went well, and how far who says so is trusted."""


class Asked(Record):
    """What came of the ways of one problem type, whose id it has: by decision, the oldest first."""

    KIND: ClassVar[str] = "asked"

    tried: dict[str, Tried] = Field(default_factory=dict[str, Tried])


class Untyped(Record):
    """A decision whose task has no type yet, by its id: it gets one before the next task is recognised."""

    KIND: ClassVar[str] = "untyped"


def read_ways(systems: Sequence[Path]) -> dict[str, str]:
    """The ways of `system/memory/asking.md` and what each tells a model; none without such a file."""
    path = next((path for each in systems if (path := each / "memory" / "asking.md").is_file()), None)
    if path is None:
        return {}
    try:
        parts = _SECTION.split(path.read_text("utf-8"))[1:]
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    return {name.strip(): " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def way_of(document: Document) -> str:
    """The way that a loop's model was asked in, as §1 has it."""
    notes = (each for each in document.section(1).notes if each.key == "context" and each.source == WAY)
    return next((each.text.partition(":")[0].strip() for each in notes), ONE_SHOT)


def best(tried: Collection[Tried], possible: Sequence[str]) -> str:
    """The way to ask in by what came of those that were tried; of equal ones the first of `possible`."""
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
    """The mean of what is expected, by a Beta distribution that knows nothing at first."""
    return (right + 1) / (right + wrong + 2)


class Ways:
    """What one shelf knows of the ways."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    @property
    def empty(self) -> bool:
        """Whether nothing was ever counted, nor waits for its type."""
        return not (self.shelf.count(Asked) or self.shelf.count(Untyped))

    def choose(self, type: str, possible: Mapping[str, str] | Sequence[str]) -> str:
        """The way that a task of this type is asked in, of those that are possible."""
        known = self.shelf.get(Asked, type) if type else None
        return best(known.tried.values(), tuple(possible)) if known else ONE_SHOT

    def settle(self, decision: Decision) -> None:
        """Count what came of a decision; said anew of the same one, it counts as it was said last."""
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
        """Give a type to the decisions that have none: what a model failed at is of a type as well."""
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
        if decision.outcome:  # what is kept of no solved task makes no type
            return types.recognise(decision.text).type
        return types.learn(decision.text, at=decision.at)
