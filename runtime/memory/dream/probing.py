"""Probe and verify: whether what could be found before a dream still is, or the dream is taken back.

Some observations are drawn; a question made of their rarest words has to find each of them among the first as
before, or a memory that is made of it. They are asked for as a person would ask, among turns and memories, by
the search that is shipped, in its form without an embedder: that leaves nothing behind. It needs no labels.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from runtime.memory.dream.gist import counted
from runtime.memory.dream.stage import Dream, Told
from runtime.memory.semantic.records import DEFAULT, Memory, Observation
from runtime.memory.semantic.retrieval import Retrieval, Scope, observed, once
from runtime.store import Record
from runtime.store.words import COMMON

DRAWN = 48
"""Observations that are asked for."""
WORDS, LEAST = 4, 2
"""Words of a question, and those that an observation needs."""
FIRST = 10
"""Among so many it has to be found."""
WORSE = 0.05
"""How many fewer of them, by part, may be found after the dream."""


class Probe(Record):
    """A question, and the observation that it is made of; kept for the time of a dream."""

    KIND: ClassVar[str] = "probe"

    dream: str
    target: str
    agent: str = DEFAULT
    found: bool = False


def probe(dream: Dream) -> Told:
    """Draw observations, ask for them, and keep which are found."""
    shelf = dream.shelf
    stale = [each.id for each in shelf.scan(Probe)]
    shelf.delete(Probe, *stale)
    often: Counter[str] = Counter()
    drawn: list[tuple[str, Observation]] = []
    for each in shelf.scan(Observation):
        words = counted(each.text, COMMON)
        often.update(words.keys())
        if len(words) >= LEAST:
            lot = hashlib.sha256(f"{dream.id}\0{each.id}".encode("utf-8", "surrogatepass")).hexdigest()
            drawn.append((lot, each))
            if len(drawn) > 8 * DRAWN:
                drawn = sorted(drawn, key=lambda one: one[0])[:DRAWN]
    chosen = [each for _, each in sorted(drawn, key=lambda one: one[0])[:DRAWN]]
    probes = [
        Probe(
            id=f"{dream.id}/{place}",
            text=" ".join(_rarest(each.text, often)),
            dream=dream.id,
            target=each.id,
            agent=each.agent,
        )
        for place, each in enumerate(chosen)
    ]
    there = found(dream, probes)
    shelf.put(*(each.model_copy(update={"found": there[each.id]}) for each in probes))
    return Told(counts={"asked": len(probes), "found": sum(there.values())})


def verify(dream: Dream) -> Told:
    """Ask again; `worse` is 1 when so much less is found that the dream is to be taken back."""
    probes = list(dream.shelf.scan(Probe, {"dream": dream.id}))
    if not probes:
        return Told(counts={"asked": 0, "worse": 0})
    now = found(dream, probes)
    before, after = sum(each.found for each in probes), sum(now.values())
    worse = after < before - WORSE * len(probes)
    dream.shelf.delete(Probe, *(each.id for each in probes))
    did = [f"{after} of {len(probes)} observations are found by words of theirs, {before} were before"]
    if worse:
        did.append("less is found than before: the dream is taken back")
    return Told(did, {"asked": len(probes), "before": before, "found": after, "worse": int(worse)})


def found(dream: Dream, probes: Sequence[Probe]) -> Mapping[str, bool]:
    """Which probes find what they are made of, on the shelf as it is now."""
    retrieval = Retrieval(dream.shelf, None, dream.brain.settings.systems)
    there: dict[str, bool] = {}
    for each in probes:
        hits = retrieval.search(each.text, 3 * FIRST, scope=Scope(agent=each.agent), now=dream.now)
        memories = dream.shelf.pick(Memory, [hit.id for hit in hits])
        made_of = {memory.id: memory.evidence for memory in memories}
        there[each.id] = each.target in observed(once(hits, made_of)[:FIRST], made_of)
    return there


def _rarest(text: str, often: Counter[str]) -> list[str]:
    """The words of a text that fewest texts have."""
    known = [word for word in counted(text, COMMON) if len(word) > 2]
    return sorted(known, key=lambda word: (often[word], -len(word), word))[:WORDS]
