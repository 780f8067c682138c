"""How a dream asks whether what was known is still found, which is all that this search is for.

A node is a memory, or an observation that no memory leads to. The best nodes by words and nearness are
opened; the observations within are ranked by themselves, with their neighbours and with the node that they
came by. It is plain and needs no vectors but those that are there, so that `probe` and `verify` can compare a
shelf with itself in the middle of a dream. It is stricter than `semantic.retrieval`, which people, runs and
benches ask: that one measures every observation, and finds one behind a memory that leads nowhere, too.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from runtime.memory.dream.gist import counted
from runtime.memory.semantic.dates import moment
from runtime.memory.semantic.records import DEFAULT, Memory, Observation
from runtime.store import Shelf
from runtime.store.words import COMMON as DULL

WIDE = 90
"""Observations that opened nodes lead to; when as many are there, no further node is opened."""
K1, B = 1.5, 0.75
NODE = 0.3
"""How much of its node's score an observation gets."""
NEIGHBOUR = 0.3
"""How much of the scores of the turns beside it."""
SPEAKER = 1.5
"""How much more counts what was said by the only speaker whom a question names."""
_WORD = re.compile(r"\w+")
COMMON = DULL | frozenset(["whom", "whose", "why", "will", "do", "does", "did", "would", "could", "should"])


@dataclass
class Node:
    """What is looked at first, and the places of the observations that it leads to."""

    id: str
    text: str
    vector: Any
    places: list[int] = field(default_factory=list[int])


class Finder:
    """A shelf's observations of one agent, as they are found now."""

    def __init__(self, shelf: Shelf, embedder: str, agent: str = DEFAULT) -> None:
        self.seen = list(shelf.scan(Observation, {"agent": agent}))
        self.rows: list[Any] = [each.vector(embedder) for each in self.seen]
        at = {each.id: place for place, each in enumerate(self.seen)}
        self.nodes = [
            Node(each.id, _dated(each.at, each.who, each.text), self.rows[place], [place])
            for place, each in enumerate(self.seen)
            if not each.memory
        ]
        for memory in shelf.scan(Memory, {"agent": agent}):
            places = [at[id] for id in memory.evidence if id in at]
            text = _dated(memory.since, *memory.names, memory.text)
            self.nodes.append(Node(memory.id, text, memory.vector(embedder), places))

    @cached_property
    def _beside(self) -> dict[tuple[str, int], int]:
        return {(each.thread, each.turn): place for place, each in enumerate(self.seen) if each.thread}

    @cached_property
    def _words(self) -> _Words:
        return _Words(node.text for node in self.nodes)

    @cached_property
    def _matrix(self) -> Any:
        return _stacked([node.vector for node in self.nodes], self._size)

    @cached_property
    def _size(self) -> int:
        rows = [*self.rows, *(node.vector for node in self.nodes)]
        return next((len(row) for row in rows if row is not None), 1)

    @cached_property
    def _speakers(self) -> frozenset[str]:
        return frozenset(each.who for each in self.seen if each.who)

    def find(self, question: str, vector: Any, limit: int = 10) -> list[str]:
        """Ids of observations, the best first."""
        import numpy as np

        if not self.nodes or len(vector) != self._size:
            return []
        asked = list(counted(question, COMMON))
        words = self._words.scores(asked)
        scores = 0.5 * words / max(float(words.max()), 1e-9) + 0.5 * (self._matrix @ vector)
        best = np.argsort(-scores, kind="stable")
        via: dict[int, float] = {}
        for number in best.tolist():
            if len(via) >= WIDE:
                break
            for place in self.nodes[number].places:
                via[place] = max(via.get(place, 0.0), float(scores[number]))
        return [self.seen[place].id for place in self._ranked(question, asked, vector, via)[:limit]]

    def _ranked(self, question: str, asked: Sequence[str], vector: Any, via: dict[int, float]) -> list[int]:
        import numpy as np

        if not via:
            return []
        beside = {place: self._neighbours(place) for place in via}
        places = list(dict.fromkeys([*via, *(each for found in beside.values() for each in found)]))
        words = np.array([self._words.score(self._said(place), asked) for place in places])
        near = _stacked([self.rows[place] for place in places], self._size) @ vector
        own = 0.5 * words / max(float(words.max()), 1e-9) + 0.5 * near
        said = f" {' '.join(_WORD.findall(question.lower()))} "
        named = [who for who in self._speakers if f" {who.lower()} " in said]
        raw = {
            place: float(score) * (SPEAKER if len(named) == 1 and self.seen[place].who == named[0] else 1.0)
            for place, score in zip(places, own, strict=True)
        }
        total = {
            place: raw[place]
            + NODE * via.get(place, 0.0)
            + NEIGHBOUR * sum(raw.get(each, 0.0) for each in self._neighbours(place))
            for place in places
        }
        return sorted(total, key=lambda place: (-total[place], self.seen[place].id))

    def _said(self, place: int) -> str:
        each = self.seen[place]
        return _dated(each.at, each.who, each.text)

    def _neighbours(self, place: int) -> list[int]:
        each = self.seen[place]
        sides = [self._beside.get((each.thread, each.turn + step)) for step in (-1, 1)] if each.thread else []
        return [side for side in sides if side is not None and self.seen[side].at[:10] == each.at[:10]]


class _Words:
    """BM25 over some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.count, total = 0, 0
        self.postings: dict[str, list[tuple[int, int]]] = {}
        self.lengths: list[int] = []
        for text in texts:
            found = counted(text, COMMON)
            for word, times in found.items():
                self.postings.setdefault(word, []).append((self.count, times))
            self.lengths.append(sum(found.values()))
            self.count += 1
            total += self.lengths[-1]
        self.mean = total / max(self.count, 1) or 1.0

    def rarity(self, word: str) -> float:
        """How much a word tells."""
        has = len(self.postings.get(word, ()))
        return math.log(1 + (self.count - has + 0.5) / (has + 0.5))

    def scores(self, asked: Sequence[str]) -> Any:
        """Of all texts."""
        import numpy as np

        found = np.zeros(self.count)
        for word in asked:
            rarity = self.rarity(word)
            for number, times in self.postings.get(word, ()):
                found[number] += rarity * _weight(times, self.lengths[number] / self.mean)
        return found

    def score(self, text: str, asked: Sequence[str]) -> float:
        """Of another text by the same words."""
        found = counted(text, COMMON)
        length = sum(found.values()) / self.mean
        return sum(self.rarity(word) * _weight(found[word], length) for word in asked if word in found)


def _weight(times: int, length: float) -> float:
    return times * (K1 + 1) / (times + K1 * (1 - B + B * length))


def _dated(at: str, *texts: str) -> str:
    day = moment(at).strftime("%d %B %Y ") if at else ""
    return day + " ".join(texts)


def _stacked(rows: Sequence[Any], size: int) -> Any:
    import numpy as np

    return np.array([np.zeros(size, np.float32) if row is None else row for row in rows], np.float32)


def rarest(text: str, often: Counter[str], most: int) -> list[str]:
    """The words of a text that fewest texts have."""
    found = [word for word in counted(text, COMMON) if len(word) > 2]
    return sorted(found, key=lambda word: (often[word], -len(word), word))[:most]
