"""The responder that asks a small model in small steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kernel.asking.responder import Ask, Interview, Questioner, Reply, Responder, Tier, Usage, Waits
from kernel.document.model import Document
from kernel.errors import Declined
from runtime.models.micro.calls import call
from runtime.models.micro.kinds import Kinds
from runtime.models.micro.plans import plan
from runtime.models.micro.remembered import about_own_world, offered
from runtime.models.micro.task import read_task
from runtime.models.micro.verdicts import verdict
from runtime.reflexes.procedure import shared_words

ATTEMPTS = 4
"""Attempts at a task, each with another reply of the model. Source: small-models.md, "What was seen" 6."""


class Micro(Questioner):
    """A small model that answers each ask by small questions."""

    def __init__(self, model: Responder, systems: Sequence[Path], *, attempts: int = ATTEMPTS) -> None:
        self.model = model
        self._systems = tuple(systems)
        self.name: str = model.name
        self.tier: Tier = model.tier
        self.attempts = attempts
        self.price, self.patient = model.price, model.patient

    @property
    def window(self) -> int:
        """The model's window in tokens."""
        return self.model.window

    @property
    def window_source(self) -> str:
        """Where that number comes from."""
        return self.model.window_source

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(shared_words(self._systems))

    def offers(self, task: str, document: Document) -> float | None:
        """Accept what the model accepts."""
        return self.model.offers(task, document)

    def estimate(self, ask: Ask) -> Usage:
        """The cost of one question."""
        return self.model.estimate(ask)

    def count(self, text: str) -> int:
        """Tokens by the model's tokenizer."""
        return self.model.count(text)

    async def answer(self, ask: Ask) -> Reply | Waits:
        """The model's reply to one question."""
        return await self.model.answer(ask)

    async def fill(self, interview: Interview) -> Mapping[str, Any]:
        """Answer an ask: a turn with a whole plan, the arguments of a step, or a verdict."""
        document = interview.ask.document
        task, sample = read_task(interview), self._sample(document)
        asks_nothing = about_own_world(task, document, self._kinds) and not offered(document)
        if not asks_nothing:
            self.model.warm()
        match interview.ask.part:
            case "turn":
                planned = await plan(interview, task, self._kinds, sample)
                return {"task": document.task, **planned}
            case "do":
                return await call(interview, task, sample)
            case "check":
                return await verdict(interview, task, sample, last=sample + 1 >= self.attempts)
            case part:
                raise Declined(f"{self.name} does not answer in {part.upper()}")

    def _sample(self, document: Document) -> int:
        """The number of this attempt among the model's own, from 0; an answer of a person begins anew."""
        mine = [each for each in document.meta.rungs if each["rung"] == self.name and not each.get("passed")]
        asked = [fold.attempt for fold in document.section(2).folds if fold.decision == "escalate"]
        since = max(asked, default=0) if document.note(1, "answer") else 0
        return len({each["attempt"] for each in mine if since < each["attempt"] < document.meta.attempt})
