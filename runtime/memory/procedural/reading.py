"""A task as it is compared: its tokens, the phrases that begin at each, and what its words are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from runtime.memory.procedural.leaves import Token, tokens, without_courtesies
from runtime.memory.procedural.words import Words, stem

Span = tuple[int, frozenset[int]]
"""How many tokens a phrase takes, and the groups it is in."""
_ASKS = frozenset("how what which who find calculate compute determine".split())  # noqa: SIM905
_IFS = frozenset("if when assuming given provided".split())  # noqa: SIM905


class Reading:
    """A task as alignment needs it; most of it is found out when it is first asked for."""

    def __init__(self, found: Sequence[Token], words: Words) -> None:
        self.tokens = found
        self._words = words
        self._spans: dict[int, tuple[Span, ...]] = {}

    @staticmethod
    def read(task: str, words: Words) -> Reading:
        """The reading of a task without what asks for nothing."""
        return Reading(without_courtesies(tokens(task), words), words)

    @cached_property
    def _lows(self) -> tuple[str, ...]:
        return tuple(token.low for token in self.tokens)

    def phrases(self, at: int) -> tuple[Span, ...]:
        """The phrases that begin at a token."""
        known = self._spans.get(at)
        if known is None:
            known = self._spans[at] = _spans(self._lows, at, self._words)
        return known

    def skips(self, at: int) -> int:
        """How many tokens may be missing from this one on."""
        lows = self._lows
        for length in self._words.skips.get(lows[at], ()):
            if lows[at : at + length] in self._words.optional:
                return length
        return 0

    @cached_property
    def leaves(self) -> tuple[tuple[str, str], ...]:
        """Kind and unit of each leaf, but for times: `2 times` is `twice`."""
        pairs = zip(self.tokens, (*self._lows[1:], ""), strict=True) if self.tokens else ()
        return tuple((t.kind, t.unit) for t, behind in pairs if t.leaf and behind not in ("times", "time"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Words that stand inside a sentence as names do."""
        named = (each for each in self.tokens if not each.first and may_be_name(each, self._words))
        return frozenset(each.low.removesuffix("'s") for each in named)

    @cached_property
    def lows(self) -> frozenset[str]:
        """All words."""
        return frozenset(self._lows)

    @cached_property
    def stems(self) -> frozenset[str]:
        """What words have in common with their plurals."""
        return frozenset(stem(token.low) for token in self.tokens if token.kind == "word")

    @cached_property
    def asked(self) -> range:
        """Where the last sentence asks, up to a condition that it states."""
        found = self.tokens
        begin = max((at for at, token in enumerate(found) if token.first), default=0)
        begin = next((at for at in range(begin, len(found)) if found[at].low in _ASKS), begin)
        end = next((at for at in range(begin, len(found)) if found[at].low in _IFS), len(found))
        return range(begin, end)

    def holds(self, phrase: tuple[str, ...]) -> bool:
        """Whether these words stand anywhere in it, one behind the other."""
        size = len(phrase)
        return self.lows.issuperset(phrase) and any(
            self._lows[at : at + size] == phrase for at in range(len(self._lows) - size + 1)
        )


def may_be_name(token: Token, words: Words) -> bool:
    """Whether a word may be a name; inside a sentence some words may that are none at its beginning."""
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
