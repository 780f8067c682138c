"""Decay: edges that say little grow weaker with time, and those that are as good as nothing go.

What contradicts, supersedes or was derived stays as strong as it was; what was invalidated stays as it is.
"""

from __future__ import annotations

from typing import ClassVar

from runtime.memory.dream.stage import Dream, Told
from runtime.memory.semantic.dates import days_between, stamp
from runtime.memory.semantic.links import unlink
from runtime.memory.semantic.records import Edge
from runtime.store import Record

HALF = {"related": 90.0, "mentions": 180.0, "follows": 180.0}
"""Days after which half of the weight is left, by relation; of others all is."""
EVERY = 7.0
"""Days between two decays: edges are not written anew every night."""
LEAST = 0.05
"""The weight below which an edge goes."""


class Decayed(Record):
    """When edges grew weaker last; one record, `edges`."""

    KIND: ClassVar[str] = "decayed"

    at: str = ""


def decay(dream: Dream) -> Told:
    """Let a week or more go by for all edges."""
    shelf, now = dream.shelf, stamp(dream.now)
    last = shelf.get(Decayed, "edges")
    if last is not None and 0 <= days_between(last.at, now) < EVERY:
        return Told(counts={"weaker": 0, "dropped": 0})
    weaker: list[Edge] = []
    gone: list[str] = []
    for edge in shelf.scan(Edge):
        if edge.invalidated or edge.relation not in HALF or not edge.at:
            continue
        since = max(edge.at, last.at) if last else edge.at
        days = days_between(since, now)
        if days <= 0:
            continue
        weight = edge.weight * 0.5 ** (days / HALF[edge.relation])
        if weight < LEAST:
            gone.append(edge.id)
        else:
            weaker.append(edge.model_copy(update={"weight": round(weight, 6)}))
    if weaker or gone:
        shelf.put(*weaker, Decayed(id="edges", at=now))
    unlink(shelf, *gone)
    return Told(counts={"weaker": len(weaker), "dropped": len(gone)})
