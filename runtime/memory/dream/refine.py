"""Refine: a memory is worded anew from its evidence; edges that it no longer bears out weigh less."""

from __future__ import annotations

from runtime.memory.dream.cluster import short
from runtime.memory.dream.gist import keywords
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import Work
from runtime.memory.semantic.links import edges_of
from runtime.memory.semantic.records import Edge, Memory, Observation

EDGES = 5
"""Edges of a memory that are looked at again."""
WEAKER = 0.3
"""What is left of the weight of an edge that no longer holds."""
GENERIC = ("related", "follows", "derived")
"""Relations that say nothing which a wording could take back."""


def refine(dream: Dream) -> Told:
    """Word anew what has evidence that its wording does not tell yet."""
    work = Work(dream)
    stale = [each for each in work.shelf.scan(Memory) if each.unread]
    stale.sort(key=lambda each: (-each.salience, each.id))
    counts = {"refined": 0, "as before": 0, "edges looked at": 0, "invalidated": 0}
    did: list[str] = []
    for memory in stale:
        evidence = work.shelf.pick(Observation, memory.evidence)
        text = work.wording(evidence, memory.text) if evidence else memory.text
        counts["as before" if text == memory.text else "refined"] += 1
        new = memory.model_copy(update={"text": text, "unread": (), "changed": work.now})
        if evidence:
            new = work.placed(new, evidence)
        work.shelf.put(new)
        if text != memory.text and not dream.waits():
            did.append(f"“{short(memory.text)}” is now “{short(text)}”")
            looked, lost = _look_again(work, new, did)
            counts["edges looked at"] += looked
            counts["invalidated"] += lost
    counts["refused"] = len(work.refused)
    return Told([*did, *work.refused], counts, work.form)


def _look_again(work: Work, memory: Memory, did: list[str]) -> tuple[int, int]:
    """How many edges of a memory were looked at, and how many of them no longer hold."""
    edges = [
        edge
        for edge in edges_of(work.shelf, [memory.id])[memory.id]
        if edge.relation not in GENERIC and not edge.invalidated
    ]
    edges.sort(key=lambda edge: (-edge.weight, edge.id))
    lost = 0
    for edge in edges[:EDGES]:
        other = work.shelf.get(Memory, edge.target if edge.source == memory.id else edge.source)
        if other is None or not (why := _broken(work, memory, other, edge)):
            continue
        lost += 1
        did.append(f"“{short(memory.text)}” {edge.relation} “{short(other.text)}” no longer: {why}")
        work.shelf.put(
            edge.model_copy(
                update={"weight": round(edge.weight * WEAKER, 6), "invalidated": f"{why} ({work.now})"}
            )
        )
    return min(len(edges), EDGES), lost


def _broken(work: Work, memory: Memory, other: Memory, edge: Edge) -> str:
    """Why an edge no longer holds; "" while it does. Without a model: the two have no word in common."""
    if work.dream.ask is not None and work.asks():
        slots = {
            "relation": edge.relation,
            "one": memory.text,
            "other": other.text,
            "evidence": edge.text or "none",
        }
        told = work.answer("edge", slots)
        if isinstance(told.get("holds"), bool):
            work.form = "model"
            return "" if told["holds"] else short(str(told.get("why", ""))) or "a model says so"
    if keywords(memory.text, work.empty) & keywords(other.text, work.empty):
        return ""
    return "no word in common"
