"""Goals: states that are wished for, and how far what is believed is from them (forward prediction error)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel.errors import UsageError
from runtime.memory.semantic import gate
from runtime.memory.semantic.keeping import digest
from runtime.memory.semantic.records import Goal
from runtime.memory.semantic.values import canonical
from runtime.store import Shelf, pack

if TYPE_CHECKING:
    from runtime.embedding import Embedder


def wish(shelf: Shelf, embedder: Embedder, agent: str, text: str, *, priority: float, now: str) -> Goal:
    """The goal with these words, made or open again."""
    if not text.strip():
        raise UsageError("a goal needs some words")
    if not 0 <= priority <= 1:
        raise UsageError(f"priority {priority}: it lies between 0 and 1")
    id = digest(agent, "goal", canonical(text))
    (row,) = embedder.embed([text])
    with shelf.transaction():
        known = shelf.get(Goal, id)
        created = known.created if known else now
        goal = Goal(id=id, text=text, created=created, priority=priority, agent=agent)
        goal = goal.model_copy(update={"vectors": {embedder.name: pack(row)}})
        shelf.put(goal)
    return goal


def reach(shelf: Shelf, id: str, now: str) -> Goal:
    """A goal that is so now; it keeps the time at which it first was."""
    with shelf.transaction():
        goal = shelf.get(Goal, id)
        if goal is None:
            raise UsageError(f"there is no goal {id}")
        goal = goal.model_copy(update={"reached": goal.reached or now})
        shelf.put(goal)
    return goal


def goals(shelf: Shelf, agent: str, *, past: bool) -> list[Goal]:
    """An agent's goals, the most important first."""
    where: dict[str, Any] = {"agent": agent} if past else {"agent": agent, "reached": ""}
    return sorted(shelf.scan(Goal, where), key=lambda goal: (-goal.priority, goal.created, goal.id))


def gap(shelf: Shelf, embedder: str, goal: Goal) -> float:
    """Forward prediction error: 1 − the similarity of the nearest memory; 1 where nothing is believed."""
    vector = (shelf.get(Goal, goal.id) or goal).vector(embedder)
    if vector is None:
        return 1.0
    near = gate.nearest(shelf, embedder, vector, agent=goal.agent, limit=1)
    return min(1.0, max(0.0, 1.0 - near[0][1])) if near else 1.0
