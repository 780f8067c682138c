"""Attempts as learning stores them: the trajectory in names and the outcome, without text of the document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from pydantic import Field, computed_field

from kernel.document.model import ENDED, Document, Fold
from kernel.tools.tool import Tool
from runtime.memory import WITHOUT_MODEL
from runtime.memory.episodes.attempts import answered
from runtime.memory.episodes.experience import signal_of, tokens_of
from runtime.memory.episodes.run_observations import PERSON
from runtime.memory.learning.kinds import Kinds
from runtime.memory.learning.patterns import DEFAULT, GENERAL
from runtime.memory.learning.rules import ToolOptions
from runtime.memory.learning.trajectories import Act, Trajectory, habits_of, trajectories
from runtime.memory.store import Record
from runtime.memory.tasks.rewards import RELIABILITY

VALUES: Mapping[str, tuple[int, str]] = {
    "user_approved": (1, "person"),
    "user_rejected": (-1, "person"),
    "tests_passed": (1, "tests"),
    "tests_failed": (-1, "tests"),
    "no_errors": (1, "no errors"),
    "timeout": (-1, "timeout"),
    "escalation": (-1, "escalation"),
}
"""Each signal: good (1) or bad (-1), and its source in `RELIABILITY`."""
ACCEPTED = ("user_approved", "tests_passed")
"""Verified successes: only these can create a pattern."""


def by_person(good: bool) -> str:
    """The signal of an attempt that a person has judged."""
    return "user_approved" if good else "user_rejected"


def outcomes(document: Document, verdict: bool | None = None) -> Sequence[tuple[int, str]]:
    """The signal of each attempt of an ended loop; `verdict` is a person's verdict on the last one."""
    last = document.meta.attempt
    folds = {fold.attempt: _signal_of(fold) for fold in document.section(2).folds}
    return [*((n, each) for n, each in folds.items() if n != last), (last, signal_of(document, verdict))]


def _signal_of(fold: Fold) -> str:
    """Why an earlier attempt failed: CHECK decided to retry, its plan was not approved, or a rung gave up."""
    by_a_person = any(note.key == "learned" and note.origin == PERSON for note in fold.notes)
    if fold.decision in ("rejected", "sent back") and by_a_person:
        return "user_rejected"
    return "tests_failed" if fold.decision == "retry" else "escalation"


def advantages(rewards: Sequence[float]) -> list[float]:
    """The group-relative advantage of each reward: (reward - mean) / deviation; 0 if all are equal.

    Source: training-free GRPO.
    """
    if not rewards:
        return []
    mean = sum(rewards) / len(rewards)
    deviation = (sum((each - mean) ** 2 for each in rewards) / len(rewards)) ** 0.5
    return [(each - mean) / deviation if deviation > 1e-9 else 0.0 for each in rewards]


def differs(goods: Sequence[bool]) -> bool:
    """Whether a group has both successes and failures."""
    return 0 < sum(goods) < len(goods)


GUIDANCE = "memory: patterns"
"""The source of the context that shows patterns."""
_SHOWN = re.compile(r"\(patterns/([a-z0-9][a-z0-9-]{0,63})\.md\)")


class StoredAttempt(Record):
    """One attempt of an ended loop. Its id is `LOOP/NUMBER`."""

    KIND: ClassVar[str] = "tried"

    run: str = ""
    document: str = ""  # relative to the folder `state`
    last: bool = True  # the loop's last attempt
    parent: str = ""  # the loop above
    type: str = GENERAL
    agent: str = DEFAULT
    space: str = DEFAULT
    group: str = ""  # deliberate attempts at one task share a group
    acts: tuple[Act, ...] = ()
    criteria: tuple[str, ...] = ()
    habits: tuple[tuple[str, ...], ...] = ()  # of an accepted last attempt; see `habits_of`
    signal: str = ""  # of `VALUES`; "" if the outcome is unknown
    said: bool | None = None  # a person's verdict
    shown: tuple[str, ...] = ()  # patterns in its prompt
    counted: dict[str, bool] = Field(default_factory=dict)  # patterns that it was counted for: helped or not
    at: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def loop(self) -> str:
        """The loop's id."""
        return self.id.rpartition("/")[0]

    @cached_property
    def trajectory(self) -> Trajectory:
        """The trajectory that rules are checked on."""
        return Trajectory(self.acts, self.criteria)

    @computed_field
    @property
    def good(self) -> bool | None:
        """Whether the attempt succeeded; None if unknown."""
        return VALUES[self.signal][0] > 0 if self.signal in VALUES else None

    @computed_field
    @property
    def reward(self) -> float:
        """From -1 to 1: the signal's value times its reliability."""
        value, source = VALUES.get(self.signal, (0, "person"))
        return value * RELIABILITY[source]

    @computed_field
    @property
    def accepted(self) -> bool:
        """Whether the success was verified by CHECK's criteria or by a person."""
        return self.signal in ACCEPTED

    def judged(self, signal: str, verdict: bool | None) -> StoredAttempt:
        """A copy with another outcome."""
        return self.model_copy(update={"signal": signal, "said": verdict})


def stored_attempts(
    documents: Iterable[Document], kinds: Kinds, verdicts: Mapping[str, bool]
) -> list[StoredAttempt]:
    """The attempts of ended loops, without those planned by code or replayed from memory.

    `verdicts` maps run ids to a person's verdict.
    """
    attempts: list[StoredAttempt] = []
    for document in documents:
        meta = document.meta
        if meta.status not in ENDED or meta.operation or meta.type != "task":
            continue
        by_attempt = trajectories(document)
        verdict = None if meta.parent else verdicts.get(meta.run)
        for number, signal in outcomes(document, verdict):
            trajectory = by_attempt.get(number, Trajectory())
            planner = answered(document, number, "plan", "fused", "turn")[0]
            if signal in VALUES and planner not in (*WITHOUT_MODEL, ""):
                attempts.append(_stored_attempt(document, number, trajectory, kinds).judged(signal, verdict))
    return attempts


def _stored_attempt(document: Document, number: int, trajectory: Trajectory, kinds: Kinds) -> StoredAttempt:
    meta, last = document.meta, number == document.meta.attempt
    return StoredAttempt(
        id=f"{meta.id}/{number}",
        run=meta.run,
        document=f"runs/{meta.run}/{meta.id}.md",
        last=last,
        parent=meta.parent,
        type=kinds.of(document.text(1, "task"))[0],
        group=str(meta.extra.get("group") or ""),
        acts=trajectory.acts,
        criteria=trajectory.criteria,
        habits=tuple(habits_of(document)) if last and meta.status == "complete" else (),
        shown=shown_in(document),
        at=meta.updated,
        calls=int(meta.spent.get("calls", 0)) if last else 0,
        tokens=tokens_of(document) if last else 0,
        seconds=float(meta.spent.get("seconds", 0.0)) if last else 0.0,
    )


def offered_by(tools: Mapping[str, Tool]) -> ToolOptions:
    """The choices in the schemas of tools, and the tools without effects other than reading."""
    choices = {
        f"{tool.name} {name}": frozenset(each for each in schema["enum"] if isinstance(each, str))
        for tool in tools.values()
        for name, schema in tool.args.items()
        if isinstance(schema.get("enum"), list)
    }
    looking = (
        tool.name for tool in tools.values() if tool.effects and {*tool.effects} <= {"read", "network"}
    )
    return ToolOptions(choices, frozenset(looking))


def shown_in(document: Document) -> tuple[str, ...]:
    """The patterns that memory showed to a loop. Mentions in other texts do not count."""
    texts = [note.text for note in document.section(1).notes if note.source == GUIDANCE]
    return tuple(dict.fromkeys(name for text in texts for name in _SHOWN.findall(text)))
