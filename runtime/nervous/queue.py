"""The order of tasks that wait for a beat to take them up.

It is made of the messages and of what earlier runs have cost, and nothing is stored for it: every process
finds the same order, and one that dies leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from math import log
from statistics import median
from typing import Literal

from kernel.errors import FractalError
from runtime.memory.run_memory import RunMemory
from runtime.nervous.messages import Message
from runtime.workspace.settings import Config
from runtime.workspace.workspace import moment

Priority = Literal["low", "normal", "high"]
STEPS: Mapping[str, int] = {"low": -1, "normal": 0, "high": 1}
STEP, DAY = 4, 86_400
"""What a step of priority, or a day of waiting (in seconds), counts."""
LAST = 10
"""Earlier runs of a type whose cost counts."""


@dataclass(frozen=True)
class Queued:
    """A queued task and the lifeforce that it is expected to cost; None where that is not known."""

    message: Message
    cost: float | None

    @property
    def priority(self) -> str:
        """low, normal or high."""
        return str(self.message.data.get("priority", "normal"))

    @property
    def turn(self) -> float:
        """The time by which tasks are ordered, in Unix seconds: when it was sent, moved by priority and cost.

        Tasks are in the order of priority / (1 + cost). A step of priority counts fourfold, and so does each
        day of waiting. As all age alike, their order does not change while they wait. No task waits for ever:
        what is sent more than a day after its turn comes later, whatever its priority and cost.
        """
        sent = moment(self.message.at)
        steps = STEPS.get(self.priority, 0) - log(1 + (self.cost or 0), STEP)
        return (sent.timestamp() if sent else 0) - DAY * steps

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", about {self.cost:.3g} lifeforce"
        return f"{self.priority} priority{cost}"


def ordered(tasks: Iterable[Message], memory: RunMemory, config: Config) -> list[Queued]:
    """Queued tasks, next first.

    A task is expected to cost the median of the last runs of its agent with tasks of its type, else of all
    its runs. It costs nothing where the agent has no pool of lifeforce.
    """
    costs = cache(partial(_costs, memory, config))
    queue = [Queued(each, _expected(memory, each.text, costs(each.to))) for each in tasks]
    return sorted(queue, key=lambda each: (each.turn, each.message.at, each.message.id))


def _costs(memory: RunMemory, config: Config, agent: str) -> Mapping[str, float]:
    """What a run of an agent costs by type of task, and under "" of any; empty if that is not known."""
    try:
        if config.pool_of(agent) is None:
            return {}
        runs = memory.brain.episodes.all({"agent": agent, "level": "system"})  # no parts of runs
        counted = [each for each in runs if each.lifeforce is not None]
    except FractalError:
        return {}  # the run of the task says what is wrong
    by_type: dict[str, list[float]] = {}
    for each in sorted(counted, key=lambda each: each.at):
        by_type.setdefault(each.type, []).append(each.lifeforce or 0.0)
    costs = {type: median(each[-LAST:]) for type, each in by_type.items()}
    return {**costs, "": median(chain(*by_type.values()))} if costs else {}


def _expected(memory: RunMemory, task: str, costs: Mapping[str, float]) -> float | None:
    if not costs:
        return None
    with suppress(FractalError):  # the embedder cannot be loaded
        return costs.get(memory.brain.kinds.of(task)[0], costs[""])
    return costs[""]
