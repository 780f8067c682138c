"""Probe and verify: whether what could be found before a dream still is, or the dream is taken back.

A question of the rarest words of an observation has to find it, or a memory made of it, among the first
results, as before. The search is the shipped one without an embedder, which writes nothing. It needs no
labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

from runtime.memory.dream.gist import word_counts
from runtime.memory.dream.stages import Dream, StageResult
from runtime.memory.facts.records import DEFAULT, Memory, Observation
from runtime.memory.facts.retrieval import Retrieval, Scope, observed, once
from runtime.memory.store import Record
from runtime.memory.store.words import COMMON

SAMPLED = 48
"""Observations that are searched for."""
WORDS, LEAST = 4, 2
"""Words of a question, and those that an observation needs."""
FIRST = 10
"""Results among which it must be found."""
WORSE = 0.05
"""The share of questions that may find less after the dream."""


class Probe(Record):
    """A question, and the observation that it is made of; kept for the time of a dream."""

    KIND: ClassVar[str] = "probe"

    dream: str
    target: str
    agent: str = DEFAULT
    found: bool = False


def probe(dream: Dream) -> StageResult:
    """Draw observations, search for them, and store which are found."""
    shelf = dream.shelf
    shelf.delete(Probe, *[each.id for each in shelf.scan(Probe)])
    often: Counter[str] = Counter()
    ids: list[str] = []
    for observation in shelf.scan(Observation):
        words = word_counts(observation.text, COMMON)
        often.update(words.keys())
        ids += [observation.id] if len(words) >= LEAST else []
    sampled = shelf.pick(Observation, Random(dream.id).sample(ids, min(SAMPLED, len(ids))))
    probes = [
        Probe(
            id=f"{dream.id}/{place}",
            text=" ".join(_rarest(each.text, often)),
            dream=dream.id,
            target=each.id,
            agent=each.agent,
        )
        for place, each in enumerate(sampled)
    ]
    hits = _find_targets(dream, probes)
    shelf.put(*(each.model_copy(update={"found": hits[each.id]}) for each in probes))
    return StageResult(counts={"asked": len(probes), "found": sum(hits.values())})


def verify(dream: Dream) -> StageResult:
    """Search again; `worse` is 1 if so much less is found that the dream must be taken back."""
    probes = list(dream.shelf.scan(Probe, {"dream": dream.id}))
    if not probes:
        return StageResult(counts={"asked": 0, "worse": 0})
    before, after = sum(each.found for each in probes), sum(_find_targets(dream, probes).values())
    worse = after < before - WORSE * len(probes)
    dream.shelf.delete(Probe, *(each.id for each in probes))
    did = [f"{after} of {len(probes)} observations are found by their words, {before} were before"]
    if worse:
        did.append("less is found than before: the dream is taken back")
    return StageResult(did, {"asked": len(probes), "before": before, "found": after, "worse": int(worse)})


def _find_targets(dream: Dream, probes: Sequence[Probe]) -> Mapping[str, bool]:
    """Which probes find their target on the shelf as it is now."""
    retrieval = Retrieval(dream.shelf, None, dream.brain.settings.systems)
    is_found: dict[str, bool] = {}
    for probe in probes:
        hits = retrieval.search(probe.text, 3 * FIRST, scope=Scope(agent=probe.agent), now=dream.now)
        memories = dream.shelf.pick(Memory, [hit.id for hit in hits])
        made_of = {memory.id: memory.evidence for memory in memories}
        is_found[probe.id] = probe.target in observed(once(hits, made_of)[:FIRST], made_of)
    return is_found


def _rarest(text: str, often: Counter[str]) -> list[str]:
    """The words of a text that fewest texts have."""
    words = [word for word in word_counts(text, COMMON) if len(word) > 2]
    return sorted(words, key=lambda word: (often[word], -len(word), word))[:WORDS]
