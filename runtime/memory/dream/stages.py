"""The stages of a dream, what they are given and return, and what the store keeps of a dream.

Phase a finds a place for what was observed, phase p works on how things are done, phase b on what is known as
a whole; decay and the report see what the others made. The code of a stage is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernel.errors import UsageError
from runtime.memory.brain import Brain
from runtime.memory.store import Record, Shelf
from runtime.text.lines import flat, shortened

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
    waits: Callable[[], bool] = lambda: False  # whether a reply is pending: this attempt is rolled back


@dataclass(frozen=True)
class StageResult:
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
    run: Callable[[Dream], StageResult]


class StageRecord(BaseModel):
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


class DreamRecord(Record):
    """A dream and its finished stages, each stored in the transaction that did it; undo deletes it."""

    KIND: ClassVar[str] = "dream"

    at: str = ""  # the time that its stages read
    since: str = ""
    stages: dict[str, StageRecord] = Field(default_factory=dict[str, StageRecord])
    undoing: bool = False  # an undo has begun

    @property
    def latest(self) -> str:
        """When its last stage finished."""
        return max((each.at for each in self.stages.values()), default=self.at)


def short(text: str, most: int = 80) -> str:
    """The beginning of a text, on one line."""
    return shortened(flat(text), most)


GROUPS: tuple[Group, ...] = ("a", "p", "b")
_TABLE: tuple[tuple[Group, str, str, str], ...] = (
    ("a", "probe", "probing", "search for some of what can be found now, to compare later"),
    ("a", "cluster", "observations", "make observations evidence of the memory they are nearest to"),
    ("a", "refine", "observations", "reword memories from their evidence, and check their edges again"),
    ("a", "create", "observations", "make memories of what surprises and belongs to none"),
    ("a", "verify", "probing", "take the dream back if less is found than before"),
    ("p", "merge-neurons", "solved_tasks", "merge solved tasks that are one procedure"),
    ("p", "prune-synapses", "solved_tasks", "remove weak links inside solved tasks"),
    ("p", "delete-weak-trees", "solved_tasks", "forget what is in quarantine and was never right"),
    ("p", "rehabilitate", "solved_tasks", "release what has been in quarantine for long"),
    ("p", "prune-events", "solved_tasks", "keep the newest 100 decisions on each solved task"),
    ("p", "prune-branches", "solved_tasks", "cut parts that misled back to a stump that keeps the blame"),
    ("p", "mitosis", "solved_tasks", "split a kind of task that is large and has little in common"),
    ("p", "fusion", "solved_tasks", "join two kinds of task that became alike"),
    ("p", "cluster-substrates", "solved_tasks", "assign a kind to solved tasks without one"),
    ("p", "birth-methods", "solved_tasks", "make a method of five solved tasks with one operation"),
    ("b", "supersede", "superseding", "ask a model which earlier facts a later one ends"),
    ("b", "connect", "memories", "link recent memories that belong together"),
    ("b", "score", "memories", "review the memories that are due"),
    ("b", "abstract", "memories", "make a memory of what several occasions have in common"),
    ("b", "compress-patterns", "solved_tasks", "merge equal learned patterns, drop the least certain"),
    ("b", "promote", "solved_tasks", "share what several agents or spaces have learned"),
    ("b", "decay", "memories", "weaken edges, credit and blame with age"),
    ("b", "report", "report", "summarise the dream, how connected memory is, and whether it still surprises"),
)
"""Group, name, module, and what it does. The function is the name with underscores."""


def _run(module: str, name: str, dream: Dream) -> StageResult:
    return getattr(import_module(f"{__package__}.{module}"), name.replace("-", "_"))(dream)


ALL = tuple(Stage(name, group, does, partial(_run, module, name)) for group, name, module, does in _TABLE)


def chosen(phases: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[Stage, ...]:
    """The stages of these phases (none named: all) without those switched off. Raises `UsageError`."""
    names = [stage.name for stage in ALL]
    if unknown := [each for each in without if each not in names]:
        raise UsageError(f"there is no stage {', '.join(unknown)}; there are {', '.join(names)}")
    if wrong := [each for each in phases if each not in GROUPS]:
        raise UsageError(f"there is no phase {', '.join(wrong)}; there are {', '.join(GROUPS)}")
    return tuple(each for each in ALL if (not phases or each.group in phases) and each.name not in without)
