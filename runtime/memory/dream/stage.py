"""What a stage of a dream is given and returns, and what the store keeps of a dream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from runtime.memory.brain import Brain
from runtime.memory.store import Record, Shelf

Ask = Callable[[str, Mapping[str, str]], str]
"""Ask a model: a prompt of `system/memory/` and the values of its slots → the reply; "" if there is none."""
Form = Literal["code", "extractive", "model"]
Group = Literal["a", "p", "b"]


@dataclass(frozen=True)
class Dream:
    """One dream: what it works on, and its time. A stage reads the time here and nowhere else."""

    id: str
    brain: Brain
    shelf: Shelf  # the brain's; changes are archived first
    now: datetime
    since: str = ""  # only what came after; "" for all
    ask: Ask | None = None  # None: extract instead
    waits: Callable[[], bool] = lambda: (
        False
    )  # whether a reply is pending, so that this attempt is rolled back


@dataclass(frozen=True)
class Told:
    """The result of a stage: a line for each thing done, and counts."""

    did: Sequence[str] = ()
    counts: Mapping[str, int | float] = field(default_factory=dict)
    form: Form = "code"


@dataclass(frozen=True)
class Stage:
    """One step of a dream, in one transaction of the shelf."""

    name: str
    group: Group
    does: str  # a phrase for the plan in the dream's document
    run: Callable[[Dream], Told]


class Done(BaseModel):
    """What one stage did."""

    model_config = ConfigDict(frozen=True)

    at: str = ""
    did: tuple[str, ...] = ()
    counts: dict[str, int | float] = Field(default_factory=dict[str, int | float])
    form: str = "code"
    changed: int = 0  # rows and files
    seconds: float = 0.0
    asked: dict[str, Any] = Field(default_factory=dict[str, Any])  # calls, tokens, usd
    trouble: tuple[str, ...] = ()  # why a model was not asked, or its reply not used


class Dreamt(Record):
    """A dream and its finished stages, each stored in the transaction that did it; undo deletes it."""

    KIND: ClassVar[str] = "dream"

    at: str = ""  # the time that its stages read
    since: str = ""
    stages: dict[str, Done] = Field(default_factory=dict[str, Done])
    undoing: bool = False  # an undo has begun

    @property
    def latest(self) -> str:
        """When its last stage finished."""
        return max((each.at for each in self.stages.values()), default=self.at)


def short(text: str, most: int = 80) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
