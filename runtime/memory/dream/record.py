"""What the store keeps of a dream: which stages were done, each told in the transaction that did it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from runtime.store import Record


class Done(BaseModel):
    """What one stage did; `part` names its lines in the archive."""

    model_config = ConfigDict(frozen=True)

    part: str
    at: str = ""
    did: tuple[str, ...] = ()
    counts: dict[str, int | float] = Field(default_factory=dict[str, int | float])
    form: str = "code"
    changed: int = 0  # rows and files
    seconds: float = 0.0
    asked: dict[str, Any] = Field(default_factory=dict[str, Any])  # calls, tokens, usd
    trouble: tuple[str, ...] = ()  # why a model was not asked, or said nothing that could be used


class Dreamt(Record):
    """One dream; undone, it is no longer there."""

    KIND: ClassVar[str] = "dream"

    at: str = ""  # the time that its stages read
    since: str = ""
    stages: dict[str, Done] = Field(default_factory=dict[str, Done])

    @property
    def latest(self) -> str:
        """When its last stage was done."""
        return max((each.at for each in self.stages.values()), default=self.at)
