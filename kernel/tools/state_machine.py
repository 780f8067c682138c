"""State machines: the kernel enforces the order of a tool's calls.

The current state is in the evidence of the last successful call. So it is part of the loop's document and
survives a crash, and another loop that uses the same tool begins at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.document.model import Step


@dataclass(frozen=True)
class Machine:
    """The allowed actions (values of the argument `by`) in each state, and the states that they lead to."""

    by: str
    start: str
    moves: Mapping[str, Mapping[str, str]]

    def allowed(self, state: str) -> tuple[str, ...]:
        """The actions allowed in a state."""
        return tuple(self.moves.get(state, {}))

    @property
    def actions(self) -> tuple[str, ...]:
        """All actions, in the order of the states."""
        return tuple(dict.fromkeys(action for ways in self.moves.values() for action in ways))


@dataclass(frozen=True)
class MachineState:
    """The current state of a machine."""

    at: str
    calls: int = 0  # made so far
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])  # data for the next call
    step: int = 0  # of the last call

    @property
    def evidence(self) -> dict[str, Any]:
        """The form in the evidence of the call that led to this state."""
        return {"at": self.at, "calls": self.calls, "kept": dict(self.kept)}


def machine_state(machine: Machine, tool: str, steps: Iterable[Step]) -> MachineState:
    """The state of the machine after these steps of a loop."""
    last = MachineState(machine.start)
    for step in steps:
        state = step.evidence.get("state")
        if step.tool == tool and step.state == "done" and state and state["calls"] > last.calls:
            last = MachineState(state["at"], state["calls"], state.get("kept", {}), step.n)
    return last


def refusal(machine: Machine, now: MachineState, action: str) -> str:
    """Why an action is not allowed now, with the possible ones; "" if it is allowed."""
    if action in machine.allowed(now.at):
        return ""
    possible = ", ".join(machine.allowed(now.at)) or "nothing"
    return f"{machine.by} {action!r} is not allowed in the state {now.at!r}; possible now: {possible}"


def moved(machine: Machine, now: MachineState, action: str, kept: Mapping[str, Any] | None) -> MachineState:
    """The state after a successful action; without `kept`, the kept data is unchanged."""
    to = machine.moves.get(now.at, {}).get(action, now.at)
    return MachineState(to, now.calls + 1, now.kept if kept is None else kept)


def moves(machine: Machine, tool: str, args: Mapping[str, Any], steps: Iterable[Step]) -> bool:
    """Whether a call would change the state."""
    now = machine_state(machine, tool, steps)
    return moved(machine, now, str(args.get(machine.by)), None).at != now.at


def description(machine: Machine, now: MachineState) -> str:
    """The state and its allowed actions, as shown in prompts and evidence."""
    return f"state {now.at}; possible now: {', '.join(machine.allowed(now.at)) or 'nothing'}"
