"""What a stage of a dream is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.store import Shelf

Ask = Callable[[str, Mapping[str, str]], str]
"""Ask the ladder: a file of `system/memory/`, the values of its slots → the reply; "" where there is none."""


@dataclass(frozen=True)
class Dream:
    """One dream: what it works on, and when it is. A stage reads the time here and nowhere else."""

    id: str
    brain: Brain
    shelf: Shelf  # the brain's, and what is changed through it is archived first
    now: datetime
    since: str = ""  # only what came after; "" for all
    ask: Ask | None = None  # None: the extractive forms
    waits: Callable[[], bool] = lambda: False  # whether a reply is to come, so that this try is undone


@dataclass(frozen=True)
class Told:
    """What a stage did: a line a thing, and how many of what."""

    did: Sequence[str] = ()
    counts: Mapping[str, int | float] = field(default_factory=dict)
    form: Literal["code", "extractive", "model"] = "code"


@dataclass(frozen=True)
class Stage:
    """One thing that a dream does, in one transaction of the shelf: it happens wholly or not at all."""

    name: str  # as dream.md has it, with hyphens
    group: Literal["a", "p", "b"]
    does: str  # a phrase, for the plan of the dream's document
    run: Callable[[Dream], Told]
