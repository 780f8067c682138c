"""The gate between known and novel tasks: the distance of a task from the nearest problem type.

A Gaussian with one covariance for all types and naive Bayes over words choose the nearest type. The distance
combines the distance from its centroid, in standard deviations, with the nearest members and unknown words.
`python -m bench gate` measures what each brings.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from runtime.memory.embed.threads import one_thread
from runtime.memory.store.words import COMMON
from runtime.text.tokens import words

WITHIN, OVERALL = 0.64, 1.0
"""Prior squared distances: of a member from its centroid (0.80²), of a text from 0."""
CENTRE_BELIEF = 50
"""The prior of the mean of all members (0) counts as much as so many members."""
SMOOTH = 0.1
"""Count of a word that no member of a type has."""
SCALE = 0.612
"""Puts the boundary of CLINC150's validation part at 0.80, with minilm."""
CLEAR = 20.0
"""A lead in log likelihood that counts as clear."""
COMMONLY = 0.5
"""The least share of members that have a word of a type's name."""
NEIGHBOURS = 3
REFIT = 1.2
"""The covariance is fitted again when there are so many times as many members."""


@dataclass(frozen=True)
class Weights:
    """What the pieces of the gate count. In the distance: all but `belief` and `words`."""

    belief: float = 4  # of the prior of the covariance: as so many members for each dimension
    words: float = 1.5  # beside the vector in choosing a type: best of 0.5 to 3 on CLINC150's training part
    spread: float = 0.5  # the distance from the centroid, relative to that from the mean of all
    nearest: float = 0.5  # the distance from the nearest members
    unknown: float = 0.2  # the share of unknown words
    angle: float = 0.2  # to the centroid
    lead: float = 0.05  # a small lead over other types


WHOLE = Weights()


class Gate:
    """Types, each with a centroid and members; a type's place is its row in the arrays."""

    def __init__(self, size: int, weights: Weights = WHOLE) -> None:
        self.size, self.weights = size, weights
        self.centres = np.zeros((0, size))
        self.places: dict[str, int] = {}
        self._members: list[list[Any]] = []
        self._totals: list[int] = []  # words of each type
        self._counts: dict[str, Counter[int]] = {}  # by word and place
        self._columns: dict[str, tuple[Any, Any]] = {}  # of the counts of a word, as arrays
        self._number = 0
        self._fitted = -1  # members when the covariance was fitted
        self._white: Any = None  # the centroids in standard deviations; None: not computed yet

    def add_type(self, id: str, centre: Any) -> None:
        """Add a type."""
        self.places[id] = len(self.centres)
        self.centres = np.vstack([self.centres, np.asarray(centre, float)[None]])
        self._members.append([])
        self._totals.append(0)
        self._white = None

    def move(self, id: str, vector: Any, step: float) -> Any:
        """Move a type's centroid by a share of its way to a vector; returns the new one."""
        centre = self.centres[self.places[id]]
        centre += step * (vector - centre)
        self._white = None
        return centre

    def add(self, id: str, vector: Any, text: str) -> None:
        """Add a member to a type; the centroid stays."""
        place, said = self.places[id], features(text)
        self._members[place].append(np.asarray(vector, float))
        self._number += 1
        self._totals[place] += len(said)
        for word in said:
            self._counts.setdefault(word, Counter())[place] += 1
            self._columns.pop(word, None)

    def count(self, id: str) -> int:
        """The number of members of a type."""
        return len(self._members[self.places[id]])

    def shared(self, id: str, most: int = 4) -> list[str]:
        """The words that a type's members share and others do not, the best first."""
        place, found = self.places[id], list[tuple[float, str]]()
        for word, counts in self._counts.items():
            share = counts[place] / max(self.count(id), 1) if place in counts else 0.0
            if share >= COMMONLY and " " not in word and word[0].isalpha() and word not in COMMON:
                rarity = math.log((len(self.centres) + 1) / len(counts))
                found.append((-share * rarity - share / 4, word))
        return [word for _, word in sorted(found)[:most]]

    def look(self, vector: Any, text: str) -> tuple[str, float]:
        """The nearest type and the distance to it; "" and infinity if there is none."""
        if not self.places:
            return "", math.inf
        of = self.weights
        vector, said = np.asarray(vector, float), features(text)
        with one_thread():
            self._fit()
            inside = (vector - self._middle) @ self._inside
            products = self._white @ inside
            scores = products - self._halves + (of.words * self._worded(said) if of.words else 0)
            place = int(scores.argmax())
            length, product, half = inside @ inside, products[place], self._halves[place]
            outside = (vector - self._middle) @ self._outside
            relative = math.sqrt(max(length - 2 * product + 2 * half, 0.0) / _positive(outside @ outside))
            near = self._near(place, vector)
        angle = 1 - product / math.sqrt(_positive(length) * _positive(2 * half))
        others = np.delete(scores, place)
        lead = min((scores[place] - others.max()) / CLEAR, 1.0) if len(others) else 1.0
        unknown = sum(word not in self._counts for word in said) / len(said) if said else 0.0
        distance = of.spread * relative + of.nearest * near + of.angle * angle + of.lead * (1 - lead)
        return [*self.places][place], SCALE * float(distance + of.unknown * unknown)

    def _fit(self) -> None:
        """Fit the covariance of members around their centroids, and of all around the mean, if needed."""
        if self._fitted < 0 or self._number > self._fitted * REFIT:
            own = np.repeat(np.arange(len(self.centres)), [len(each) for each in self._members])
            rows = np.array([row for each in self._members for row in each]).reshape(-1, self.size)
            self._middle = rows.sum(0) / (len(rows) + CENTRE_BELIEF)
            self._inside = self._whitening(rows - self.centres[own], WITHIN)
            self._outside = self._whitening(rows - self._middle, OVERALL)
            self._fitted, self._white = self._number, None
        if self._white is None:
            self._white = (self.centres - self._middle) @ self._inside
            self._halves = 0.5 * (self._white**2).sum(1)

    def _whitening(self, rows: Any, expected: float) -> Any:
        """The matrix that turns differences into standard deviations; the prior is a sphere."""
        belief = self.weights.belief * self.size
        spread = rows.T @ rows
        sphere = float(np.trace(spread)) + belief * expected
        sphere *= belief / (len(rows) + belief) / self.size
        mixed = (spread + sphere * np.eye(self.size)) / (len(rows) + belief)
        return np.linalg.inv(np.linalg.cholesky(mixed)).T

    def _worded(self, said: set[str]) -> Any:
        """The log likelihood of each type by the words of its members (naive Bayes)."""
        likely = -len(said) * np.log(np.array(self._totals) + SMOOTH * (len(self._counts) + 1))
        for word in said & self._counts.keys():
            if word not in self._columns:
                places, counts = zip(*self._counts[word].items(), strict=True)
                self._columns[word] = np.array(places), np.log((np.array(counts) + SMOOTH) / SMOOTH)
            places, gains = self._columns[word]
            likely[places] += gains
        return likely

    def _near(self, place: int, vector: Any) -> float:
        if not self._members[place]:
            return float(np.linalg.norm(vector - self.centres[place]))
        products = np.sort(np.array(self._members[place]) @ vector)[-NEIGHBOURS:]
        return float(np.sqrt(max(2 - 2 * products.mean(), 0.0)))


def _positive(number: float) -> float:
    return max(float(number), 1e-9)


def features(text: str) -> set[str]:
    """Words and pairs of neighbours; `<` and `>` are the ends of the text."""
    found = words(text)[:200]
    return {*found, *(f"{one} {other}" for one, other in pairwise(["<", *found, ">"]))} if found else set()
