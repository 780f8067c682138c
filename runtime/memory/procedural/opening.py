"""What a gate is opened by without reading every member: the words of each type, and the spread of all.

Kept on the shelf from `WORTH` members on, in the transaction that changes them; a smaller gate is made anew
faster than it is read. The members of a type are read when it is the nearest, or learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from runtime.memory.procedural.gate import ALL, Gate, Spread, Without
from runtime.store import Record, Shelf, pack

WORTH = 500
"""Members of all types from which on it is quicker to read what is kept."""


class TypeWords(Record):
    """The words of a problem type's members, by its id, each with how many of them have it."""

    KIND: ClassVar[str] = "type-words"

    members: int = 0
    words: dict[str, int] = Field(default_factory=dict[str, int])


class KeptSpread(Record):
    """The spread of all members, by the embedder that sees them: `vectors` holds its matrices."""

    KIND: ClassVar[str] = "type-spread"

    size: int
    fitted: int


def opened(
    shelf: Shelf, name: str, ids: Sequence[str], centres: Sequence[Any], without: Without
) -> Gate | None:
    """The gate over these types as it was kept; None where something of it was not."""
    if without != ALL:
        return None
    kept = shelf.get(KeptSpread, name)
    if kept is None or any(each is None for each in centres):
        return None
    told = shelf.fields(TypeWords, ids, ("words", "members"))
    spread = _spread(kept)
    if spread is None or len(told) < len(ids):
        return None
    gate = Gate(kept.size)
    gate.open(centres, [told[id]["words"] for id in ids], [told[id]["members"] for id in ids], spread)
    return gate


def keep(shelf: Shelf, name: str, gate: Gate, ids: Mapping[int, str]) -> bool:
    """Keep the words of these types and the spread, where that is worth while; returns whether it is."""
    if gate.members < WORTH or gate.spread is None or gate.without != ALL:
        return False
    kept = shelf.get(KeptSpread, name)
    spread = gate.spread
    if kept is None or kept.fitted != spread.fitted:
        matrices = {"middle": spread.middle, "inside": spread.inside, "outside": spread.outside}
        vectors = {key: pack(each.reshape(-1)) for key, each in matrices.items()}
        shelf.put(KeptSpread(id=name, size=gate.size, fitted=spread.fitted, vectors=vectors))
    shelf.put(
        *(TypeWords(id=id, members=gate.count(place), words=gate.words(place)) for place, id in ids.items())
    )
    return True


def forget(shelf: Shelf) -> None:
    """What was kept of members that are gone goes too; the next gate is made of those that are left."""
    for kind in (TypeWords, KeptSpread):
        shelf.delete(kind, *(row.id for row in shelf.rows(kind.KIND)))


def _spread(kept: KeptSpread) -> Spread | None:
    found = [kept.vector(key) for key in ("middle", "inside", "outside")]
    size = kept.size
    if [None if each is None else len(each) for each in found] != [size, size * size, size * size]:
        return None
    middle, inside, outside = (each.astype(float) for each in found if each is not None)
    return Spread(middle, inside.reshape(size, size), outside.reshape(size, size), kept.fitted)
