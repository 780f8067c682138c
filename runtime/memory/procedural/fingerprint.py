"""Sparse fingerprints: the most active dimensions of a vector with their signs, and an index over them.

Source: seed 000_39bad3da279292ba, "Sparse Fingerprints".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]

ACTIVE = 32
"""Dimensions that a fingerprint keeps. Source: memory.md."""


@dataclass(frozen=True)
class Fingerprint:
    """Signed dimensions: `+d + 1` for an active dimension d, `-(d + 1)` for one whose value is negative."""

    signed: frozenset[int]

    @staticmethod
    def of(vector: Array, active: int = ACTIVE) -> Fingerprint:
        """The fingerprint of a vector; dimensions that are zero are never active."""
        flat = np.asarray(vector, np.float32).ravel()
        strongest = np.argsort(-np.abs(flat), kind="stable")[:active]
        return Fingerprint(
            frozenset(int(d) + 1 if flat[d] > 0 else -int(d) - 1 for d in strongest if flat[d] != 0)
        )

    def similarity(self, other: Fingerprint) -> float:
        """Overlap of the dimensions times the agreement of their signs, between 0 and 1."""
        mine, yours = {abs(each) for each in self.signed}, {abs(each) for each in other.signed}
        if not (shared := len(mine & yours)):
            return 0.0
        agreeing = len(self.signed & other.signed)
        return shared / len(mine | yours) * (agreeing / shared)


class FingerprintIndex:
    """Finds candidates by the signed dimensions that they share with a query; a record is a whole number.

    A query looks into as many buckets as a fingerprint has dimensions, the smallest first, and stops once it
    has looked at `enough` entries: so its cost does not grow with the store.
    """

    def __init__(self, enough: int = 20_000) -> None:
        self.enough = enough
        self._buckets: dict[int, list[int]] = {}
        self._held: dict[int, Fingerprint] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, number: int, fingerprint: Fingerprint) -> None:
        """Add a record, or put it in another place."""
        self.remove(number)
        self._held[number] = fingerprint
        for signed in fingerprint.signed:
            self._buckets.setdefault(signed, []).append(number)

    def remove(self, number: int) -> None:
        """Forget a record; one that is not there is no fault."""
        old = self._held.pop(number, None)
        for signed in old.signed if old else ():
            self._buckets[signed].remove(number)

    def nearest(self, fingerprint: Fingerprint, limit: int) -> list[tuple[int, float]]:
        """The records most like it, with their similarity, the best first."""
        counts = self._counts(sorted(fingerprint.signed, key=lambda each: len(self._buckets.get(each, ()))))
        best = sorted(counts, key=lambda number: (-counts[number], number))[: 4 * limit]
        scored = [(number, fingerprint.similarity(self._held[number])) for number in best]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def _counts(self, dimensions: Iterable[int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        looked = 0
        for signed in dimensions:
            bucket = self._buckets.get(signed, ())
            looked += len(bucket)
            for number in bucket:
                counts[number] = counts.get(number, 0) + 1
            if looked > self.enough:
                break
        return counts
