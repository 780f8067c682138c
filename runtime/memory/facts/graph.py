"""Memories and the edges between them: creating, merging, linking, and settling contradictions.

Ids are the same for the same content. Every function works in one transaction of the shelf, so that two
processes at once come to the same result. Nothing is erased: a superseded memory says until when it held, and
by what it was replaced; opinions of two people stand beside each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from runtime.memory.facts.agreement import canonical
from runtime.memory.facts.language import Language
from runtime.memory.facts.records import DEFAULT, Edge, Links, Memory, Observation, Relation
from runtime.memory.facts.terms import terms_of
from runtime.memory.store import Shelf

FIRST = 0.5
"""Confidence in a memory that nobody stated as a fact."""
TOLD = 0.8
"""Confidence in what a person asked to remember."""
MORE = 0.3
"""The share of the remaining doubt that each further piece of evidence removes."""
FULL = 64
"""Edges in one record of links, so that a memory with thousands is not rewritten for each."""
CONTRADICTS = 0.9
"""The weight of an edge between two memories that contradict each other."""
_I = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)


def digest(*parts: str) -> str:
    """A short id for some texts."""
    raw = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:24]


def memory_id(text: str, who: str = "", agent: str = DEFAULT) -> str:
    """The same for the same words and values; who said it matters if it speaks of `I`."""
    return digest(agent, who.casefold() if _I.search(text) else "", canonical(text))


def create(shelf: Shelf, observation: Observation, now: str, since: str = "", until: str = "") -> Memory:
    """The memory that says what an observation says: a new one, or a known one with this evidence.

    It holds from `since`, by default when it was said. What is said again after it was superseded becomes a
    memory of its own.
    """
    first = id = memory_id(observation.text, observation.who, observation.agent)
    with shelf.transaction():
        count = 1
        while (known := shelf.get(Memory, id)) is not None:
            if observation.id in known.evidence:
                return known
            if not known.until or (observation.at and observation.at < known.until):
                return merge(shelf, [observation], known, now)
            count += 1
            id = f"{first}~{count}"
        memory = Memory(
            id=id,
            text=observation.text,
            who=observation.who,
            names=observation.names,
            vectors=observation.vectors,
            evidence=(observation.id,),
            since=since or observation.at,
            until=until,
            created=now,
            changed=now,
            salience=observation.salience,
            confidence=FIRST,
            source=observation.source,
            agent=observation.agent,
        )
        shelf.put(memory, observation.model_copy(update={"memory": id}))
    return memory


def merge(
    shelf: Shelf, observations: Iterable[Observation], memory: Memory, now: str, *, unread: bool = False
) -> Memory:
    """The memory with observations as evidence; the same ones again change nothing.

    With `unread` its wording is to be made anew from them, by a dream.
    """
    with shelf.transaction():
        known = shelf.get(Memory, memory.id) or memory
        new = [each for each in observations if each.id not in known.evidence]
        if not new:
            return known
        dated = {each.id: each.at for each in (*shelf.pick(Observation, known.evidence), *new)}
        evidence = dict.fromkeys((*known.evidence, *dated))
        merged = known.model_copy(
            update={
                "evidence": tuple(sorted(evidence, key=lambda id: (dated.get(id, ""), id))),
                "unread": tuple(dict.fromkeys((*known.unread, *(each.id for each in new if unread)))),
                "names": tuple(dict.fromkeys((*known.names, *(name for each in new for name in each.names)))),
                "since": min(filter(None, (known.since, *(each.at for each in new))), default=""),
                "salience": max(known.salience, *(each.salience for each in new)),
                "confidence": round(1 - (1 - known.confidence) * (1 - MORE) ** len(new), 6),
                "changed": now,
            }
        )
        shelf.put(merged, *(each.model_copy(update={"memory": known.id}) for each in new))
    return merged


def edge_id(source: str, relation: str, target: str) -> str:
    """The same for the same two ends and relation."""
    return digest(source, relation, target)


def link(shelf: Shelf, source: str, target: str, relation: Relation = "related", **fields: Any) -> Edge:
    """The edge from `source` to `target`; one that exists stays as it is. `fields` are those of `Edge`."""
    id = edge_id(source, relation, target)
    with shelf.transaction():
        if (known := shelf.get(Edge, id)) is not None:
            return known
        edge = Edge(id=id, source=source, target=target, relation=relation, **fields)
        shelf.put(edge)
        enter(shelf, edge)
    return edge


def enter(shelf: Shelf, edge: Edge) -> None:
    """Add a stored edge to the lists of both its ends."""
    for end in dict.fromkeys((edge.source, edge.target)):
        links = shelf.get(Links, end) or Links(id=end)
        if edge.id in links.edges:
            continue
        if len(links.edges) >= FULL:
            shelf.put(Links(id=f"{end}~{links.full}", edges=links.edges))
            links = Links(id=end, full=links.full + 1)
        shelf.put(links.model_copy(update={"edges": (*links.edges, edge.id)}))


def edges_of(shelf: Shelf, ids: Collection[str]) -> dict[str, list[Edge]]:
    """The edges of each of these memories, in either direction, oldest first."""
    heads = {links.id: links for links in shelf.pick(Links, dict.fromkeys(ids))}
    full = {id: [f"{id}~{number}" for number in range(links.full)] for id, links in heads.items()}
    lists = heads | {links.id: links for links in shelf.pick(Links, chain.from_iterable(full.values()))}
    wanted: dict[str, dict[str, None]] = {id: {} for id in ids}
    for id, parts in full.items():
        for part in (*parts, id):
            wanted[id] |= dict.fromkeys(lists[part].edges if part in lists else ())
    found = {edge.id: edge for edge in shelf.pick(Edge, {*chain.from_iterable(wanted.values())})}
    return {id: [found[edge] for edge in edges if edge in found] for id, edges in wanted.items()}


def degrees(shelf: Shelf, ids: Collection[str]) -> dict[str, int]:
    """How many valid edges each of these memories has."""
    return {id: sum(not edge.invalidated for edge in edges) for id, edges in edges_of(shelf, ids).items()}


@dataclass(frozen=True)
class Settled:
    """The outcome of a contradiction."""

    edge: Edge
    past: Memory | None = None  # what was superseded; None if both stand
    holds: Memory | None = None  # by what


def settle(shelf: Shelf, a: Memory, b: Memory, why: str, language: Language, now: str) -> Settled:
    """Record a contradiction between two stored memories, and let the later one supersede the earlier.

    If neither is later, or they are opinions of two people, both stand. Repeating it changes nothing.
    """
    with shelf.transaction():
        one, other = shelf.get(Memory, a.id) or a, shelf.get(Memory, b.id) or b
        at = {each.id: told_last(shelf, each) for each in (one, other)}
        if at[one.id] < at[other.id]:
            one, other = other, one  # one is the later
        edge = _against(shelf, "contradicts", one, other, why, at, now)
        dated = bool(at[other.id]) and at[one.id] > at[other.id]
        over = other.ended(at[one.id]) or one.until
        if not dated or over or _opinions(one, other, language):
            return Settled(edge)
        past = other.model_copy(
            update={"superseded": one.id, "until": max(one.since, at[other.id]), "changed": now}
        )
        shelf.put(past)
        _against(shelf, "supersedes", one, other, why, at, now)
        return Settled(edge, past, one)


def restore(shelf: Shelf, memory: Memory, now: str) -> None:
    """Let a superseded memory hold again; the edges that ended it are kept as invalid."""
    with shelf.transaction():
        for relation in ("contradicts", "supersedes"):
            edge = shelf.get(Edge, edge_id(memory.superseded, relation, memory.id))
            if edge is not None:
                shelf.put(edge.model_copy(update={"invalidated": f"judged anew {now[:10]}"}))
        shelf.put(memory.model_copy(update={"superseded": "", "until": "", "changed": now, "judged": now}))


def told_last(shelf: Shelf, memory: Memory) -> str:
    """When a memory was told last, or from when it holds if that is later: the order of contradictions."""
    last = shelf.pick(Observation, memory.evidence[-1:])
    return max((memory.since, *(each.at for each in last)))


def _opinions(a: Memory, b: Memory, language: Language) -> bool:
    """Whether two memories are only what two people think."""
    if not a.who or not b.who or a.who.casefold() == b.who.casefold():
        return False
    keys = {term.key for each in (a, b) for term in terms_of(each.text, language, each.who).terms}
    return bool(keys & language.opinions)


def _against(
    shelf: Shelf,
    relation: Relation,
    later: Memory,
    earlier: Memory,
    why: str,
    at: dict[str, str],
    now: str,
) -> Edge:
    if (known := shelf.get(Edge, edge_id(earlier.id, relation, later.id))) is not None:
        return known
    return link(
        shelf,
        later.id,
        earlier.id,
        relation,
        text=f"“{later.text[:200]}” against “{earlier.text[:200]}”: {why}",
        weight=CONTRADICTS,
        at=now,
        source_at=at[later.id],
        target_at=at[earlier.id],
    )
