"""Score: the memories that are due are reviewed, so that it is known how well each is remembered."""

from __future__ import annotations

from runtime.memory.dream.cluster import short
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.semantic.links import edges_of
from runtime.memory.semantic.records import Memory
from runtime.memory.semantic.review import due, review

BATCH = 500


def score(dream: Dream) -> Told:
    """Review what is due, and nothing else."""
    wanted = [
        each for each in dream.shelf.scan(Memory, {"superseded": "", "until": ""}) if due(each, dream.now)
    ]
    counts = {"due": len(wanted), "again": 0, "hard": 0, "good": 0, "easy": 0, "lapsed": 0}
    did: list[str] = []
    for start in range(0, len(wanted), BATCH):
        some = wanted[start : start + BATCH]
        edges = edges_of(dream.shelf, [each.id for each in some])
        for memory in some:
            against = any(
                edge.relation in ("contradicts", "supersedes")
                and edge.target == memory.id
                and not edge.invalidated
                for edge in edges[memory.id]
            )
            found = review(memory, dream.now, contradicted=against)
            counts[found.grade] += 1
            counts["lapsed"] += found.lapsed
            if found.lapsed:
                did.append(f"“{short(memory.text)}” is hardly known any more")
            dream.shelf.put(found.memory)
    return Told(did, counts)
