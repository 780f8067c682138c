"""Sparse fingerprints: the most active dimensions of a vector, with their signs.

Source: seed 000_39bad3da279292ba, "Sparse Fingerprints".
"""

from __future__ import annotations

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
