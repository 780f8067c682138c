"""The shape of a task: what its variations have in common, as one short vector.

Numbers are their units, words that mean the same are one, and names and nouns are mere places; so a task and
its variations lie close together however many of their words were exchanged, and others do not. What the
places hold counts a little, to tell tasks of the same shape apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from runtime.memory.procedural.inflection import stem
from runtime.memory.procedural.reading import Reading
from runtime.memory.procedural.words import Words

if TYPE_CHECKING:
    from runtime.embedding import Array

NAME = "shape-1"
"""Under which a record keeps it; the number goes up when the algorithm changes."""
SIZE = 128
PLACES = 4
"""Dimensions that one feature touches."""
PAIR, HELD = 1.0, 0.5
"""Weights of two neighbours, and of a word that only holds a place, where a word that is kept weighs 0.5."""
WORD = 0.5
_PLACE = "_"


def shape(reading: Reading, words: Words) -> Array:
    """The vector, of unit length."""
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
    """What is kept of each token, and what is only held by it."""
    at = 0
    found = reading.tokens
    while at < len(found):
        token, took = found[at], 1
        if token.leaf:
            yield f"#{token.kind}{token.unit}", ""
        elif phrases := reading.phrases(at):
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
    """Where a feature lies, and with which signs: the same on every machine."""
    raw = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=2 * PLACES).digest()
    return tuple((raw[2 * n] % SIZE, 1.0 if raw[2 * n + 1] & 1 else -1.0) for n in range(PLACES))
