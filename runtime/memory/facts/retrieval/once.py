"""Results without repetition: a memory and its evidence say the same once.

A memory adds nothing if all of its evidence ranks above it; a turn adds nothing if its sentences are in a
memory above it. A turn that the memory words differently is still shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from runtime.memory.facts.retrieval.parts import Found

Evidence = Mapping[str, Sequence[str]]
"""By the id of a memory, the ids of its evidence."""

HOLDS = 0.8
"""The share of a turn, by words, whose sentences are in a memory that covers it; hollow ones may be missing.
In `python -m bench dream`, with memories, 0.5 and 0.6 find 0.1 points of recall@10 more, 1.0 0.4 less."""
_SENTENCE = re.compile(r"[^.!?\n]+")
_WORD = re.compile(r"\w+")


def once(hits: Sequence[Found], made_of: Evidence) -> list[Found]:
    """The hits, the best first, without those that add nothing to the ones above them."""
    texts = {hit.id: hit.text for hit in hits}
    kept: dict[str, Found] = {}  # by text
    shown: set[str] = set()  # ids of the observations whose content is in `kept`
    for hit in hits:
        key, evidence = " ".join(hit.text.split()).casefold(), made_of.get(hit.id)
        if key in kept:
            if evidence is not None and kept[key].id not in made_of:
                kept[key] = hit  # it also knows whether that still holds
                shown.update(_held(hit.text, evidence, texts))
        elif hit.id not in shown and not (evidence and shown.issuperset(evidence)):
            kept[key] = hit
            shown.update([hit.id] if evidence is None else _held(hit.text, evidence, texts))
    return list(kept.values())


def observed(hits: Iterable[Found], made_of: Evidence) -> set[str]:
    """The observations that these hits are, or rest on."""
    return {id for hit in hits for id in made_of.get(hit.id, (hit.id,))}


def _held(text: str, evidence: Sequence[str], texts: Mapping[str, str]) -> Iterator[str]:
    """The evidence whose sentences are in the text."""
    plain = f" {_plain(text)} "
    for id in evidence:
        sentences = [_plain(each) for each in _SENTENCE.findall(texts.get(id, ""))]
        standing = sum(len(each.split()) for each in sentences if f" {each} " in plain)
        if standing and standing >= HOLDS * sum(len(each.split()) for each in sentences):
            yield id


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
