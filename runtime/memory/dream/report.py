"""Report: what the dream did, how well what is known hangs together, and whether anything still surprises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from runtime.memory.dream.stages import Dream, DreamRecord, StageRecord, StageResult
from runtime.memory.facts.health import SELF, Connectivity, fiedler, saturation
from runtime.memory.facts.records import Edge, Memory, Observation, stamp
from runtime.memory.store import Record, Shelf
from runtime.text.shown import count

MOVED = 0.05
"""The relative change of the Fiedler value that is a trend."""


class MemoryState(Record):
    """The state of what is known after a dream, by its id."""

    KIND: ClassVar[str] = "standing"

    at: str = ""
    fiedler: float = 0.0
    components: int = 0
    largest: int = 0
    memories: int = 0
    edges: int = 0
    nodes: int = 0  # what retrieval chooses among: memories, and observations that no memory leads to
    observations: int = 0
    saturated: tuple[str, ...] = ()  # agents


def report(dream: Dream) -> StageResult:
    """Describe the state of memory, and store it for the next dream to compare with."""
    shelf = dream.shelf
    memories = {each.id: None for each in shelf.scan(Memory, {"superseded": "", "until": ""})}
    edges = [
        (edge.source, edge.target, edge.weight)
        for edge in shelf.scan(Edge)
        if edge.relation != "contradicts" and edge.source in memories and edge.target in memories
    ]
    graph = fiedler(memories, edges)
    by_agent: dict[str, list[Observation]] = {}
    alone = total = 0
    for observation in shelf.scan(Observation):
        total += 1
        alone += not observation.memory
        if observation.said in SELF:
            by_agent.setdefault(observation.agent, []).append(observation)
    before = max(shelf.scan(MemoryState), key=lambda each: (each.at, each.id), default=None)
    standing = MemoryState(
        id=dream.id,
        at=stamp(dream.now),
        fiedler=round(graph.fiedler, 6),
        components=graph.components,
        largest=graph.largest,
        memories=len(memories),
        edges=len(edges),
        nodes=len(memories) + alone,
        observations=total,
        saturated=tuple(
            agent for agent in sorted(by_agent) if saturation(by_agent[agent], dream.now).saturated
        ),
    )
    shelf.put(standing)
    record = shelf.get(DreamRecord, dream.id)
    did = _narrative(standing, before, graph, record.stages if record else {})
    counts = {
        name: getattr(standing, name) for name in ("fiedler", "components", "memories", "edges", "nodes")
    }
    return StageResult(did, {**counts, "saturated": len(standing.saturated)}, "extractive")


def trend(now: MemoryState, before: MemoryState | None) -> str:
    """Whether what is known hangs together better than after the dream before."""
    if before is None or not before.memories:
        return "unknown"
    if now.components > before.components and now.largest < before.largest:
        return "falling"
    change = now.fiedler - before.fiedler
    if abs(change) <= MOVED * max(before.fiedler, 1e-9):
        return "flat"
    return "rising" if change > 0 else "falling"


def _narrative(
    now: MemoryState, before: MemoryState | None, graph: Connectivity, stages: Mapping[str, StageRecord]
) -> Sequence[str]:
    """The dream in a few lines."""
    lines = [_done(stages)] if stages else []
    moved = trend(now, before)
    lines.append(
        f"{count(now.observations, 'observation')} found through {count(now.nodes, 'node')}; "
        f"{count(now.memories, 'memory', 'memories')} with {count(now.edges, 'edge')}."
    )
    if graph.largest > 1:
        pieces = "in one piece" if graph.components <= 1 else f"in the largest of {graph.components:,} pieces"
        shown = "" if moved == "unknown" else f", {moved}"
        lines.append(
            f"{graph.largest:,} of {graph.nodes:,} memories hang together, {pieces}; "
            f"Fiedler value {now.fiedler:.4f}{shown}."
        )
    elif graph.nodes:
        lines.append("No memory is connected to another yet.")
    if moved == "falling":
        lines.append(
            "What is known is falling apart: connect what belongs together, or check what was dropped."
        )
    for agent in now.saturated:
        lines.append(f"Nothing surprises {agent} about itself any more: challenge what it believes.")
    return lines


def happened(shelf: Shelf, dream: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a dream: their names, and details."""
    record = shelf.get(DreamRecord, dream)
    if record is None:
        return []
    named = (
        ("OrganismMitosis", "mitosis"),
        ("OrganismFusion", "fusion"),
        ("OrganismEdgeFormed", "connect"),
    )
    stages = ((name, record.stages.get(stage)) for name, stage in named)
    events: list[tuple[str, dict[str, Any]]] = [
        (name, {"did": list(each.did)}) for name, each in stages if each and each.changed
    ]
    changed = sum(each.changed for each in record.stages.values())
    return [*events, ("DreamCycleCompleted", {"stages": len(record.stages), "changed": changed})]


_SUMMARY = {
    "cluster": ("clustered", "observation", "observations", "added to known memories"),
    "refine": ("refined", "memory", "memories", "reworded"),
    "create": ("made", "memory", "memories", "made"),
    "supersede": ("superseded", "memory", "memories", "superseded"),
    "connect": ("connected", "edge", "edges", "found"),
    "score": ("due", "memory", "memories", "reviewed"),
    "abstract": ("made", "memory", "memories", "made of what others have in common"),
    "decay": ("dropped", "edge", "edges", "dropped"),
}
"""By stage: the count, its noun, and what was done."""


def _done(stages: Mapping[str, StageRecord]) -> str:
    parts = [
        f"{count(int(stages[name].counts[key]), one, many)} {done}"
        for name, (key, one, many, done) in _SUMMARY.items()
        if name in stages and stages[name].counts.get(key, 0)
    ]
    return f"{'; '.join(parts)}." if parts else "There was nothing to do."
