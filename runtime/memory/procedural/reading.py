"""A task as it is compared: its tokens, the phrases that begin at each, and the order of its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.memory.procedural.leaves import Token, tokens, without_courtesies
from runtime.memory.procedural.words import Words, stem

Span = tuple[int, frozenset[int]]
"""How many tokens a phrase takes, and the groups it is in."""
_ASKS = frozenset("how what which who find calculate compute determine".split())  # noqa: SIM905
_IFS = frozenset("if when assuming given provided".split())  # noqa: SIM905


@dataclass(frozen=True)
class Reading:
    """What alignment needs of a task, made once."""

    tokens: Sequence[Token]
    phrases: tuple[tuple[Span, ...], ...]
    skips: tuple[int, ...]  # tokens that may be missing from each place on
    leaves: tuple[tuple[str, str], ...]  # kind and unit, but for times: `2 times` is `twice`
    names: frozenset[str]  # that stand inside a sentence
    lows: frozenset[str]
    stems: frozenset[str]
    asked: range  # where the question is

    @staticmethod
    def of(found: Sequence[Token], words: Words) -> Reading:
        """The reading of tokens."""
        lows = tuple(token.low for token in found)
        spans = tuple(_spans(lows, at, words) for at in range(len(lows)))
        skips = tuple(_skips(lows, at, words) for at in range(len(lows)))
        pairs = zip(found, (*lows[1:], ""), strict=True) if found else ()
        leaves = tuple((t.kind, t.unit) for t, behind in pairs if t.leaf and behind not in ("times", "time"))
        named = (each for each in found if not each.first and may_be_name(each, words))
        names = frozenset(each.low.removesuffix("'s") for each in named)
        stems = frozenset(stem(token.low) for token in found if token.kind == "word")
        return Reading(found, spans, skips, leaves, names, frozenset(lows), stems, _asked(found))

    @staticmethod
    def read(task: str, words: Words) -> Reading:
        """The reading of a task without what asks for nothing."""
        return Reading.of(without_courtesies(tokens(task), words), words)

    def holds(self, phrase: Sequence[str]) -> bool:
        """Whether these words stand anywhere in it, one behind the other."""
        if not self.lows.issuperset(phrase):
            return False
        size = len(phrase)
        lows = [token.low for token in self.tokens]
        return any(lows[at : at + size] == list(phrase) for at in range(len(lows) - size + 1))


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


def _skips(lows: tuple[str, ...], at: int, words: Words) -> int:
    for length in words.skips.get(lows[at], ()):
        if lows[at : at + length] in words.optional:
            return length
    return 0


def _asked(found: Sequence[Token]) -> range:
    """Where the last sentence asks, up to a condition that it states."""
    begin = max((at for at, token in enumerate(found) if token.first), default=0)
    begin = next((at for at in range(begin, len(found)) if found[at].low in _ASKS), begin)
    return range(begin, next((at for at in range(begin, len(found)) if found[at].low in _IFS), len(found)))
