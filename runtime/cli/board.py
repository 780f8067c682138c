"""What is known of a run at work, from its events alone: a tree of loops with their steps.

The board knows nothing of terminals; `tree` draws it, tests ask it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernel.document import ENDED, STEP_ENDED
from kernel.events import Event

PHASES = ("understand", "plan", "do", "check")
_ASKED = {"fused": "plan", "atomic": "do"}


@dataclass
class StepRow:
    """A step of a loop, as far as events told it."""

    n: int
    tool: str
    args: dict[str, Any]
    state: str = "running"
    loop: str = ""  # the child that carries it out

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in STEP_ENDED


@dataclass
class LoopRow:
    """A loop, as far as events told it."""

    id: str
    parent: str = ""
    kind: str = "task"
    task: str = ""
    phase: str = ""
    attempt: int = 1
    status: str = "running"
    asking: str = ""  # the rung that is being asked now
    rung: str = ""  # the one that answered last
    own: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] | None = None  # what it spent with its children, once it has ended
    began: float = 0.0
    finished: float | None = None
    note: str = ""
    waits_for: str = ""
    steps: dict[int, StepRow] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the loop has come to an end of any kind."""
        return self.status in ENDED


class Board:
    """The state of one run, made of its events in the order they come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.run = ""
        self.root = ""
        self.loops: dict[str, LoopRow] = {}

    def apply(self, event: Event) -> None:
        """Take one event in; an unknown kind changes nothing."""
        if event.kind == "run_started":
            self.run, self.root = event.run, event.loop_id
        if event.kind == "run_finished":
            self._run_finished(str(event.data.get("status", "")))
        if event.kind in ("run_finished", "warning", "stale") or not event.loop_id:
            return
        loop = self._loop(event)
        take = getattr(self, f"_{event.kind}", None)
        if take:
            take(loop, event.data)

    def _loop(self, event: Event) -> LoopRow:
        if event.loop_id not in self.loops:
            row = LoopRow(event.loop_id, event.parent_id, event.type or "task", began=self.clock())
            self.loops[event.loop_id] = row
            self._join(row, event.run)
        return self.loops[event.loop_id]

    def _join(self, row: LoopRow, run: str) -> None:
        """Put a child in its step's place; the end of its id is the step's number."""
        parent = self.loops.get(row.parent)
        number = row.id.rpartition(f"-{run}-")[2].rpartition(".")[2]
        if parent is not None and number.isdigit():
            step = parent.steps.setdefault(int(number), StepRow(int(number), row.kind, {}))
            step.loop = row.id
            row.task = row.task or str(step.args.get("task", ""))

    def _run_finished(self, status: str) -> None:
        """What was at work when a run was interrupted is so no longer."""
        if status != "interrupted":
            return
        for loop in self.loops.values():
            if not loop.ended:
                loop.status, loop.finished, loop.asking = status, self.clock(), ""
            for step in loop.steps.values():
                step.state = step.state if step.ended else status

    # ---- one method an event ----

    def _run_started(self, loop: LoopRow, data: Any) -> None:
        loop.task = str(data.get("task", ""))

    def _loop_started(self, loop: LoopRow, data: Any) -> None:
        loop.task = str(data.get("task") or loop.task)

    def _phase_started(self, loop: LoopRow, data: Any) -> None:
        loop.phase, loop.attempt, loop.status = data["phase"], data.get("attempt", 1), "running"
        loop.asking = ""

    def _phase_finished(self, loop: LoopRow, data: Any) -> None:
        loop.phase, loop.asking = data["phase"], ""
        if data.get("gate") in ("RETRY", "ESCALATE"):
            loop.note = str(data["gate"])

    def _ask_started(self, loop: LoopRow, data: Any) -> None:
        loop.asking = str(data.get("rung", ""))
        loop.phase = _ASKED.get(data["phase"], str(data["phase"]))

    def _ask_finished(self, loop: LoopRow, data: Any) -> None:
        loop.asking, loop.rung = "", str(data.get("model") or data.get("rung", ""))
        if not data.get("reused"):
            for name in ("prompt_tokens", "completion_tokens", "instruction_tokens", "usd"):
                loop.own[name] = loop.own.get(name, 0) + (data.get(name) or 0)

    def _ask_refused(self, loop: LoopRow, data: Any) -> None:
        loop.asking, loop.note = "", f"refused: {data.get('why', '')}"

    def _step_started(self, loop: LoopRow, data: Any) -> None:
        n = int(data["step"])
        known = loop.steps.get(n)
        loop.steps[n] = StepRow(
            n, str(data.get("tool", "")), dict(data.get("args") or {}), loop=known.loop if known else ""
        )

    def _step_finished(self, loop: LoopRow, data: Any) -> None:
        n = int(data["step"])
        step = loop.steps.setdefault(n, StepRow(n, str(data.get("tool", "")), {}))
        step.state = str(data.get("state", "done"))

    def _loop_waiting(self, loop: LoopRow, data: Any) -> None:
        loop.status, loop.note = "waiting", str(data.get("question", ""))
        loop.waits_for = "an answer" if data.get("for") == "person" else "an approval"

    def _loop_finished(self, loop: LoopRow, data: Any) -> None:
        loop.status, loop.finished, loop.asking = str(data["status"]), self.clock(), ""
        spent = data.get("spent") or {}
        loop.whole = {name: float(value) for name, value in spent.items() if isinstance(value, int | float)}

    def skip(self, seconds: float) -> None:
        """Leave out the time for which a person was waited for."""
        for loop in self.loops.values():
            if not loop.ended:
                loop.began += seconds

    # ---- sums ----

    def children(self, loop: LoopRow) -> Iterator[LoopRow]:
        """The loops that carry out the steps of this one."""
        return (self.loops[step.loop] for step in loop.steps.values() if step.loop in self.loops)

    def spent(self, loop: LoopRow) -> dict[str, float]:
        """What the loop and its children have cost so far; tokens are those of prompts and replies."""
        if loop.whole:
            total = dict(loop.whole)
        else:
            total = dict(loop.own)
            for child in self.children(loop):
                for name, value in self.spent(child).items():
                    total[name] = total.get(name, 0) + value
        total["tokens"] = total.get("prompt_tokens", 0) + total.get("completion_tokens", 0)
        return total

    def elapsed(self, loop: LoopRow) -> float:
        """Seconds since the loop began, or that it took."""
        return (loop.finished if loop.finished is not None else self.clock()) - loop.began
