"""A task prepared for comparison: its tokens, the phrases that begin at each, names, stems and question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

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
        self._words = words
        self._spans: dict[int, tuple[Span, ...]] = {}

    @staticmethod
    def read(task: str, words: Words) -> Reading:
        """The reading of a task without courtesies."""
        return Reading(without_courtesies(task, words), words)

    @cached_property
    def _lows(self) -> tuple[str, ...]:
        return tuple(token.low for token in self.tokens)

    def phrases(self, at: int) -> tuple[Span, ...]:
        """The known phrases that begin at a token."""
        known = self._spans.get(at)
        if known is None:
            known = self._spans[at] = _spans(self._lows, at, self._words)
        return known

    def skips(self, at: int) -> int:
        """How many tokens from this one on are optional."""
        lows = self._lows
        for length in self._words.skips.get(lows[at], ()):
            if lows[at : at + length] in self._words.optional:
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
        named = (each for each in self.tokens if not each.first and may_be_name(each, self._words))
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


def _spans(lows: tuple[str, ...], at: int, words: Words) -> tuple[Span, ...]:
    lengths = words.lengths.get(lows[at])
    if lengths is None:
        return ()
    found: list[Span] = []
    for length in lengths:
        phrase = lows[at : at + length]
        if len(phrase) == length and (groups := words.same.get(phrase)):
            found.append((length, frozenset(groups)))
    return tuple(found)


def without_courtesies(task: str, words: Words) -> list[Token]:
    """The tokens of a task without phrases such as `Quick question.`, `Thanks!`, `please`."""
    found = tokens(task)
    while (end := _sentence(found)) and end < len(found) and _polite(found[:end], words):
        found = found[end:]
    while (begin := _last_sentence(found)) and _polite(found[begin:], words):
        found = found[:begin]
    while len(found) > 1 and (took := _order(found, words)) and took < len(found):
        found = found[took:]
    while len(found) > 1 and found[-1].kind == "mark" and found[-1].text in _ENDS:
        found = found[:-1]
    return found


def _order(found: list[Token], words: Words) -> int:
    """How many of the first tokens are words such as `could you`."""
    lows = tuple(token.low for token in found[:3])
    return next((took for took in (3, 2, 1) if lows[:took] in words.orders), 0)


def _sentence(found: list[Token]) -> int:
    ends = (at + 1 for at, token in enumerate(found) if token.kind == "mark" and token.text in _ENDS)
    return next(ends, 0)


def _last_sentence(found: list[Token]) -> int:
    ends = [at + 1 for at, token in enumerate(found[:-1]) if token.kind == "mark" and token.text in _ENDS]
    return ends[-1] if ends else 0


def _polite(part: list[Token], words: Words) -> bool:
    return all(token.kind == "mark" or token.low in words.courtesies for token in part)
