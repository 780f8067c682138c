"""What contradicts what is known: an edge with evidence, both sides dated; the later one supersedes.

Nothing is erased: what is past says until when it was so, and by what it was replaced. Two people's opinions
stand beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.memory.semantic.language import Language
from runtime.memory.semantic.links import edge_id, enter
from runtime.memory.semantic.records import Edge, Memory, Observation
from runtime.memory.semantic.terms import terms_of
from runtime.memory.semantic.values import Agreement, Said, agreement
from runtime.store import Shelf

WEIGHT = 0.9
"""Of an edge that says that two memories contradict each other."""


@dataclass(frozen=True)
class Settled:
    """What became of a contradiction."""

    edge: Edge
    past: Memory | None = None  # what was superseded; None where both stand
    holds: Memory | None = None  # by what


def contradicts(a: Memory, b: Memory, language: Language) -> Agreement | None:
    """Why two memories cannot both hold at a time; None where they can."""
    if a.id == b.id or a.agent != b.agent:
        return None
    found = agreement(Said(a.text, a.who, a.since), Said(b.text, b.who, b.since), language)
    return found if found.verdict == "contrary" else None


def opinions(a: Memory, b: Memory, language: Language) -> bool:
    """Whether two memories are what two people think, and no more."""
    if not a.who or not b.who or a.who.casefold() == b.who.casefold():
        return False
    keys = {term.key for each in (a, b) for term in terms_of(each.text, language, each.who).terms}
    return bool(keys & language.opinions)


def said_last(shelf: Shelf, memory: Memory) -> str:
    """When a memory was last told."""
    told = shelf.pick(Observation, memory.evidence[-1:])
    return max((each.at for each in told), default=memory.since) or memory.since


def settle(shelf: Shelf, a: Memory, b: Memory, found: Agreement, language: Language, now: str) -> Settled:
    """Keep a contradiction between two memories that are on the shelf, and let the later one supersede.

    Where neither is later, or both are opinions of two people, both stand. The same again changes nothing.
    """
    with shelf.transaction():
        one, other = shelf.get(Memory, a.id) or a, shelf.get(Memory, b.id) or b
        ends = {one.id: said_last(shelf, one), other.id: said_last(shelf, other)}
        if ends[one.id] < ends[other.id]:
            one, other = other, one  # one is the later
        edge = _edge(shelf, "contradicts", one, other, found, ends, now)
        dated = bool(ends[other.id]) and ends[one.id] > ends[other.id]
        gone = other.superseded or other.until or one.superseded or one.until
        if not dated or gone or opinions(one, other, language):
            return Settled(edge)
        past = other.model_copy(
            update={"superseded": one.id, "until": max(one.since, ends[other.id]), "changed": now}
        )
        shelf.put(past)
        _edge(shelf, "supersedes", one, other, found, ends, now)
        return Settled(edge, past, one)


def _edge(
    shelf: Shelf,
    relation: str,
    later: Memory,
    earlier: Memory,
    found: Agreement,
    at: dict[str, str],
    now: str,
) -> Edge:
    id = edge_id(later.id, relation, earlier.id)
    known = shelf.get(Edge, id) or shelf.get(Edge, edge_id(earlier.id, relation, later.id))
    if known is not None:
        return known
    edge = Edge(
        id=id,
        text=f"“{later.text[:200]}” against “{earlier.text[:200]}”: {found.why}",
        source=later.id,
        target=earlier.id,
        relation="supersedes" if relation == "supersedes" else "contradicts",
        weight=WEIGHT,
        at=now,
        source_at=at[later.id],
        target_at=at[earlier.id],
    )
    shelf.put(edge)
    enter(shelf, edge)
    return edge
