"""State machines: a tool whose calls have an order, which the kernel enforces.

The present state is that of the latest call that ended well, as its step's evidence has it: so it lies in
the loop's document, survives a crash, and another loop that uses the same tool begins at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kernel.document import Step


@dataclass(frozen=True)
class Machine:
    """Which value of the argument `by` is allowed in which state, and which state it leads to."""

    by: str
    start: str
    moves: Mapping[str, Mapping[str, str]]

    def allowed(self, state: str) -> tuple[str, ...]:
        """What is possible in a state."""
        return tuple(self.moves.get(state, {}))

    @property
    def actions(self) -> tuple[str, ...]:
        """All that it can do, in the order in which its states have it."""
        return tuple(dict.fromkeys(action for ways in self.moves.values() for action in ways))


@dataclass(frozen=True)
class Standing:
    """Where a machine stands, how many calls led there, and what the last one kept for the next."""

    at: str
    calls: int = 0
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])
    step: int = 0  # the one that made the last of these calls

    @property
    def evidence(self) -> dict[str, Any]:
        """As it stands in the evidence of the call that led there."""
        return {"at": self.at, "calls": self.calls, "kept": dict(self.kept)}


def machine(data: Any, args: Mapping[str, Any]) -> Machine:
    """The machine of a pattern's `states:`; raises `ValueError` that says what is wrong."""
    if not isinstance(data, dict) or set(cast(dict[str, Any], data)) != {"by", "start", "moves"}:
        raise ValueError("states: a mapping of by (an argument), start (a state) and moves is needed")
    by, start, moves = (cast(dict[str, Any], data)[name] for name in ("by", "start", "moves"))
    if not isinstance(by, str) or by not in args:
        raise ValueError(f"states: by: {by!r} is not among args")
    if not isinstance(moves, dict) or _word(start) not in moves:
        raise ValueError(f"states: start: {start!r} is not among moves")
    for state, ways in cast(dict[Any, Any], moves).items():
        if not _word(state) or not isinstance(ways, dict):
            raise ValueError(f"states: moves: {state}: a mapping of actions to states is needed")
        for action, to in cast(dict[Any, Any], ways).items():
            if _word(to) not in moves:
                raise ValueError(f"states: moves: {state}: {action}: there is no state {to!r}")
            values = args[by].get("enum")
            if _word(action) not in (values or [action]):
                raise ValueError(f"states: moves: {state}: {action!r} is no value of {by}")
    return Machine(by, start, cast(Mapping[str, Mapping[str, str]], moves))


def _word(value: Any) -> str:
    """A state or an action; YAML makes something else of `on`, `off`, `yes`, `no` and of numbers."""
    if isinstance(value, bool | int | float | None):
        raise ValueError(f"states: {value!r} was read where a word is needed; put it in quotes")
    return value if isinstance(value, str) else ""


def standing(machine: Machine, tool: str, steps: Iterable[Step]) -> Standing:
    """Where the machine stands after these steps of a loop."""
    last = Standing(machine.start)
    for step in steps:
        told = step.evidence.get("state")
        if step.tool == tool and step.state == "done" and told and told["calls"] > last.calls:
            last = Standing(told["at"], told["calls"], told.get("kept", {}), step.n)
    return last


def refusal(machine: Machine, now: Standing, action: str) -> str:
    """Why an action is not allowed now, with what is; "" when it is."""
    if action in machine.allowed(now.at):
        return ""
    possible = ", ".join(machine.allowed(now.at)) or "nothing"
    return f"{machine.by} {action!r} is not allowed in the state {now.at!r}; possible now: {possible}"


def moved(machine: Machine, now: Standing, action: str, kept: Mapping[str, Any] | None) -> Standing:
    """Where the machine stands after an action that went well; without `kept` what was kept stays."""
    to = machine.moves.get(now.at, {}).get(action, now.at)
    return Standing(to, now.calls + 1, now.kept if kept is None else kept)


def moves(machine: Machine, tool: str, args: Mapping[str, Any], steps: Iterable[Step]) -> bool:
    """Whether a call would lead to another state than the present one."""
    now = standing(machine, tool, steps)
    return moved(machine, now, str(args.get(machine.by)), None).at != now.at


def told(machine: Machine, now: Standing) -> str:
    """The state, and what it allows, for whoever goes on."""
    return f"state {now.at}; possible now: {', '.join(machine.allowed(now.at)) or 'nothing'}"
