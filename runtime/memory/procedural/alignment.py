"""Whether two tasks are the same but for their leaves: an alignment span by span, or why there is none.

A variation must align from its first word to its last. What differs is a leaf of the same kind, a name or a
noun that is exchanged for another throughout, or a phrase that means the same. A wrong replay is the worst
error that this memory can make, so whatever is none of these is another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.memory.procedural.leaves import LONGEST, Token
from runtime.memory.procedural.words import Words, stem

ADJECTIVES = 3
"""How many words before a noun its number, article or possessive is looked for."""
_OBJECTS = frozenset({"a", "an", "the", "his", "her", "their", "its", "my", "our", "your", "some", "all"})
_CONJUNCTIONS = frozenset({"and", "or", "with", "of", "in", "on", "for", "by", "like", "as"})
_NOT_NOUNS = ("ed", "ly", "est")


@dataclass
class Alignment:
    """What stands for what: leaves in pairs, and names and nouns that were exchanged throughout."""

    leaves: list[tuple[Token, Token]] = field(default_factory=list[tuple[Token, Token]])
    exchanged: dict[str, str] = field(default_factory=dict[str, str])  # in each form that it has
    phrases: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def exact(self) -> bool:
        """Whether nothing differs but how it is written."""
        return not self.exchanged and all(same(old, new) for old, new in self.leaves)


@dataclass(frozen=True)
class Refusal:
    """Why a task is no variation of another."""

    why: str


def same(old: Token, new: Token) -> bool:
    """Whether two leaves mean the same value, however they are written."""
    return old.value == new.value and old.unit == new.unit


def align(old: Sequence[Token], new: Sequence[Token], words: Words) -> Alignment | Refusal:
    """The alignment of a new task with a stored one, or why it is another task."""
    if len(old) > LONGEST or len(new) > LONGEST:
        return Refusal(f"longer than {LONGEST} words")
    path = _Search(old, new, words).path()
    if isinstance(path, Refusal):
        return path
    return _consistent(old, new, path, words)


@dataclass(frozen=True)
class _Pair:
    """One move of an alignment: where it begins in both, how many tokens it takes, and what it is."""

    old: int
    new: int
    took: int
    takes: int
    kind: str  # same, leaf, phrase, name, noun


class _Search:
    """Depth first over the pairs of places that can be reached: nearly always only the diagonal."""

    def __init__(self, old: Sequence[Token], new: Sequence[Token], words: Words) -> None:
        self.old, self.new, self.words = old, new, words
        self.names = {each.low.removesuffix("'s") for each in old if self._named(each) and not each.first}
        self.far = 0

    def path(self) -> list[_Pair] | Refusal:
        dead: set[tuple[int, int]] = set()
        trail: list[_Pair] = []
        stack = [iter(self._moves(0, 0))]
        if not (self.old and self.new):
            return Refusal("one of them is empty")
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if trail:
                    last = trail.pop()
                    dead.add((last.old + last.took, last.new + last.takes))
                continue
            place = (move.old + move.took, move.new + move.takes)
            if place in dead:
                continue
            trail.append(move)
            self.far = max(self.far, place[1])
            if place == (len(self.old), len(self.new)):
                return trail
            stack.append(iter(self._moves(*place)))
        token = self.new[min(self.far, len(self.new) - 1)]
        return Refusal(f"no counterpart for {token.text!r}")

    def _moves(self, at: int, to: int) -> list[_Pair]:
        """What may be done from a pair of places, the surest first."""
        found: list[_Pair] = []
        if at >= len(self.old) or to >= len(self.new):
            return found
        x, y = self.old[at], self.new[to]
        if x.leaf and x.kind == y.kind and x.unit == y.unit:
            found.append(_Pair(at, to, 1, 1, "leaf"))
        elif not x.leaf and not y.leaf and x.low == y.low:
            found.append(_Pair(at, to, 1, 1, "same"))
        found += self._phrases(at, to)
        if x.kind == y.kind == "word" and x.low != y.low and x.low.endswith("'s") == y.low.endswith("'s"):
            if self._is_name(at) and self._named(y):
                found.append(_Pair(at, to, 1, 1, "name"))
            elif self._exchangeable(x) and self._exchangeable(y):
                found.append(_Pair(at, to, 1, 1, "noun"))
        return found

    def _phrases(self, at: int, to: int) -> list[_Pair]:
        found: list[_Pair] = []
        same, longest = self.words.same, self.words.longest
        for took in range(1, min(longest, len(self.old) - at) + 1):
            first = same.get(tuple(token.low for token in self.old[at : at + took]))
            for takes in range(1, min(longest, len(self.new) - to) + 1) if first else ():
                second = same.get(tuple(token.low for token in self.new[to : to + takes]))
                if first and second and first & second:
                    found.append(_Pair(at, to, took, takes, "phrase"))
        return found

    def _named(self, token: Token) -> bool:
        """Whether a word may be a name."""
        low = token.low.removesuffix("'s")
        return token.kind == "word" and token.text[0].isupper() and low not in self.words.fixed

    def _is_name(self, at: int) -> bool:
        """Whether a stored word is a name; one that begins a sentence may be an order: `Square 5`."""
        token = self.old[at]
        if not self._named(token):
            return False
        low = token.low.removesuffix("'s")
        if low in self.names or not token.first:
            return low in self.names
        behind = self.old[at + 1] if at + 1 < len(self.old) else token
        tells = behind.kind == "word" and behind.low not in self.words.markers - _CONJUNCTIONS
        return token.low.endswith("'s") or (tells and (low,) not in self.words.same)

    def _exchangeable(self, token: Token) -> bool:
        low = token.low.removesuffix("'s")
        fixed = self.words.fixed
        verbal = len(low) > 5 and low.endswith(_NOT_NOUNS)
        return len(low) > 2 and not verbal and low not in fixed and stem(low) not in fixed


def _consistent(
    old: Sequence[Token], new: Sequence[Token], path: Sequence[_Pair], words: Words
) -> Alignment | Refusal:
    """One to one throughout: a word that is exchanged is so everywhere, for one that was not there."""
    found = Alignment()
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    kept = {stem(old[each.old].low) for each in path if each.kind == "same"}
    there = {stem(token.low) for token in old if token.kind == "word"}
    nouns: dict[str, bool] = {}
    for pair in path:
        x, y = old[pair.old], new[pair.new]
        if pair.kind == "leaf":
            found.leaves.append((x, y))
        elif pair.kind == "phrase":
            olds, news = old[pair.old : pair.old + pair.took], new[pair.new : pair.new + pair.takes]
            found.phrases.append((_text(olds), _text(news)))
        elif pair.kind in ("name", "noun"):
            was, becomes = _stem(x, pair.kind), _stem(y, pair.kind)
            found.exchanged[x.low.removesuffix("'s")] = y.low.removesuffix("'s")
            if forth.setdefault(was, becomes) != becomes:
                return Refusal(f"{was!r} stands for {forth[was]!r} and for {becomes!r}")
            if back.setdefault(becomes, was) != was:
                return Refusal(f"{becomes!r} stands for {back[becomes]!r} and for {was!r}")
            seen = pair.kind == "name" or _noun_like(old, pair.old, words)
            nouns[was] = nouns.get(was, False) or seen
    for was, becomes in forth.items():
        if was in kept:
            return Refusal(f"{was!r} is exchanged in one place and kept in another")
        if becomes in there:
            return Refusal(f"{becomes!r} had another part in the stored task")
        if not nouns[was]:
            return Refusal(f"{was!r} and {becomes!r} are not known to mean the same")
    return found


def _text(part: Sequence[Token]) -> str:
    return " ".join(token.low for token in part)


def _stem(token: Token, kind: str) -> str:
    return token.low.removesuffix("'s") if kind == "name" else stem(token.low)


def _noun_like(found: Sequence[Token], at: int, words: Words) -> bool:
    """Whether a word stands where a noun does: behind a number, an article or a possessive."""
    behind = found[at + 1] if at + 1 < len(found) else None
    if behind is not None and (behind.kind == "number" or behind.low in _OBJECTS):
        return False  # as a verb does before what it acts on
    for token in reversed(found[max(0, at - ADJECTIVES) : at]):
        if token.kind == "number" or token.low in words.markers or token.low.endswith("'s"):
            return True
        if token.kind != "word" or token.low in words.fixed:
            return False
    return False
