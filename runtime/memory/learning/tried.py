"""An attempt as learning keeps it: its trajectory in names, and what came of it; no text of its document.

Which attempts are alike, the experiences of `episodic` tell; what was said and done, the documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from kernel.document import ENDED, Document
from kernel.tools import Tool
from runtime.memory import DIRECT, RUNG
from runtime.memory.learning.habits import habits_of
from runtime.memory.learning.kinds import Kinds
from runtime.memory.learning.patterns import DEFAULT, GENERAL
from runtime.memory.learning.rules import Offered
from runtime.memory.learning.signals import Outcome, outcomes
from runtime.memory.learning.trajectories import Act, Trajectory, trajectories
from runtime.store import Record

GUIDANCE = "memory: patterns"
"""The source of the context that shows patterns."""
_SHOWN = re.compile(r"\(patterns/([a-z0-9][a-z0-9-]{0,63})\.md\)")


class Kept(BaseModel):
    """One act: names, and numbers that tell which paths are the same."""

    model_config = ConfigDict(frozen=True)

    tool: str
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # those set to true
    words: dict[str, str] = Field(default_factory=dict)  # arguments that are one plain word
    folders: tuple[str, ...] = ()  # plain names
    forms: tuple[tuple[str, str], ...] = ()
    paths: tuple[int, ...] = ()
    state: str = ""


class Tried(Record):
    """One attempt of a loop that ended. Its id is the loop's and the attempt's number."""

    KIND: ClassVar[str] = "tried"

    run: str = ""
    document: str = ""  # relative to the folder `state`
    last: bool = True  # the loop's last attempt
    parent: str = ""  # the loop above
    type: str = GENERAL
    agent: str = DEFAULT
    space: str = DEFAULT
    group: str = ""  # the attempts that were made at one task on purpose
    acts: tuple[Kept, ...] = ()
    criteria: tuple[str, ...] = ()
    habits: tuple[tuple[str, ...], ...] = ()  # of an accepted last attempt; see `habits`
    signal: str = ""
    said: bool | None = None  # by a person
    good: bool | None = None
    reward: float = 0.0
    accepted: bool = False
    shown: tuple[str, ...] = ()  # patterns that stood in its prompt
    counted: dict[str, bool] = Field(default_factory=dict)  # those whose ledger it moved, and how
    at: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def loop(self) -> str:
        """The loop's id."""
        return self.id.rpartition("/")[0]

    @property
    def trajectory(self) -> Trajectory:
        """As rules look at it."""
        acts = tuple(
            Act(
                act.tool,
                frozenset(act.arguments),
                dict.fromkeys(act.flags, True),
                act.words,
                frozenset(map(str, act.paths)),
                frozenset(act.folders),
                frozenset(act.forms),
                act.state,
            )
            for act in self.acts
        )
        return Trajectory(acts, frozenset(self.criteria))

    def judged(self, outcome: Outcome, said: bool | None) -> Tried:
        """The same with another outcome."""
        told: dict[str, Any] = {"signal": outcome.signal, "good": outcome.good, "reward": outcome.reward}
        return self.model_copy(update={**told, "accepted": outcome.accepted, "said": said})


def tried_of(documents: Iterable[Document], kinds: Kinds, said: Mapping[str, bool]) -> list[Tried]:
    """The attempts of loops that ended; those that code planned, or memory replayed, teach nothing new.

    `said` holds what a person said of a run, by its id.
    """
    found: list[Tried] = []
    for document in documents:
        meta = document.meta
        if meta.status not in ENDED or meta.operation or meta.type != "task":
            continue
        ways = trajectories(document)
        word = None if meta.parent else said.get(meta.run)
        for number, outcome in outcomes(document, word):
            way = ways.get(number, Trajectory())
            if outcome.good is None or _planner(document, number) in (DIRECT, RUNG, ""):
                continue
            found.append(_tried(document, number, way, kinds).judged(outcome, word))
    return found


def _tried(document: Document, number: int, way: Trajectory, kinds: Kinds) -> Tried:
    meta, last = document.meta, number == document.meta.attempt
    spent = meta.spent if last else {}
    return Tried(
        id=f"{meta.id}/{number}",
        run=meta.run,
        document=f"runs/{meta.run}/{meta.id}.md",
        last=last,
        parent=meta.parent,
        type=kinds.of(document.text(1, "task"))[0],
        agent=str(meta.extra.get("agent") or DEFAULT),
        space=str(meta.extra.get("space") or DEFAULT),
        group=str(meta.extra.get("group") or ""),
        acts=tuple(_kept(way)),
        criteria=tuple(sorted(way.criteria)),
        habits=tuple(habits_of(document)) if last and meta.status == "complete" else (),
        shown=shown_in(document),
        at=meta.updated,
        calls=_whole(spent.get("calls")),
        tokens=_whole(spent.get("prompt_tokens")) + _whole(spent.get("completion_tokens")),
        seconds=float(spent.get("seconds") or 0.0),
    )


def offered_by(tools: Mapping[str, Tool]) -> Offered:
    """What tools offer for their arguments, by the enumerations of their schemas, and which only look."""
    choices = {
        f"{tool.name} {name}": frozenset(each for each in schema["enum"] if isinstance(each, str))
        for tool in tools.values()
        for name, schema in tool.args.items()
        if isinstance(schema.get("enum"), list)
    }
    looking = (
        tool.name for tool in tools.values() if tool.effects and {*tool.effects} <= {"read", "network"}
    )
    return Offered(choices, frozenset(looking))


def shown_in(document: Document) -> tuple[str, ...]:
    """The patterns that a loop was shown by memory; what other texts say of patterns counts for nothing."""
    texts = [note.text for note in document.section(1).notes if note.source == GUIDANCE]
    return tuple(dict.fromkeys(name for text in texts for name in _SHOWN.findall(text)))


def _kept(way: Trajectory) -> list[Kept]:
    numbers: dict[str, int] = {}
    return [
        Kept(
            tool=act.tool,
            arguments=tuple(sorted(act.arguments)),
            flags=tuple(sorted(name for name, value in (act.flags or {}).items() if value)),
            words=dict(act.words or {}),
            folders=tuple(sorted(act.folders)),
            forms=tuple(sorted(act.forms)),
            paths=tuple(sorted(numbers.setdefault(path, len(numbers)) for path in act.paths)),
            state=act.state,
        )
        for act in way.acts
    ]


def _planner(document: Document, attempt: int) -> str:
    """The rung that planned an attempt; "" where none did."""
    answered = [
        str(each.get("rung", ""))
        for each in document.meta.rungs
        if each.get("attempt") == attempt
        and each.get("phase") in ("plan", "fused")
        and not each.get("passed")
    ]
    return answered[-1] if answered else ""


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0
