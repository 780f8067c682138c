"""Report: what the dream did, how well what is known hangs together, and whether anything surprises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from kernel.text import amount
from runtime.memory.dream.record import Done, Dreamt
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.semantic.dates import stamp
from runtime.memory.semantic.graph import Connectivity, fiedler
from runtime.memory.semantic.records import Edge, Memory, Observation
from runtime.memory.semantic.saturation import saturation
from runtime.store import Record

MOVED = 0.05
"""How far, by part, the Fiedler value moves before that is a trend."""


class Standing(Record):
    """How what is known stood after a dream, by its id."""

    KIND: ClassVar[str] = "standing"

    at: str = ""
    fiedler: float = 0.0
    components: int = 0
    largest: int = 0
    memories: int = 0
    edges: int = 0
    nodes: int = 0  # what retrieval looks at: memories, and observations that no memory leads to
    observations: int = 0
    saturated: tuple[str, ...] = ()  # agents


def report(dream: Dream) -> Told:
    """Tell how things stand, and keep it for the next dream to compare with."""
    shelf, now = dream.shelf, stamp(dream.now)
    held = [each.id for each in shelf.scan(Memory, {"superseded": "", "until": ""})]
    there = set(held)
    edges = [
        (edge.source, edge.target, edge.weight)
        for edge in shelf.scan(Edge)
        if edge.relation != "contradicts" and edge.source in there and edge.target in there
    ]
    graph = fiedler(held, edges)
    by_agent: dict[str, list[Observation]] = {}
    alone = total = 0
    for each in shelf.scan(Observation):
        total += 1
        alone += not each.memory
        if each.said in ("identity", "reflection"):
            by_agent.setdefault(each.agent, []).append(each)
    tired = [agent for agent in sorted(by_agent) if saturation(by_agent[agent], dream.now).saturated]
    before = max(shelf.scan(Standing), key=lambda each: (each.at, each.id), default=None)
    standing = Standing(
        id=dream.id,
        at=now,
        fiedler=round(graph.fiedler, 6),
        components=graph.components,
        largest=graph.largest,
        memories=len(held),
        edges=len(edges),
        nodes=len(held) + alone,
        observations=total,
        saturated=tuple(tired),
    )
    shelf.put(standing)
    known = shelf.get(Dreamt, dream.id)
    did = narrative(standing, before, graph, known.stages if known else {})
    counts = {
        name: getattr(standing, name) for name in ("fiedler", "components", "memories", "edges", "nodes")
    }
    return Told(did, {**counts, "saturated": len(tired)}, "extractive")


def trend(now: Standing, before: Standing | None) -> str:
    """Whether what is known hangs together better than after the dream before."""
    if before is None or not before.memories:
        return "unknown"
    if now.components > before.components and now.largest < before.largest:
        return "falling"
    change = now.fiedler - before.fiedler
    if abs(change) <= MOVED * max(before.fiedler, 1e-9):
        return "flat"
    return "rising" if change > 0 else "falling"


def narrative(
    now: Standing, before: Standing | None, graph: Connectivity, stages: Mapping[str, Done]
) -> Sequence[str]:
    """The dream in a few lines."""
    lines = [_done(stages)] if stages else []
    lines.append(
        f"{amount(now.observations, 'observation')} found through {amount(now.nodes, 'node')}; "
        f"{amount(now.memories, 'memory', 'memories')} with {amount(now.edges, 'edge')}."
    )
    if graph.largest > 1:
        part = f"{graph.largest:,} of {graph.nodes:,} memories hang together"
        pieces = "in one piece" if graph.components <= 1 else f"in the largest of {graph.components:,} pieces"
        moved = "" if before is None or not before.memories else f", {trend(now, before)}"
        lines.append(f"{part}, {pieces}; Fiedler value {now.fiedler:.4f}{moved}.")
    elif graph.nodes:
        lines.append("No memory hangs together with another yet.")
    if trend(now, before) == "falling":
        lines.append("What is known falls apart: connect what belongs together, or look at what was dropped.")
    for agent in now.saturated:
        lines.append(
            f"Nothing surprises {agent} about itself any more: somebody should argue with what it holds."
        )
    return lines


_TOLD = {
    "cluster": ("clustered", "observation", "observations", "added to memories that were there"),
    "refine": ("refined", "memory", "memories", "worded anew"),
    "create": ("made", "memory", "memories", "made"),
    "connect": ("connected", "edge", "edges", "found"),
    "score": ("due", "memory", "memories", "reviewed"),
    "abstract": ("made", "memory", "memories", "made of what others have in common"),
    "decay": ("dropped", "edge", "edges", "dropped"),
}


def _done(stages: Mapping[str, Done]) -> str:
    told = [
        f"{amount(int(stages[name].counts[key]), one, many)} {came}"
        for name, (key, one, many, came) in _TOLD.items()
        if name in stages and stages[name].counts.get(key, 0)
    ]
    return f"{'; '.join(told)}." if told else "There was nothing to do."
