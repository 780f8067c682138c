"""Takes back what a dream changed in a row, and keeps what has changed in it since, field by field.

Numbers keep the difference since the dream (uses, confidence after feedback), lists what was added since, and
other fields what they are now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

from runtime.memory.facts.graph import edges_of
from runtime.memory.facts.records import Edge, Links, Memory, Observation, Waiting
from runtime.memory.store import Shelf
from runtime.memory.store.record import Row, parsed

KEYS = (("id",), ("parent", "child"))
"""The fields that identify an entry of a list: of a neuron, of a synapse."""


def became(before: Row | None, after: Row | None) -> str:
    """The fields that a stage changed, as they were afterwards; of links that it made, the edges.

    "" where undo needs none.
    """
    fields = parsed(after.body) if after else None
    if fields is None or (before is None and after and after.kind != Links.KIND):
        return ""
    earlier = (parsed(before.body) or {}) if before else {"edges": []}
    return json.dumps({name: value for name, value in fields.items() if earlier.get(name) != value})


def reverted(before: Row | None, after: str, now: Row) -> Row | None:
    """A row that was changed since the dream, without what the dream did; None if nothing is left of it.

    `after` is what `became` returned. A row that cannot be taken apart stays as it is.
    """
    if before is None and now.kind == Memory.KIND:
        return None
    fields, changed = parsed(now.body), parsed(after)
    if fields is None or changed is None:
        return now
    if before is None:
        edges = _list([], changed.get("edges", []), fields.get("edges", []))
        return _row(now, {**fields, "edges": edges}, now.vectors) if edges else None
    earlier = parsed(before.body) or {}
    for name, value in changed.items():
        if name in earlier:
            fields[name] = _value(earlier[name], value, fields.get(name))
        elif fields.get(name) == value:
            del fields[name]
    return _row(now, fields, {**now.vectors, **before.vectors})


def _row(row: Row, fields: Mapping[str, Any], vectors: Mapping[str, bytes]) -> Row:
    return Row(row.kind, row.id, json.dumps(fields, ensure_ascii=False), None, vectors)


def _value(before: Any, after: Any, now: Any) -> Any:
    """One value, without the change from `before` to `after`."""
    if now == after:
        return before
    values = (before, after, now)
    if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        share = all(isinstance(each, float) and 0 <= each <= 1 for each in values)
        result = round(before + now - after, 6)
        return min(1.0, max(0.0, result)) if share else max(type(before)(0), result)
    if all(isinstance(each, list) for each in values):
        return _list(before, after, now)
    if all(isinstance(each, dict) for each in values):
        names = dict.fromkeys((*before, *now))
        return {
            name: _value(before.get(name), after.get(name), now.get(name))
            for name in names
            if name in before or name not in after
        }
    return now


def _list(before: Sequence[Any], after: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """What was there before and was not removed since, and what was added since."""
    was, became, current = ({_key(each): each for each in entries} for entries in (before, after, now))
    left = [
        _value(each, became.get(key, each), current.get(key, each))
        for key, each in was.items()
        if key in current or key not in became
    ]
    return left + [each for key, each in current.items() if key not in was and key not in became]


def _key(entry: Any) -> str:
    if isinstance(entry, dict):
        fields = cast(Mapping[str, Any], entry)
        for names in KEYS:
            if fields.keys() >= set(names):
                return " ".join(str(fields[name]) for name in names)
    return json.dumps(entry, sort_keys=True)


def release(shelf: Shelf, gone: Set[str]) -> None:
    """Free what was tied since the dream to memories that are gone.

    Observations wait for the gate again, and what only such a memory superseded holds again.
    """
    if not gone:
        return
    links = [name for each in shelf.pick(Links, gone) for name in (each.id, *_full(each))]
    shelf.delete(Edge, *{edge.id for edges in edges_of(shelf, gone).values() for edge in edges})
    shelf.delete(Links, *links)
    free = [each for each in shelf.scan(Observation) if each.memory in gone]
    shelf.put(*(each.model_copy(update={"memory": ""}) for each in free))
    shelf.put(*(Waiting(id=each.id) for each in free))
    past = [each for each in shelf.scan(Memory) if each.superseded in gone]
    shelf.put(*(each.model_copy(update={"superseded": "", "until": ""}) for each in past))


def _full(links: Links) -> list[str]:
    return [f"{links.id}~{number}" for number in range(links.full)]
