"""Who fills in a phase: the responder protocol, and the ladder of rungs from the cheapest to a person.

This module knows nothing of any model, provider or memory; those are responders of the runtime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from kernel.document import Document
from kernel.errors import ConfigurationError

Tier = Literal["reflex", "worker", "oversight", "human"]


@dataclass(frozen=True)
class Usage:
    """What a call cost: prompt and completion tokens, and money in USD (None: no price is known)."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = 0.0
    calls: int = 1


FREE = Usage(calls=0)


@dataclass(frozen=True)
class Ask:
    """One question to a responder: the prompt, the form of the reply, and what identifies it in the log."""

    run: str
    loop: str
    attempt: int
    phase: str  # understand, plan, fused, do, check, atomic
    step: int  # the step that a DO ask is about, else 0
    turn: int  # 0, then one more for each repair, look or escalation in the same phase
    system: str  # what does not change first, so that a provider can cache it
    user: str
    schema: Mapping[str, Any]  # JSON Schema of the reply
    words: str  # the same form in words; already part of `system`
    max_tokens: int
    document: Document
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rung: str = ""  # who is asked: another rung's reply to the same prompt is another reply

    @property
    def key(self) -> str:
        """The same ask of the same rung has the same key, in this process and after a crash."""
        place = f"{self.loop}/{self.attempt}/{self.phase}/{self.step}/{self.turn}"
        return f"{place}/{_digest(self.system, self.user)[:16]}.{_digest(self.rung)[:6]}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Reply:
    """What came back, as text that should hold one JSON object, with who said it and what it cost."""

    text: str
    model: str
    usage: Usage = FREE
    truncated: bool = False


@dataclass(frozen=True)
class Waits:
    """The responder cannot answer now: the loop waits, holding nothing in memory, until somebody answers."""

    reason: str  # person, approval
    question: str


@runtime_checkable
class Responder(Protocol):
    """One rung of the ladder."""

    @property
    def name(self) -> str:
        """What documents and logs call it, such as `reflex` or `openai/gpt-5`."""
        ...

    @property
    def tier(self) -> Tier:
        """Where it stands on the ladder."""
        ...

    @property
    def reads_prompt(self) -> bool:
        """Whether it answers from the prompt (a model, a mailbox) or from the document alone (a reflex)."""
        ...

    def offers(self, task: str, document: Document) -> float | None:
        """How sure it is (0 to 1) that it can take this attempt; None when it would not."""
        ...

    def estimate(self, ask: Ask) -> Usage:
        """The most that this ask may cost; reserved before the call."""
        ...

    async def answer(self, ask: Ask) -> Reply | Waits:
        """Answer, pass (raise `Declined`), wait, or fail (raise `ProviderError`, `ConfigurationError`)."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text by this responder's tokenizer, or by `budget.estimate_tokens`."""
        ...


@dataclass(frozen=True)
class Ladder:
    """The rungs, cheapest first."""

    rungs: tuple[Responder, ...]

    def __post_init__(self) -> None:
        names = [rung.name for rung in self.rungs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(
                f"ladder: {', '.join(twice)} stands on it twice; a run could not climb past it"
            )

    def __iter__(self) -> Iterator[Responder]:
        return iter(self.rungs)

    def __len__(self) -> int:
        return len(self.rungs)

    def taker(self, task: str, document: Document, floor: int = 0) -> int | None:
        """The index of the lowest rung, from `floor` on, that offers to take this attempt."""
        for index in range(floor, len(self.rungs)):
            if self.rungs[index].offers(task, document) is not None:
                return index
        return None
