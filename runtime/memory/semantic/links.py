"""Edges of memories, found from either end without looking at all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from runtime.memory.semantic.records import Edge, Links, Relation
from runtime.store import Shelf

FULL = 64
"""Edges in one record: a memory with thousands is not written anew for each."""


def edge_id(source: str, relation: str, target: str) -> str:
    """The same for the same two ends and relation: an edge is there once."""
    return hashlib.sha256(f"{source}\0{relation}\0{target}".encode()).hexdigest()[:24]


def link(
    shelf: Shelf,
    source: str,
    target: str,
    relation: Relation = "related",
    *,
    text: str = "",
    weight: float = 0.5,
    at: str = "",
    source_at: str = "",
    target_at: str = "",
) -> Edge:
    """The edge from `source` to `target`, made where it is not there; one that is there stays as it is."""
    id = edge_id(source, relation, target)
    with shelf.transaction():
        if (known := shelf.get(Edge, id)) is not None:
            return known
        edge = Edge(
            id=id,
            text=text,
            source=source,
            target=target,
            relation=relation,
            weight=weight,
            at=at,
            source_at=source_at,
            target_at=target_at,
        )
        shelf.put(edge)
        enter(shelf, edge)
    return edge


def enter(shelf: Shelf, edge: Edge) -> None:
    """Make an edge that was put on the shelf known at both of its ends."""
    for end in dict.fromkeys((edge.source, edge.target)):
        links = shelf.get(Links, end) or Links(id=end)
        if edge.id in links.edges:
            continue
        if len(links.edges) >= FULL:
            shelf.put(Links(id=f"{end}~{links.full}", edges=links.edges))
            links = Links(id=end, full=links.full + 1)
        shelf.put(links.model_copy(update={"edges": (*links.edges, edge.id)}))


def edges_of(shelf: Shelf, ids: Iterable[str]) -> dict[str, list[Edge]]:
    """The edges of each of these memories, whichever end it is; an edge between two of them is in both."""
    ends = list(dict.fromkeys(ids))
    heads = {links.id: links for links in shelf.pick(Links, ends)}
    behind = [f"{id}~{n}" for id, links in heads.items() for n in range(links.full)]
    full = {links.id: links for links in shelf.pick(Links, behind)}
    wanted = {
        id: [
            *(edge for n in range(heads[id].full) if f"{id}~{n}" in full for edge in full[f"{id}~{n}"].edges),
            *heads[id].edges,
        ]
        for id in heads
    }
    every = dict.fromkeys(edge for edges in wanted.values() for edge in edges)
    found = {edge.id: edge for edge in shelf.pick(Edge, every)}
    return {id: [found[edge] for edge in dict.fromkeys(wanted.get(id, ())) if edge in found] for id in ends}


def degrees(shelf: Shelf, ids: Iterable[str]) -> dict[str, int]:
    """How many edges that hold each of these memories has."""
    return {id: sum(not edge.invalidated for edge in edges) for id, edges in edges_of(shelf, ids).items()}


def unlink(shelf: Shelf, *ids: str) -> int:
    """Take edges away; returns how many were there."""
    return shelf.delete(Edge, *ids)


def relink(shelf: Shelf) -> int:
    """Make the lists of edges anew from the edges themselves; returns how many edges there are."""
    lists: dict[str, list[str]] = {}
    with shelf.transaction():
        for edge in shelf.scan(Edge):
            for end in dict.fromkeys((edge.source, edge.target)):
                lists.setdefault(end, []).append(edge.id)
        shelf.delete(Links, *[links.id for links in shelf.scan(Links)])
        for end, edges in lists.items():
            parts = [tuple(edges[start : start + FULL]) for start in range(0, len(edges), FULL)]
            shelf.put(*(Links(id=f"{end}~{n}", edges=part) for n, part in enumerate(parts[:-1])))
            shelf.put(Links(id=end, edges=parts[-1], full=len(parts) - 1))
    return shelf.count(Edge)
