"""The gate between known and novel: how far a task lies from the nearest problem type, by vector and words.

It keeps no files and learns by counting alone: the spread of members around their centres (one for all types,
drawn to a sphere while there are few), and the words of each type. What each brings: `fractal bench gate`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from runtime.embedding.threads import one_thread
from runtime.store.words import COMMON

WITHIN, OVERALL = 0.64, 1.0
"""Squared distances expected when nothing is known: of a member from its centre (0.80²), of a text from 0."""
BELIEF = 4
"""How many members a dimension the expected spread weighs as much as."""
CENTRE_BELIEF = 50
"""Members that the centre of everything is drawn to 0 by."""
WORDS = 1.5
"""Weight of the words beside the vector when the nearest type is chosen: best of 0.5 to 3 on training data
(four fifths of the members known, one fifth asked)."""
SMOOTH = 0.1
"""Count of a word that a type's members never used."""
SCALE = 0.612
"""Puts the boundary of CLINC150's validation part at 0.80, with minilm."""
SPREAD, NEAREST, UNKNOWN, ANGLE, LEAD = 0.5, 0.5, 0.2, 0.2, 0.05
"""Weights in the distance: in spreads relative to everything's; to the nearest members; the share of words
never seen; the angle to the centre in spreads; how little the best type leads. The best of a few on the
validation part of CLINC150."""
CLEAR = 20.0
"""By so much in log likelihood a type leads clearly."""
NEIGHBOURS = 3
REFIT = 1.2
"""The spread is measured anew when there are so many times as many members as before."""


Load = Callable[[Sequence[int]], Sequence[Sequence[Any]]]
"""The vectors of the members of types, by their places."""


@dataclass(frozen=True)
class Look:
    """The nearest type, by its place, and how far the task is from it."""

    place: int
    distance: float


@dataclass(frozen=True)
class Spread:
    """How members lie around their centres and around the middle, when there were `fitted` of them."""

    middle: Any
    inside: Any
    outside: Any
    fitted: int


@dataclass(frozen=True)
class Without:
    """Pieces of the gate to leave out, so that what each brings can be measured."""

    words: bool = False
    spread: bool = False
    nearest: bool = False


ALL = Without()


class Gate:
    """Types by place, each with members; a type without a member has only its centre."""

    def __init__(self, size: int, without: Without = ALL) -> None:
        self.size, self.without = size, without
        self.centres = np.zeros((0, size))
        self.load: Load = lambda places: [() for _ in places]
        self._members: list[list[Any] | None] = []  # None: to be loaded when they are needed
        self._sizes: list[int] = []
        self._words: list[dict[str, int]] = []
        self._stacked: dict[int, Any] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._columns: dict[str, tuple[Any, Any]] = {}
        self._totals = np.zeros(0)
        self._number = 0
        self._fitted = -1
        self._stale = True

    def __len__(self) -> int:
        return len(self.centres)

    @property
    def members(self) -> int:
        """Of all types."""
        return self._number

    def count(self, place: int) -> int:
        """Of one type."""
        return self._sizes[place]

    def words(self, place: int) -> dict[str, int]:
        """What a type's members say, each with how many of them do."""
        return self._words[place]

    def add_type(self, centre: Any) -> int:
        """A new type; returns its place."""
        centre = np.asarray(centre, float)
        self.centres = np.vstack([self.centres, centre[None]])
        self._members.append([])
        self._sizes.append(0)
        self._words.append({})
        self._totals = np.append(self._totals, 0.0)
        if not self._stale:
            white = (centre - self._middle) @ self._inside
            self._white = np.vstack([self._white, white[None]])
            self._halves = np.append(self._halves, 0.5 * float(white @ white))
        return len(self.centres) - 1

    def open(
        self, centres: Sequence[Any], words: Sequence[dict[str, int]], sizes: Sequence[int], spread: Spread
    ) -> None:
        """Types as they were kept, in an empty gate; their members are loaded when they are needed."""
        self.centres = np.array(centres, float).reshape(len(centres), self.size)
        self._members, self._sizes, self._words = [None] * len(centres), list(sizes), list(words)
        for place, each in enumerate(words):
            for word, count in each.items():
                self._counts.setdefault(word, {})[place] = count
        self._totals = np.array([sum(each.values()) for each in words], float)
        self._number, self._fitted = sum(sizes), spread.fitted
        self._middle, self._inside, self._outside = spread.middle, spread.inside, spread.outside
        with one_thread():
            self._white = (self.centres - self._middle) @ self._inside
        self._halves = 0.5 * (self._white**2).sum(1)
        self._stale = self._number > self._fitted * REFIT

    @property
    def spread(self) -> Spread | None:
        """As it was measured last; None as long as it was not."""
        if self._fitted < 0:
            return None
        return Spread(self._middle, self._inside, self._outside, self._fitted)

    def add(self, place: int, vector: Any, text: str) -> None:
        """A member of a type, which is not where `load` reads yet; the type's centre stays where it is."""
        self._loaded([place])
        self._of(place).append(np.asarray(vector, float))
        self._stacked.pop(place, None)
        self._tell(place, text, 1)
        self._stale = self._stale or self._number > self._fitted * REFIT

    def remove(self, place: int, texts: Sequence[str]) -> None:
        """These members of a type are gone from where `load` reads."""
        for text in texts:
            self._tell(place, text, -1)
        self._members[place] = None
        self._stacked.pop(place, None)

    def _tell(self, place: int, text: str, by: int) -> None:
        """Count the words of a member in, or out."""
        own = self._words[place]
        for each in features(text):
            column = self._counts.setdefault(each, {})
            column[place] = own[each] = own.get(each, 0) + by
            if own[each] <= 0:
                del own[each], column[place]
                if not column:
                    del self._counts[each]
            self._columns.pop(each, None)
            self._totals[place] += by
        self._sizes[place] += by
        self._number += by

    def _loaded(self, places: Sequence[int]) -> None:
        missing = [place for place in places if self._members[place] is None]
        for place, rows in zip(missing, self.load(missing) if missing else (), strict=True):
            self._members[place] = [np.asarray(row, float) for row in rows]

    def _of(self, place: int) -> list[Any]:
        found = self._members[place]
        assert found is not None, "it is loaded first"
        return found

    def move(self, place: int, centre: Any) -> None:
        """Put a type's centre elsewhere."""
        self.centres[place] = centre
        if not self._stale:
            self._whiten(place)

    def look(self, vector: Any, text: str) -> Look | None:
        """The nearest type; None as long as there is none."""
        if not len(self.centres):
            return None
        if self._stale:
            self._fit()
        vector = np.asarray(vector, float)
        words = features(text)
        with one_thread():
            inside = (vector - self._middle) @ self._inside
            products = self._white @ inside
            scores = products - self._halves
            if not self.without.words:
                scores = scores + WORDS * self._worded(words)
            place = int(scores.argmax())
            length, product = float(inside @ inside), float(products[place])
            half = float(self._halves[place])
            outside = (vector - self._middle) @ self._outside
            relative = math.sqrt(max(length - 2 * product + 2 * half, 0.0) / _some(outside @ outside))
            near = relative if self.without.nearest else self._near(place, vector)
        angle = 1 - product / math.sqrt(_some(length) * _some(2 * half))
        others = np.delete(scores, place)
        lead = min(float(scores[place] - others.max()) / CLEAR, 1.0) if len(others) else 1.0
        distance = SPREAD * relative + NEAREST * near + UNKNOWN * self._unknown(words)
        return Look(place, SCALE * (distance + ANGLE * angle + LEAD * (1 - lead)))

    def shared(self, place: int, most: int = 4) -> list[str]:
        """The words that tell this type from the others, the most telling first."""
        members = max(self._sizes[place], 1)
        found: list[tuple[float, str]] = []
        for word, count in self._words[place].items():
            if " " not in word and word[0].isalpha() and word not in COMMON:
                share = count / members
                told = math.log((len(self) + 1) / len(self._counts[word]))
                found.append((-share * told - share / 4, word))
        return [word for _, word in sorted(found)[:most]]

    # ---- its pieces --------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """Measure the spread of members around their centres, and of all around the middle."""
        self._loaded(range(len(self)))
        members = [self._of(place) for place in range(len(self))]
        rows = [row for each in members for row in each]
        own = np.repeat(np.arange(len(self)), [len(each) for each in members])
        every = np.array(rows).reshape(len(rows), self.size)
        with one_thread():
            self._middle = every.sum(0) / (len(rows) + CENTRE_BELIEF)
            self._inside = self._whitening(every - self.centres[own], WITHIN)
            self._outside = self._whitening(every - self._middle, OVERALL)
            self._white = (self.centres - self._middle) @ self._inside
        self._halves = 0.5 * (self._white**2).sum(1)
        self._fitted, self._stale = len(rows), False

    def _whitening(self, rows: Any, expected: float) -> Any:
        """What turns differences into numbers of spreads; few rows are mixed with a sphere."""
        belief = BELIEF * self.size
        if self.without.spread:
            rows = rows[:0]
        spread = rows.T @ rows
        sphere = float(np.trace(spread)) + belief * expected
        sphere *= belief / (len(rows) + belief) / self.size
        mixed = (spread + sphere * np.eye(self.size)) / (len(rows) + belief)
        return np.linalg.inv(np.linalg.cholesky(mixed)).T

    def _whiten(self, place: int) -> None:
        self._white[place] = (self.centres[place] - self._middle) @ self._inside
        self._halves[place] = 0.5 * float(self._white[place] @ self._white[place])

    def _worded(self, words: set[str]) -> Any:
        """How likely each type is by its members' words, as naive Bayes has it."""
        likely = -len(words) * np.log(self._totals + SMOOTH * (len(self._counts) + 1))
        for each in words:
            if each in self._counts:
                places, gains = self._column(each)
                likely[places] += gains
        return likely

    def _column(self, word: str) -> tuple[Any, Any]:
        if word not in self._columns:
            column = self._counts[word]
            places = np.fromiter(column.keys(), np.intp, len(column))
            counts = np.fromiter(column.values(), float, len(column))
            self._columns[word] = places, np.log((counts + SMOOTH) / SMOOTH)
        return self._columns[word]

    def _near(self, place: int, vector: Any) -> float:
        """The distance to the nearest members."""
        self._loaded([place])
        members = self._of(place)
        if not members:
            return float(np.linalg.norm(vector - self.centres[place]))
        if place not in self._stacked:
            self._stacked[place] = np.array(members)
        products = np.sort(self._stacked[place] @ vector)[-NEIGHBOURS:]
        return float(np.sqrt(max(2 - 2 * products.mean(), 0.0)))

    def _unknown(self, words: set[str]) -> float:
        if self.without.words or not words:
            return 0.0
        return sum(each not in self._counts for each in words) / len(words)


def _some(number: float) -> float:
    return max(float(number), 1e-9)


def features(text: str) -> set[str]:
    """Words and neighbours, each once; where a text begins and ends is a neighbour too."""
    words: Sequence[str] = re.findall(r"\w+", text.casefold())[:200]
    return {*words, *(f"{one} {other}" for one, other in pairwise(["<", *words, ">"]))} if words else set()
