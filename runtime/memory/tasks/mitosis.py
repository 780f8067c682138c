"""Mitosis splits a problem type that is large and incoherent in two; fusion joins two that became alike.

Source: seed 000_39bad3da279292ba, "Lifecycle".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime.memory.embed import Array
from runtime.memory.store import Shelf, pack
from runtime.memory.tasks.types import Member, ProblemType, Stamp, digest

NEURONS = 200
COHERENCE = 0.4
SMALLEST = 10
"""A type with more neurons and less coherence is split into clusters of at least `SMALLEST` members.
Source: the seed."""


LIKE = 0.8
"""The cosine of two centroids from which the members of both are compared."""
ALIKE = 0.85
"""Two types are one if their members are as near to each other as to their own, times this. Tasks that differ
in a noun have .87 and more, "count the lines" and "count the words" .67."""
FEWEST = 3
"""Members that a type needs before it is joined with another: fewer say little of a type."""


@dataclass(frozen=True)
class Split:
    """A type that was split."""

    kept: str
    made: str
    sizes: tuple[int, int]
    moved: tuple[str, ...]  # the tasks of the new one


def coherence(rows: Array) -> float:
    """The mean cosine of all pairs of unit rows; 1 for a single row."""
    count, whole = len(rows), rows.sum(axis=0)
    return float((whole @ whole - count) / (count * (count - 1))) if count > 1 else 1.0


def halves(rows: Array) -> Any:
    """The cluster, 0 or 1, of each row: its side along the direction in which rows differ most."""
    centred = rows - rows.mean(axis=0)
    sides = (centred @ np.linalg.svd(centred, full_matrices=False)[2][0] > 0).astype(int)
    return sides ^ sides[0]


def split(shelf: Shelf, embedder: str, neurons: Mapping[str, int], at: str) -> list[Split]:
    """Split every type that needs it; `neurons` is the number of neurons of each type."""
    found: list[Split] = []
    wanted = [type for type, count in sorted(neurons.items()) if type and count > NEURONS]
    for of in shelf.pick(ProblemType, wanted):
        members = [each for each in shelf.scan(Member, {"type": of.id}) if embedder in each.vectors]
        if of.origin != "archived" and (made := _split(shelf, embedder, of, members, at)):
            found.append(made)
    if found:
        shelf.put(Stamp.another())
    return found


def _split(shelf: Shelf, embedder: str, of: ProblemType, members: Sequence[Member], at: str) -> Split | None:
    if len(members) < 2 * SMALLEST:
        return None
    rows = np.array([each.vector(embedder) for each in members])
    unit = _unit(rows)
    if coherence(unit) >= COHERENCE:
        return None
    sides = halves(unit)
    goes = sides == (sides.sum() * 2 <= len(members))  # the smaller one
    if goes.sum() < SMALLEST:
        return None
    leaving = [each for each, is_leaving in zip(members, goes, strict=True) if is_leaving]
    middle = rows[goes].mean(axis=0)
    name = leaving[int((rows[goes] @ middle).argmax())].text
    id = f"type-{digest(f'{of.id}/{name}')}"
    if shelf.get(ProblemType, id) is not None:
        return None
    made = ProblemType(
        id=id,
        text=name[:80],
        scope=of.scope,
        members=round(of.members * len(leaving) / len(members)),
        created=at,
        updated=at,
        vectors={embedder: pack(middle)},
    )
    vectors = {**of.vectors, embedder: pack(rows[~goes].mean(axis=0))}
    left = of.model_copy(update={"members": of.members - made.members, "updated": at, "vectors": vectors})
    moved = [m.model_copy(update={"id": f"{id}/{m.id.rpartition('/')[2]}", "type": id}) for m in leaving]
    shelf.delete(Member, *(each.id for each in leaving))
    shelf.put(left, made, *moved)
    sizes = (len(members) - len(leaving), len(leaving))
    return Split(of.id, id, sizes, tuple(each.text for each in leaving))


@dataclass(frozen=True)
class Fused:
    """A type that became part of another."""

    kept: str
    gone: str
    members: int  # of both


def fuse(shelf: Shelf, embedder: str, at: str) -> list[Fused]:
    """Join every two types that became alike, the nearest first; an explicit one keeps its name."""
    types = [
        each for each in shelf.scan(ProblemType) if each.origin != "archived" and embedder in each.vectors
    ]
    if len(types) < 2:
        return []
    centres = _unit(np.array([each.vector(embedder) for each in types]))
    cosines = np.triu(centres @ centres.T, 1)
    pairs = sorted(zip(*np.nonzero(cosines >= LIKE), strict=True), key=lambda pair: -cosines[pair])
    rows: dict[str, list[Member]] = {}
    found: list[Fused] = []
    joined: set[str] = set()
    for one, other in ((types[x], types[y]) for x, y in pairs):
        if joined & {one.id, other.id} or one.origin == other.origin == "explicit":
            continue
        for each in (one, other):
            if each.id not in rows:
                members = shelf.scan(Member, {"type": each.id})
                rows[each.id] = [member for member in members if embedder in member.vectors]
        if _alike(*(np.array([m.vector(embedder) for m in rows[each.id]]) for each in (one, other))):
            kept, gone = sorted(
                (one, other), key=lambda each: (each.origin != "explicit", -each.members, each.id)
            )
            found.append(_join(shelf, embedder, kept, gone, rows[gone.id], at))
            joined |= {one.id, other.id}
    if found:
        shelf.put(Stamp.another())
    return found


def _alike(one: Array, other: Array) -> bool:
    """Whether members of two types are as near to each other as to their own, and coherent together."""
    if min(len(one), len(other)) < FEWEST:
        return False
    one, other = _unit(one), _unit(other)
    across, within = float((one @ other.T).mean()), (coherence(one) + coherence(other)) / 2
    return across >= ALIKE * within and coherence(np.concatenate([one, other])) >= COHERENCE


def _join(
    shelf: Shelf, embedder: str, kept: ProblemType, gone: ProblemType, leaving: Sequence[Member], at: str
) -> Fused:
    share = gone.members / max(kept.members + gone.members, 1)
    middle = (1 - share) * np.array(kept.vector(embedder)) + share * np.array(gone.vector(embedder))
    changes = {
        "members": kept.members + gone.members,
        "uses": kept.uses + gone.uses,
        "used": max(kept.used, gone.used),
        "temperature": max(kept.temperature, gone.temperature),
        "updated": at,
        "vectors": {**kept.vectors, embedder: pack(middle)},
    }
    moved = [
        m.model_copy(update={"id": f"{kept.id}/{m.id.rpartition('/')[2]}", "type": kept.id}) for m in leaving
    ]
    shelf.delete(Member, *(row.id for row in shelf.rows(Member.KIND, {"type": gone.id})))
    shelf.delete(ProblemType, gone.id)
    shelf.put(kept.model_copy(update=changes), *moved)
    return Fused(kept.id, gone.id, changes["members"])


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
