"""What was told or found out before, and bears on a task: facts, each with who or what it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kernel.errors import FractalError
from runtime.memory.context import Line, flat

if TYPE_CHECKING:
    from runtime.memory.brain import Brain

MOST = 5
LIKE = 0.3
"""How much of a task has to stand in a fact, by words or meaning, for it to bear on it."""
SHARE = 0.05
"""The share of one in all that retrieval finds, from which on it is more than found beside."""
SAID = ("fact", "identity")
"""Of what was observed; what a run came to or why it failed is told by its experience."""


def facts(brain: Brain, task: str) -> list[Line]:
    """The facts that bear on a task, the best first. Raises `FractalError`."""
    from runtime.memory.semantic.mind import Mind
    from runtime.memory.semantic.records import Memory, Observation

    kinds = {each.KIND: each for each in (Memory, Observation)}
    if not kinds.keys() & set(brain.shelf.kinds()):
        return []
    Mind.of(brain).take_in()
    lines: dict[str, Line] = {}
    for kind, id, likeness, why in _hits(brain, task):
        record = brain.shelf.get(kinds[kind], id) if likeness >= LIKE else None
        if record is not None and _holds(record.model_dump()):
            told = f"{why} ({likeness:.2f})"
            lines.setdefault(flat(record.text), Line(record.text, record.source or kind, told))
    return list(lines.values())[:MOST]


def _hits(brain: Brain, task: str) -> Iterator[tuple[str, str, float, str]]:
    """Kind, id, likeness and why, by retrieval; by nearness alone where it has no weights."""
    from runtime.memory.semantic.retrieval.searching import Scope, search

    systems, scope = brain.settings.systems, Scope(keep=_holds)
    try:
        found = search(brain.shelf, brain.embedder, task, 2 * MOST, systems=systems, scope=scope)
    except FractalError:
        yield from _nearest(brain, task)
        return
    for hit in (each for each in found if each.score >= SHARE):
        yield hit.kind, hit.id, hit.likeness, hit.why or "like the task"


def _nearest(brain: Brain, task: str) -> Iterator[tuple[str, str, float, str]]:
    from runtime.memory.semantic.records import Memory, Observation

    (vector,) = brain.embedder.embed([task])
    for kind in (Memory, Observation):
        for hit in brain.shelf.nearest(kind, brain.embedder.name, vector, 2 * MOST):
            yield kind.KIND, hit.id, hit.score, "like the task"


def _holds(fields: Mapping[str, Any]) -> bool:
    """Whether a record is something told that still holds."""
    if fields.get("superseded") or fields.get("until"):
        return False
    return fields.get("said", "fact") in SAID
