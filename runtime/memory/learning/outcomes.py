"""Outcomes that other agents report. Each leaves the same records as a run: an experience and an attempt.

An outcome without a task only counts for its agent. One with `habits` is not compared: only how its files are
written and which tools follow each other is taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from kernel.document.model import Step
from runtime.memory.episodes.experience import (
    MOST_FILES,
    MOST_MOVES,
    REASON_CHARS,
    TASK_CHARS,
    Experience,
    Signal,
    files_of,
)
from runtime.memory.learning.attempts import VALUES, StoredAttempt
from runtime.memory.learning.patterns import DEFAULT, GENERAL
from runtime.memory.learning.trajectories import habits, trajectory_of
from runtime.memory.store import pack

if TYPE_CHECKING:
    from runtime.memory.brain import Brain
    from runtime.memory.learning.learner import Learning


class Act(BaseModel):
    """One call of a tool."""

    model_config = ConfigDict(frozen=True)

    tool: str
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    failed: bool = False


class Outcome(BaseModel):
    """What came of one task. Its id is that of the experience; the same one is taken in once."""

    model_config = ConfigDict(frozen=True)

    id: str
    task: str = ""
    type: str = ""  # of the task; "" to recognise it
    agent: str = DEFAULT
    space: str = DEFAULT
    success: bool = True
    signal: str = ""  # as the client names it
    acts: tuple[Act, ...] = ()
    files: tuple[str, ...] = ()
    result: str = ""  # what the agent answered
    seconds: float = 0.0
    tokens: int = 0
    at: str = ""
    habits: bool = False

    @property
    def steps(self) -> list[Step]:
        """The acts as the steps of a plan that was carried out."""
        return [
            Step(n, "failed" if act.failed else "done", act.tool, act.args)
            for n, act in enumerate(self.acts[:MOST_MOVES], 1)
        ]


def signal_for(success: bool, named: str) -> Signal:
    """The signal that learning knows for a client's word; a word that it does not know proves nothing."""
    known: Mapping[str, Signal] = {name: name for name in VALUES}  # type: ignore[misc]
    if named in known and (VALUES[named][0] > 0) == success:
        return known[named]
    return "no_errors" if success else "escalation"


def take_in(brain: Brain, learning: Learning | None, outcomes: Sequence[Outcome]) -> list[StoredAttempt]:
    """Store outcomes, and what can be learned of them unless `learning` is None; returns the new attempts.

    They are compared by `Learning.learn`, which takes longer. Repeating the call changes nothing. Raises
    `FractalError` if memory cannot be written.
    """
    outcomes = [each.model_copy(update={"type": _type(brain, each)}) for each in outcomes]
    tried = {each.id: each for each in sorted(outcomes, key=lambda each: bool(each.task)) if not each.habits}
    known = {each.id: each.text for each in brain.shelf.pick(Experience, tried)}
    new = [each for each in tried.values() if each.id not in known or (each.task and not known[each.id])]
    experiences = [_experience(each) for each in new]
    rows = brain.embedder.embed([each.text for each in experiences]) if experiences else ()
    name = brain.embedder.name
    brain.shelf.put(
        *(
            each.model_copy(update={"vectors": {name: pack(row)} if each.text else {}})
            for each, row in zip(experiences, rows, strict=True)
        )
    )
    if learning is None:
        return []
    learning.distil([_attempt(each) for each in outcomes if each.habits])
    return learning.store([_attempt(each) for each in tried.values() if each.acts])[0]


def _type(brain: Brain, outcome: Outcome) -> str:
    return outcome.type or (brain.kinds.of(outcome.task)[0] if outcome.task else GENERAL)


def _experience(outcome: Outcome) -> Experience:
    steps = outcome.steps
    files = [*outcome.files, *(name for step in steps for name in files_of(step))]
    return Experience(
        id=outcome.id,
        text=outcome.task[:TASK_CHARS],
        run=outcome.id,
        type=outcome.type,
        agent=outcome.agent,
        space=outcome.space,
        status="complete" if outcome.success else "failed",
        success=outcome.success,
        signal=signal_for(outcome.success, outcome.signal),
        reason="" if outcome.success else outcome.signal[:REASON_CHARS],
        moves=tuple(f"{step.tool} {step.state}" for step in steps),
        tools=tuple(dict.fromkeys(step.tool for step in steps)),
        files=tuple(dict.fromkeys(files))[:MOST_FILES],
        tokens=outcome.tokens,
        seconds=outcome.seconds,
        at=outcome.at,
    )


def _attempt(outcome: Outcome) -> StoredAttempt:
    steps = outcome.steps
    return StoredAttempt(
        id=f"{outcome.id}/1",
        run=outcome.id,
        type=outcome.type,
        agent=outcome.agent,
        space=outcome.space,
        acts=trajectory_of(steps).acts,
        habits=tuple(habits(steps, outcome.task, outcome.result)) if outcome.success else (),
        signal="" if outcome.habits else signal_for(outcome.success, outcome.signal),
        at=outcome.at,
        tokens=outcome.tokens,
        seconds=outcome.seconds,
    )
