"""The events of a run, sent to one listener. They are for observation only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kernel.document.model import now as now
from kernel.document.redaction import redacted, secrets

VERSION = 1

Kind = Literal[
    "run_started",  # data: task, folder, rungs
    "loop_started",  # data: task, depth
    "phase_started",  # data: phase, attempt
    "phase_finished",  # data: phase, attempt, rung, gate (such as ACCEPT), steps, approach, turn, why (held)
    "ask_started",  # data: phase, step, rung
    "ask_finished",  # data: phase, step, rung, model, reused, and the tokens and money of META's rungs
    "reply_delta",  # data: phase, step, rung, text (the next piece of a reply that is being written)
    "thinking_delta",  # data: phase, step, rung, text (the next piece of a model's thinking, kept nowhere)
    "ask_refused",  # data: phase, step, rung, why
    "step_started",  # data: step, tool, args
    "step_finished",  # data: step, tool, state, result (its first 200 characters), deleted (a line)
    "said",  # data: text, source (what a person said to the run while it worked, now in the loop's §1)
    "loop_waiting",  # data: for, question
    "loop_finished",  # data: status, exit, output (its first 200 characters), spent
    "stale",  # data: message, phase, step, why, kept (what is repeated after a person's edit)
    "warning",  # data: message
    "system_changed",  # data: message, unit, entry, change, reason (an automatic change of the system)
    "memory",  # data: event (such as NeuronTreeBuilt or DreamCycleCompleted), and its details
    "run_finished",  # data: status, exit, output, spent, to_apply
]


@dataclass(frozen=True)
class Event:
    """One event, which can be printed as a line of JSON."""

    kind: Kind
    run: str
    loop_id: str = ""
    parent_id: str = ""
    level: str = ""
    type: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ts: str = field(default_factory=now)
    v: int = VERSION

    def __post_init__(self) -> None:
        """Show no secret; a question stays as it is, because a person approves what is shown."""
        question = {"question": self.data["question"]} if "question" in self.data else {}
        object.__setattr__(self, "data", {**redacted(self.data, secrets().redactor()), **question})

    def as_dict(self) -> dict[str, Any]:
        """The event as a JSON object."""
        return asdict(self)


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener that does nothing."""
