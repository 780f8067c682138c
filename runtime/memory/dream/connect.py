"""Connect: edges between memories of the last days, each with what it rests on.

Every pair of the most recent is looked at, and for the others the few that are nearest. Being near is not
enough: both tell of something that few others tell of, and the edge says what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

from runtime.memory.dream.cluster import short
from runtime.memory.dream.gist import keywords, spelled
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.dream.work import Work
from runtime.memory.semantic.dates import stamp
from runtime.memory.semantic.links import edge_id, link
from runtime.memory.semantic.records import Edge, Memory

DAYS = 7
RECENT = 15
"""Memories of which every pair is looked at. Source: the reference engine, as are the days and the cosine."""
NEAR = {"minilm": 0.2, "lexical": 0.08}
OTHER = 0.2
AROUND = 3
"""The others are compared with so many that are nearest."""
MOST = 2_000
"""Memories that one dream looks at."""
RARE = 0.05
"""A word is rare when no larger part of them has it."""
SHOWN = 4


def connect(dream: Dream) -> Told:
    """Connect what was made, changed or used in the last days."""
    work = Work(dream)
    least = stamp(dream.now - timedelta(days=DAYS))
    recent: dict[str, list[Memory]] = {}
    for each in work.shelf.scan(Memory, {"superseded": "", "until": ""}):
        if max(each.changed, each.last_access) >= least and each.held != "abstraction":
            recent.setdefault(each.agent, []).append(each)
    counts = {"looked at": 0, "connected": 0}
    did: list[str] = []
    for agent in sorted(recent):
        some = sorted(
            recent[agent], key=lambda each: (max(each.changed, each.last_access), each.since, each.id)
        )
        _connect(work, some[-MOST:], counts, did)
    return Told([*did, *work.refused], counts, work.form)


def _age(memory: Memory) -> tuple[str, str, str]:
    return max(memory.changed, memory.last_access), memory.since, memory.id


def _connect(work: Work, some: Sequence[Memory], counts: dict[str, int], did: list[str]) -> None:
    tell = {each.id: keywords(each.text, work.empty) for each in some}
    often = Counter(word for words in tell.values() for word in words)
    rare = {word for word, count in often.items() if count <= max(2, RARE * len(some))}
    for one, other in _pairs(work, some):
        counts["looked at"] += 1
        if one.id not in tell or other.id not in tell:
            tell |= {each.id: keywords(each.text, work.empty) for each in (one, other)}
        shared = tell[one.id] & tell[other.id]
        telling = sorted(
            (shared & rare) or ({word for word in shared if word not in often}), key=_order(often)
        )
        later, earlier = sorted((one, other), key=lambda each: (each.since, each.id), reverse=True)
        text = _why(work, later, earlier, telling)
        if not text or work.shelf.get(Edge, edge_id(later.id, "related", earlier.id)):
            continue
        weight = round(min(0.8, 0.4 + 0.1 * max(len(telling), 1)), 3)
        dates = {"source_at": later.since, "target_at": earlier.since}
        link(work.shelf, later.id, earlier.id, "related", text=text, weight=weight, at=work.now, **dates)
        counts["connected"] += 1
        did.append(f"“{short(later.text, 50)}” and “{short(earlier.text, 50)}”: {text}")


def _order(often: Mapping[str, int]) -> Any:
    return lambda word: (often.get(word, 0), -len(word), word)


def _pairs(work: Work, some: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """The pairs that are near enough to be looked at, each once."""
    latest, others = some[-RECENT:], some[:-RECENT]
    rows = {each.id: each.vector(work.name) for each in some}
    pairs: dict[tuple[str, str], tuple[Memory, Memory]] = {}
    least = NEAR.get(work.name.partition("-")[0], OTHER)
    for one, other in combinations(latest, 2):
        a: Any = rows[one.id]
        b: Any = rows[other.id]
        if a is not None and b is not None and float(a @ b) >= least:
            pairs[one.id, other.id] = (one, other)
    for each in others:
        if rows[each.id] is None:
            continue
        near = [id for id, cosine in work.nearest(each.agent, rows[each.id], AROUND + 1) if cosine >= least]
        for other in work.shelf.pick(Memory, [id for id in near if id != each.id]):
            first, second = sorted((each, other), key=lambda one: one.id)
            pairs.setdefault((first.id, second.id), (first, second))
    return list(pairs.values())


def _why(work: Work, later: Memory, earlier: Memory, telling: Sequence[str]) -> str:
    """What an edge rests on; "" when there is nothing."""
    if work.dream.ask is not None and work.asks():
        told = work.answer("connect", {"one": later.text, "other": earlier.text})
        if isinstance(told.get("related"), bool):
            why = short(str(told.get("why", "")), 200)
            said = keywords(why, work.empty)
            if not told["related"]:
                return ""
            if all(said & keywords(each.text, work.empty) for each in (later, earlier)):
                work.form = "model"
                return why
            work.refused.append(f"an edge was refused: “{short(why)}” is not of both memories")
    shown = [spelled(word, later.text) for word in telling[:SHOWN]]
    return f"both tell of {', '.join(shown)}" if telling else ""
