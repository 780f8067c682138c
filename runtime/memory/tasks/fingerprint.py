"""Fingerprints: sparse ones of vectors, and the shape of a task, by which stored tasks are found.

`Fingerprint` keeps the most active dimensions of a vector with their signs. Source: seed
000_39bad3da279292ba, "Sparse Fingerprints".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from runtime.memory.embed import Array
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.words import Words
from runtime.text.inflection import stem

ACTIVE = 32
"""Dimensions that a fingerprint keeps. Source: the seed."""
NAME = "shape-1"
"""The name of a shape among a record's vectors; it changes when the features change."""
SIZE = 128
PLACES = 4
"""Dimensions of a shape that one feature touches."""
PAIR, WORD, HELD = 1.0, 0.5, 0.5
"""Weights of two neighbours, of a word that is kept, and of a word that only holds a place."""
_PLACE = "_"


@dataclass(frozen=True)
class Fingerprint:
    """The active dimensions: d as `d + 1` if its value is positive, as `-(d + 1)` if it is negative."""

    signed: frozenset[int]

    @staticmethod
    def of(vector: Array, active: int = ACTIVE) -> Fingerprint:
        """The fingerprint of a vector; a dimension with the value 0 is never active."""
        import numpy as np

        flat = np.asarray(vector, np.float32).ravel()
        strongest = np.argsort(-np.abs(flat), kind="stable")[:active]
        return Fingerprint(
            frozenset(int(d) + 1 if flat[d] > 0 else -int(d) - 1 for d in strongest if flat[d] != 0)
        )

    def similarity(self, other: Fingerprint) -> float:
        """The overlap of the dimensions times the agreement of their signs, between 0 and 1."""
        either = {abs(each) for each in self.signed | other.signed}
        return len(self.signed & other.signed) / len(either) if either else 0.0


def shape(reading: Reading, words: Words) -> Array:
    """A unit vector of what the variations of a task have in common.

    Numbers count as their units, synonyms as one word, and names and nouns mostly as their places.
    """
    import numpy as np

    row = [0.0] * SIZE
    for feature, weight in _features(reading, words):
        for place, sign in _hashed(feature):
            row[place] += sign * weight
    length = math.sqrt(math.fsum(each * each for each in row)) or 1.0
    return np.array([each / length for each in row], np.float32)


def _features(reading: Reading, words: Words) -> Iterator[tuple[str, float]]:
    before = "^"
    for kept, held in _marks(reading, words):
        if held:
            yield f"held {held}", HELD
        if kept == _PLACE and before == _PLACE:
            continue
        if kept != _PLACE:
            yield f"word {kept}", WORD
        yield f"pair {before} {kept}", PAIR
        before = kept
    yield f"pair {before} $", PAIR


def _marks(reading: Reading, words: Words) -> Iterator[tuple[str, str]]:
    """For each token what is kept of it, and the stem of a word that only holds a place."""
    at = 0
    found = reading.tokens
    while at < len(found):
        token, took = found[at], 1
        if token.leaf:
            yield f"#{token.kind}{token.unit}", ""
        elif phrases := reading.phrases[at]:
            took = max(length for length, _ in phrases)
            yield words.root(tuple(each.low for each in found[at : at + took])), ""
        elif skipped := reading.skips(at):
            took = skipped
        elif token.kind == "word" and token.low not in words.fixed:
            yield _PLACE, stem(token.low)
        else:
            yield token.low, ""
        at += took


@lru_cache(20_000)
def _hashed(feature: str) -> tuple[tuple[int, float], ...]:
    raw = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=2 * PLACES).digest()
    return tuple((raw[2 * n] % SIZE, 1.0 if raw[2 * n + 1] & 1 else -1.0) for n in range(PLACES))
