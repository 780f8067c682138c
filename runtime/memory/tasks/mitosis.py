"""Mitosis: splits a problem type that is large and incoherent in two.

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
ROUNDS = 25
"""Of k-means."""


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
    """The cluster, 0 or 1, of each unit row, by 2-means from two distant rows."""
    far = rows[np.argmin(rows @ rows[0])]
    centres = np.array([far, rows[np.argmin(rows @ far)]])
    sides = np.zeros(len(rows), int)
    for _ in range(ROUNDS):
        sides = np.argmax(rows @ centres.T, axis=1)
        if sides.all() or not sides.any():
            break
        means = [rows[sides == side].mean(axis=0) for side in (0, 1)]
        centres = np.array([mean / max(float(np.linalg.norm(mean)), 1e-12) for mean in means])
    return sides


def split(shelf: Shelf, embedder: str, neurons: Mapping[str, int], at: str) -> list[Split]:
    """Split every type that needs it; `neurons` is the number of neurons of each type."""
    found: list[Split] = []
    wanted = [type for type, count in sorted(neurons.items()) if type and count > NEURONS]
    members: dict[str, list[Member]] = {type: [] for type in wanted}
    for each in shelf.scan(Member) if wanted else ():
        if each.type in members and embedder in each.vectors:
            members[each.type].append(each)
    for of in shelf.pick(ProblemType, wanted):
        if of.origin != "archived" and (made := _split(shelf, embedder, of, members[of.id], at)):
            found.append(made)
    if found:
        shelf.put(Stamp.another())
    return found


def _split(shelf: Shelf, embedder: str, of: ProblemType, members: Sequence[Member], at: str) -> Split | None:
    if len(members) < 2 * SMALLEST:
        return None
    rows = np.array([each.vector(embedder) for each in members])
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    if coherence(unit) >= COHERENCE:
        return None
    sides = halves(unit)
    side = int(sides.sum() * 2 <= len(members))  # the smaller one goes
    if (sides == side).sum() < SMALLEST:
        return None
    goes = [each for each, at_side in zip(members, sides, strict=True) if at_side == side]
    middle = rows[sides == side].mean(axis=0)
    central = (rows[sides == side] @ middle).argmax()
    name = goes[int(central)].text
    id = f"type-{digest(f'{of.id}/{name}')}"
    if shelf.get(ProblemType, id) is not None:
        return None
    share = len(goes) / len(members)
    made = ProblemType(
        id=id,
        text=name[:80],
        scope=of.scope,
        members=round(of.members * share),
        created=at,
        updated=at,
        vectors={embedder: pack(middle)},
    )
    stays = rows[sides != side].mean(axis=0)
    vectors = {**of.vectors, embedder: pack(stays)}
    left = of.model_copy(update={"members": of.members - made.members, "updated": at, "vectors": vectors})
    shelf.put(left, made)
    shelf.delete(Member, *(each.id for each in goes))
    for each in goes:
        shelf.put(each.model_copy(update={"id": f"{id}/{each.id.rpartition('/')[2]}", "type": id}))
    return Split(of.id, id, (len(members) - len(goes), len(goes)), tuple(each.text for each in goes))
