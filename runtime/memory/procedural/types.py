"""Problem types (the seed's SubstrateIndex): what kind of task this is, and whether it is one we know.

Every type and a bounded sample of its members lie on the shelf; the gate over them is held in memory and made
anew when another process has taught something.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.embedding import Embedder
from runtime.memory.procedural.parts import ALL, Parts
from runtime.memory.procedural.recognition import (
    TEMPERATURE_DECAY,
    Member,
    Origin,
    ProblemType,
    Recognition,
    Stamp,
    recognition,
)
from runtime.memory.procedural.surprise import SURPRISING
from runtime.store import Shelf, pack
from runtime.store.record import LONGEST_ID

if TYPE_CHECKING:
    from runtime.memory.procedural.gate import Gate, Without

STEP, SURPRISED_STEP = 0.05, 0.25
"""How far a centroid goes towards a familiar task; and, times the surprise, towards one that surprised."""
MEMBERS, ALL_MEMBERS = 100, 20_000
"""Kept of one type, and of all: beyond, each keeps a sample that does not depend on their order."""
LEAST_MEMBERS = 8
ARCHIVED = 2_000
"""Types that are put aside; beyond, the one unused the longest is forgotten."""
TYPES = 2_000
"""In use at once; beyond, the one unused the longest is archived."""


@dataclass(frozen=True)
class Lesson:
    """A task to be learned, with its vector; without a type, the gate decides."""

    task: str
    vector: Any = None
    type: str = ""


class Types:
    """All problem types of one shelf as one embedder sees them."""

    def __init__(
        self, shelf: Shelf, embedder: Embedder, parts: Parts = ALL, without: Without | None = None
    ) -> None:
        self.shelf, self.embedder, self.parts, self.without = shelf, embedder, parts, without
        self._types: list[ProblemType] = []
        self._places: dict[str, int] = {}
        self._kept: dict[str, set[str]] = {}  # ids of members by type, of those that learned here
        self._changed: set[int] = set()  # places of types whose words are not kept as they are
        self._gate: Gate | None = None
        self._stamp = -1
        self._gate_is_old = False

    # ---- asking ------------------------------------------------------------------------------------------

    def recognise(self, task: str, vector: Any = None) -> Recognition:
        """Whether a task is of a type that is known; nothing changes by it."""
        if not self.parts.types:
            return Recognition("novel")
        look = self._ready().look(self._vector(task) if vector is None else vector, task)
        if look is None:
            return Recognition("novel")
        of = self._types[look.place]
        return recognition(of, look.distance)

    def nearest(self, task: str, vector: Any = None) -> tuple[str, float]:
        """The nearest type, however far it is, and its distance; "" and infinity as long as there is none."""
        look = self._ready().look(self._vector(task) if vector is None else vector, task)
        return (self._types[look.place].id, look.distance) if look else ("", math.inf)

    def get(self, id: str) -> ProblemType | None:
        """One type, archived or not."""
        return self.shelf.get(ProblemType, id)

    # ---- learning ----------------------------------------------------------------------------------------

    def learn(self, task: str, vector: Any = None, at: str = "") -> str:
        """A task that was solved is a member of the type it is known as, or the first of an emergent one.

        Returns the type's id; "" when problem types are switched off.
        """
        return self.learn_all([Lesson(task, vector)], at)[0]

    def learn_all(self, lessons: Sequence[Lesson], at: str = "") -> list[str]:
        """Many at once, in one transaction; a type that is named and not there becomes an explicit one."""
        if not self.parts.types:
            return [""] * len(lessons)
        with self._changing():
            ids = [self._learn(each, at) for each in lessons]
            for id in dict.fromkeys(ids):
                self._name(id)
            self._make_room()
        return ids

    def used(self, found: Recognition, task: str, vector: Any = None, at: str = "") -> None:
        """A decision was taken by what was recognised: the type cools; where it was familiar, it moves."""
        if found.type:
            step = STEP if found.kind == "familiar" else 0.0
            with self._changing():
                vector = self._vector(task) if step and vector is None else vector
                self._change(found.type, vector, step, {"used": at, "updated": at}, uses=1)

    def moved(self, type: str, vectors: Mapping[str, bytes], surprise: float) -> None:
        """What came was not expected: the centroid goes to the task, the further the greater the surprise."""
        raw = vectors.get(self.embedder.name)
        if raw is None or surprise <= SURPRISING or not (self.parts.types and self.parts.surprise):
            return
        import numpy as np

        with self._changing():
            self._change(type, np.frombuffer(raw, "<f4"), min(SURPRISED_STEP * surprise, 1.0), {})

    def archive(self, before: str) -> list[str]:
        """Put aside the types that were last used or taught before this time (ISO 8601); returns their ids.

        They stay on the shelf and are recognised no more.
        """
        with self._changing():
            old = [each for each in self._types if max(each.used, each.updated, each.created) < before]
            self._archive(old)
        return [each.id for each in old]

    # ---- inside ------------------------------------------------------------------------------------------

    def _vector(self, task: str) -> Any:
        return self.embedder.embed([task])[0]

    def _ready(self) -> Gate:
        stamp = self.shelf.get(Stamp, "types")
        number = stamp.number if stamp else 0
        if self._gate is None or number != self._stamp:
            self._gate = self._opened()
            self._stamp = number
        return self._gate

    def _opened(self) -> Gate:
        """The gate over what is on the shelf; what has no vector of this embedder gets one."""
        from runtime.memory.procedural import opening
        from runtime.memory.procedural.gate import ALL as WHOLE
        from runtime.memory.procedural.gate import Gate

        self._types = [each for each in self.shelf.scan(ProblemType) if each.origin != "archived"]
        self._places = {each.id: place for place, each in enumerate(self._types)}
        self._changed, self._kept = set(), {}
        without, name = self.without or WHOLE, self.embedder.name
        centres = [each.vector(name) for each in self._types]
        gate = opening.opened(self.shelf, name, list(self._places), centres, without)
        if gate is None:
            gate = self._made(Gate(self.embedder.size, without))
            self._changed = set(range(len(self._types)))
        gate.load = self._loaded
        return gate

    def _made(self, gate: Gate) -> Gate:
        """Of every type and every member."""
        name = self.embedder.name
        members = [each for each in self.shelf.scan(Member) if each.type in self._places]
        self._embed(members)
        grouped: dict[str, list[Any]] = {}
        for each in members:
            grouped.setdefault(each.type, []).append(each.vector(name))
        for place, each in enumerate(self._types):
            centre = each.vector(name)
            if centre is None:
                centre = _mean(grouped.get(each.id) or [self._vector(each.text)])
                self._types[place] = each.model_copy(update={"vectors": {**each.vectors, name: pack(centre)}})
            gate.add_type(centre)
        for each in members:
            gate.add(self._places[each.type], each.vector(name), each.text)
            self._kept.setdefault(each.type, set()).add(each.id)
        return gate

    def _loaded(self, places: Sequence[int]) -> list[list[Any]]:
        """The vectors of the members of these types."""
        ids = [self._types[place].id for place in places]
        where = {"type": ids[0]} if len(ids) == 1 else None
        members = [each for each in self.shelf.scan(Member, where) if each.type in ids]
        self._embed(members)
        found: dict[str, list[Any]] = {id: [] for id in ids}
        for each in members:
            found[each.type].append(each.vector(self.embedder.name))
        return [found[id] for id in ids]

    def _kept_of(self, type: str) -> set[str]:
        """The ids of a type's members."""
        if type not in self._kept:
            self._kept[type] = {row.id for row in self.shelf.rows(Member.KIND, {"type": type})}
        return self._kept[type]

    def _keep_gate(self) -> None:
        """Beside what has changed, what the gate is opened by next time."""
        if self._gate is not None and self._changed:
            from runtime.memory.procedural import opening

            ids = {place: self._types[place].id for place in sorted(self._changed)}
            if opening.keep(self.shelf, self.embedder.name, self._gate, ids):
                self._changed = set()

    def _embed(self, members: list[Member]) -> None:
        name = self.embedder.name
        missing = [at for at, each in enumerate(members) if name not in each.vectors]
        for start in range(0, len(missing), 64):
            some = missing[start : start + 64]
            rows = self.embedder.embed([members[at].text for at in some])
            for at, row in zip(some, rows, strict=True):
                vectors = {**members[at].vectors, name: pack(row)}
                members[at] = members[at].model_copy(update={"vectors": vectors})
            self.shelf.put(*(members[at] for at in some))

    def _changing(self) -> _Changing:
        return _Changing(self)

    def _learn(self, lesson: Lesson, at: str) -> str:
        assert self._gate is not None
        vector = self._vector(lesson.task) if lesson.vector is None else lesson.vector
        id, origin = lesson.type, "explicit"
        if not id:
            look, origin = self._gate.look(vector, lesson.task), "emergent"
            id = recognition(self._types[look.place], look.distance).type if look else ""
        id = id or "type-" + _digest(lesson.task)
        if id not in self._places:
            self._new(id, lesson.task, vector, origin, at)
        place = self._places[id]
        name = f"{id}/{_digest(lesson.task)}"[:LONGEST_ID]
        if name not in self._kept_of(id):
            vectors = {self.embedder.name: pack(vector)}
            self._keep(Member(id=name, type=id, text=lesson.task, vectors=vectors), place, vector)
            of, centre = self._types[place], self._gate.centres[place]
            centre = centre + (vector - centre) / (min(of.members, MEMBERS) + 1)
            self._put(place, of, centre, {"members": of.members + 1, "updated": at})
        return id

    def _keep(self, member: Member, place: int, vector: Any) -> None:
        """Keep a member; where there are enough, those with the lowest digests stay."""
        assert self._gate is not None
        most = max(min(MEMBERS, ALL_MEMBERS // max(len(self._types), 1)), LEAST_MEMBERS)
        kept = self._kept_of(member.type)
        if len(kept) >= most:
            ids = sorted(kept)
            if member.id > ids[most - 1]:
                return
            gone = [each.text for each in self.shelf.pick(Member, ids[most - 1 :])]
            self.shelf.delete(Member, *ids[most - 1 :])
            kept.difference_update(ids[most - 1 :])
            self._gate.remove(place, gone)
        kept.add(member.id)
        self._gate.add(place, vector, member.text)
        self.shelf.put(member)
        self._changed.add(place)

    def _new(self, id: str, task: str, vector: Any, origin: Origin, at: str) -> None:
        """Begin a type, or take it out of the archive with what it had."""
        assert self._gate is not None
        was = self.get(id)
        if was:
            self._keep_gate()
            self.shelf.put(was.model_copy(update={"origin": origin, "updated": at}))
            self._gate = self._opened()
            return
        vectors = {self.embedder.name: pack(vector)}
        made = ProblemType(id=id, text=task[:80], created=at, updated=at, origin=origin, vectors=vectors)
        self._places[id] = self._gate.add_type(vector)
        self._types.append(made)
        self._changed.add(self._places[id])
        self._kept[id] = set()
        self.shelf.put(made)

    def _change(self, id: str, vector: Any, step: float, update: dict[str, Any], *, uses: int = 0) -> None:
        place = self._places.get(id)
        if place is None or self._gate is None:
            return
        of = self._types[place]
        centre = self._gate.centres[place]
        if step:
            centre = centre + step * (vector - centre)
        self._put(
            place,
            of,
            centre,
            {**update, "uses": of.uses + uses, "temperature": of.temperature * TEMPERATURE_DECAY**uses},
        )

    def _put(self, place: int, of: ProblemType, centre: Any, update: dict[str, Any]) -> None:
        assert self._gate is not None
        vectors = {**of.vectors, self.embedder.name: pack(centre)}
        self._types[place] = of.model_copy(update={**update, "vectors": vectors})
        self._gate.move(place, centre)
        self.shelf.put(self._types[place])

    def _name(self, id: str) -> None:
        """Call an emergent type by the words that its members share."""
        assert self._gate is not None
        place = self._places[id]
        of = self._types[place]
        label = id if of.origin == "explicit" else " ".join(self._gate.shared(place)) or of.text
        self._types[place] = of.model_copy(update={"text": label})
        self.shelf.put(self._types[place])

    def _make_room(self) -> None:
        over = len(self._types) - TYPES
        if over > 0:
            self._archive(sorted(self._types, key=_last)[:over])

    def _archive(self, old: Sequence[ProblemType]) -> None:
        if not old:
            return
        self.shelf.put(*(each.model_copy(update={"origin": "archived"}) for each in old))
        self._gate_is_old = True
        put_aside = sorted(self.shelf.scan(ProblemType, {"origin": "archived"}), key=_last)
        for each in put_aside[: max(len(put_aside) - ARCHIVED, 0)]:
            self._drop(each.id)

    def _drop(self, id: str) -> None:
        """Forget a type with its members: the archive has room for so many."""
        from runtime.memory.procedural.opening import TypeWords

        self.shelf.delete(Member, *(row.id for row in self.shelf.rows(Member.KIND, {"type": id})))
        self.shelf.delete(TypeWords, id)
        self.shelf.delete(ProblemType, id)


class _Changing:
    """A change of types: in one transaction, on what is on the shelf now, and told to other processes."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self._transaction = types.shelf.transaction()

    def __enter__(self) -> None:
        self._transaction.__enter__()
        self.types._ready()

    def __exit__(self, *error: Any) -> None:
        types = self.types
        if error[0] is None:
            types._keep_gate()
            stamp = Stamp.another()
            types._stamp = stamp.number
            types.shelf.put(stamp)
        if error[0] is not None or types._gate_is_old:
            types._gate, types._gate_is_old = None, False
        self._transaction.__exit__(*error)


def _last(type: ProblemType) -> tuple[str, str]:
    """When a type was used or taught last; of one time, the lower id comes first."""
    return max(type.used, type.updated), type.id


def _mean(rows: Sequence[Any]) -> Any:
    import numpy as np

    return np.mean(np.array(rows, float), axis=0)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
