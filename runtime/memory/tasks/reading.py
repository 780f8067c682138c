"""A task prepared for comparison: its tokens, the phrases that begin at each, names, stems and question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from runtime.memory.tasks.words import Words
from runtime.text.inflection import singular
from runtime.text.tokens import Token, tokens

Span = tuple[int, frozenset[int]]
"""The length of a phrase in tokens, and its groups of synonyms."""
LONGEST = 400
"""Tokens; a longer task is not compared."""
_ENDS = frozenset(".?!:")
_ASKS = frozenset("how what which who find calculate compute determine".split())  # noqa: SIM905
_IFS = frozenset("if when assuming given provided".split())  # noqa: SIM905


class Reading:
    """A task as alignment needs it; computed on demand."""

    def __init__(self, found: Sequence[Token], words: Words) -> None:
        self.tokens = found
        self.words = words

    @staticmethod
    def read(task: str, words: Words) -> Reading:
        """The reading of a task without courtesies."""
        return Reading(without_courtesies(task, words), words)

    @cached_property
    def _lows(self) -> tuple[str, ...]:
        return tuple(token.low for token in self.tokens)

    @cached_property
    def phrases(self) -> list[list[Span]]:
        """For each token the known phrases that begin at it."""
        lows, words = self._lows, self.words
        return [
            [
                (length, frozenset(groups))
                for length in words.lengths.get(low, ())
                if (groups := words.same.get(lows[at : at + length])) and at + length <= len(lows)
            ]
            for at, low in enumerate(lows)
        ]

    def skips(self, at: int) -> int:
        """How many tokens from this one on are optional."""
        lows = self._lows
        for length in self.words.skips.get(lows[at], ()):
            if lows[at : at + length] in self.words.optional:
                return length
        return 0

    @cached_property
    def leaves(self) -> tuple[tuple[str, str], ...]:
        """Kind and unit of each leaf, except in `2 times`, which may be `twice`."""
        pairs = zip(self.tokens, (*self._lows[1:], ""), strict=True) if self.tokens else ()
        return tuple((t.kind, t.unit) for t, behind in pairs if t.leaf and behind not in ("times", "time"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words that are names inside a sentence."""
        named = (each for each in self.tokens if not each.first and may_be_name(each, self.words))
        return frozenset(each.low.removesuffix("'s") for each in named)

    @cached_property
    def lows(self) -> frozenset[str]:
        """All words."""
        return frozenset(self._lows)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all words."""
        return frozenset(singular(token.low) for token in self.tokens if token.kind == "word")

    @cached_property
    def asked(self) -> range:
        """The tokens of the question: the last sentence, up to a condition."""
        found = self.tokens
        begin = max((at for at, token in enumerate(found) if token.first), default=0)
        begin = next((at for at in range(begin, len(found)) if found[at].low in _ASKS), begin)
        end = next((at for at in range(begin, len(found)) if found[at].low in _IFS), len(found))
        return range(begin, end)

    def holds(self, phrase: tuple[str, ...]) -> bool:
        """Whether the task contains these words in this order."""
        size = len(phrase)
        return self.lows.issuperset(phrase) and any(
            self._lows[at : at + size] == phrase for at in range(len(self._lows) - size + 1)
        )


def may_be_name(token: Token, words: Words) -> bool:
    """Whether a word may be a name; some words may be one inside a sentence only."""
    if token.kind != "word" or not token.text[0].isupper():
        return False
    low = token.low.removesuffix("'s")
    return low not in words.fixed or (not token.first and low in words.names)


def without_courtesies(task: str, words: Words) -> list[Token]:
    """The tokens of a task without phrases such as `Quick question.`, `Thanks!`, `please`."""
    read = tokens(task)
    ends = [at + 1 for at, token in enumerate(read) if _ends(token)]
    parts = [read[a:b] for a, b in pairwise([0, *ends, len(read)]) if a < b]
    while len(parts) > 1 and _polite(parts[0], words):
        del parts[0]
    while len(parts) > 1 and _polite(parts[-1], words):
        del parts[-1]
    found = [token for part in parts for token in part]
    while len(found) > 1 and (took := _order(found, words)) and took < len(found):
        found = found[took:]
    while len(found) > 1 and _ends(found[-1]):
        found = found[:-1]
    return found


def _ends(token: Token) -> bool:
    return token.kind == "mark" and token.text in _ENDS


def _order(found: list[Token], words: Words) -> int:
    """How many of the first tokens are words such as `could you`."""
    lows = tuple(token.low for token in found[:3])
    return next((took for took in (3, 2, 1) if lows[:took] in words.orders), 0)


def _polite(part: list[Token], words: Words) -> bool:
    return all(token.kind == "mark" or token.low in words.courtesies for token in part)
