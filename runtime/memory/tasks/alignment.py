"""Aligns two tasks word by word: a variation differs from a stored task only in values, names, and wording.

A variation aligns from its first word to its last. What differs is a value of the same kind, a name or noun
that is replaced throughout, or a phrase with the same meaning. Anything else is another task: a wrong replay
is the worst error of this memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from runtime.memory.tasks import Refusal
from runtime.memory.tasks.reading import LONGEST, Reading, may_be_name
from runtime.memory.tasks.words import Words
from runtime.text.inflection import plural, singular
from runtime.text.tokens import Token

ADJECTIVES = 3
"""Words before a noun among which its number, article or possessive is looked for."""
_OBJECTS = frozenset({"a", "an", "the", "his", "her", "their", "its", "my", "our", "your", "some", "all"})
_CONJUNCTIONS = frozenset({"and", "or", "with", "of", "in", "on", "for", "by", "like", "as"})
_EACH = frozenset({"each", "every", "per", "many"})
_NOT_NOUNS = ("ed", "ly", "est")
_ADJECTIVAL = ("al", "ary", "ern", "ful", "ible", "ic", "id", "ine", "ish", "ive", "less", "ous", "ular", "y")
"""Endings of what before a noun says which kind is meant: no other is another name for it."""
_NONE: frozenset[Fraction] = frozenset()


@dataclass
class Alignment:
    """Pairs of values, and the names and nouns that were replaced throughout."""

    leaves: list[tuple[Token, Token]] = field(default_factory=list[tuple[Token, Token]])
    exchanged: dict[str, str] = field(default_factory=dict[str, str])  # in each of its forms
    phrases: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    counted: set[str] = field(default_factory=set[str])  # exchanged nouns after a number or `each`
    asked: set[str] = field(default_factory=set[str])  # exchanged nouns that are only in the question
    widened: set[str] = field(default_factory=set[str])  # of the asked: replaced by a general word
    implied: set[Fraction] = field(default_factory=set[Fraction])  # numbers that words of the task imply
    meant: set[Fraction] = field(default_factory=set[Fraction])  # of these: numbers that a word means
    constants: set[Fraction] = field(default_factory=set[Fraction])  # numbers that any word implies
    beside: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    # exchanged words, each with the word that `or` or `and` joins it to
    reordered: bool = False  # the clauses stand in another order

    @property
    def exact(self) -> bool:
        """Whether the tasks differ only in spelling and wording."""
        return not (self.exchanged or self.differing or self.reordered)

    @property
    def differing(self) -> list[tuple[Token, Token]]:
        """The leaves that differ in more than spelling."""
        return [(old, new) for old, new in self.leaves if (old.value, old.unit) != (new.value, new.unit)]

    @property
    def changed(self) -> tuple[tuple[str, str], ...]:
        """The stored and new texts of what differs."""
        return (*((old.text, new.text) for old, new in self.differing), *self.exchanged.items())


def align(old: Reading, new: Reading) -> Alignment | Refusal:
    """The alignment of a stored task with a new one, or why the new one is another task."""
    if len(old.tokens) > LONGEST or len(new.tokens) > LONGEST:
        return Refusal(f"longer than {LONGEST} words")
    path = _Search(old, new).path()
    return path if isinstance(path, Refusal) else _consistent(old, new, path)


class _Pair(NamedTuple):
    """One move of an alignment: where it begins in both tasks, and how many tokens of each it takes."""

    old: int
    new: int
    took: int
    takes: int
    kind: str  # same, leaf, phrase, name, noun, gender, skip

    @property
    def end(self) -> tuple[int, int]:
        """Where it ends in both tasks."""
        return self.old + self.took, self.new + self.takes


class _Search:
    """A depth-first search for a path of moves; nearly always the diagonal."""

    def __init__(self, old: Reading, new: Reading) -> None:
        self.old, self.new, self.words = old, new, old.words
        self.olds, self.news = old.tokens, new.tokens
        self.far = 0

    def path(self) -> list[_Pair] | Refusal:
        if not (self.olds and self.news):
            return Refusal("one of them is empty")
        dead: set[tuple[int, int]] = set()
        trail: list[_Pair] = []
        stack = [self._moves(0, 0)]
        while stack:
            move = next(stack[-1], None)
            if move is None:
                stack.pop()
                if trail:
                    dead.add(trail.pop().end)
            elif move.end not in dead:
                trail.append(move)
                self.far = max(self.far, move.end[1])
                if move.end == (len(self.olds), len(self.news)):
                    return trail
                stack.append(self._moves(*move.end))
        return Refusal(f"no counterpart for {self.news[min(self.far, len(self.news) - 1)].text!r}")

    def _moves(self, at: int, to: int) -> Iterator[_Pair]:
        """The possible moves from a pair of places, the safest first."""
        if at < len(self.olds) and to < len(self.news):
            x, y = self.olds[at], self.news[to]
            if x.leaf and x.kind == y.kind and x.unit == y.unit:
                yield _Pair(at, to, 1, 1, "leaf")
            elif not x.leaf and not y.leaf and (x.low == y.low or _agree(x, y)):
                yield _Pair(at, to, 1, 1, "same")
            for took, groups in self.old.phrases[at]:
                for takes, others in self.new.phrases[to]:
                    if not groups.isdisjoint(others):
                        yield _Pair(at, to, took, takes, "phrase")
            if x.kind == y.kind == "word" and x.low != y.low:
                kind = self._exchange(at, x, y)
                if kind:
                    yield _Pair(at, to, 1, 1, kind)
        if at < len(self.olds) and (took := self.old.skips(at)):
            yield _Pair(at, to, took, 0, "skip")
        if to < len(self.news) and (takes := self.new.skips(to)):
            yield _Pair(at, to, 0, takes, "skip")

    def _exchange(self, at: int, x: Token, y: Token) -> str:
        """As what one word may replace another: gender, name, noun, or \"\" for not at all."""
        if (x.low, y.low) in self.words.swaps:
            return "gender"
        if x.low.endswith("'s") != y.low.endswith("'s"):
            return ""
        if self._is_name(at):
            named = y.text[0].isupper() and y.low.removesuffix("'s") in self.words.names
            return "name" if named or may_be_name(y, self.words) else ""
        several = (x.low in self.words.groups) != (y.low in self.words.groups)
        if several or not (self._exchangeable(x) and self._exchangeable(y)):
            return ""
        qualifies = x.low.endswith(_ADJECTIVAL) or y.low.endswith(_ADJECTIVAL)
        return "" if qualifies and self._before_noun(at) else "noun"

    def _is_name(self, at: int) -> bool:
        """Whether a stored word is a name; the first word of a sentence may be an order: `Square 5`."""
        token = self.olds[at]
        low = token.low.removesuffix("'s")
        if low in self.old.names:
            return token.text[0].isupper()
        if not token.first or not may_be_name(token, self.words):
            return False
        behind = self.olds[at + 1] if at + 1 < len(self.olds) else token
        followed = behind.kind == "word" and behind.low not in self.words.markers - _CONJUNCTIONS
        an_order = (low,) in self.words.same and low not in self.words.names
        return token.low.endswith("'s") or (followed and not an_order)

    def _exchangeable(self, token: Token) -> bool:
        low = token.low.removesuffix("'s")
        verbal = len(low) > 5 and low.endswith(_NOT_NOUNS)
        forms = {low, singular(low)}
        kept = not self.words.fixed.isdisjoint(forms) or not self.words.implied.keys().isdisjoint(forms)
        return len(low) > 2 and not verbal and not kept

    def _before_noun(self, at: int) -> bool:
        """Whether another word than a function word follows."""
        behind = self.olds[at + 1] if at + 1 < len(self.olds) else self.olds[at]
        return behind.kind == "word" and behind.low not in self.words.fixed | self.words.markers


def _consistent(old: Reading, new: Reading, path: Sequence[_Pair]) -> Alignment | Refusal:
    """The alignment of a path, if words are replaced one to one, throughout, by words of no other role."""
    words, olds, news = old.words, old.tokens, new.tokens
    by_kind: dict[str, list[_Pair]] = {}
    for pair in path:
        by_kind.setdefault(pair.kind, []).append(pair)
    kept = {olds[pair.old].low for pair in by_kind.get("same", ())}
    phrases = [
        (olds[pair.old : pair.end[0]], news[pair.new : pair.end[1]]) for pair in by_kind.get("phrase", ())
    ]
    meanings = [(_lows(was), _lows(becomes)) for was, becomes in phrases]
    found = Alignment(
        leaves=[(olds[pair.old], news[pair.new]) for pair in by_kind.get("leaf", ())],
        phrases=[(" ".join(was), " ".join(becomes)) for was, becomes in meanings],
        constants=words.constants,
    )
    units = [token.unit for token, _ in found.leaves]
    for low in (*kept, *units, *(low for was, _ in meanings for low in was)):
        found.implied |= words.implied.get(low, _NONE)
        found.meant |= words.means.get(low, _NONE)
    why = _replaced(old, new, path, kept, found)
    for was, becomes in meanings:
        strict = words.same[was] & words.same[becomes] <= words.strict
        if not why and strict and old.holds(becomes) and not kept.issuperset(becomes):
            why = f"{' '.join(becomes)!r} has another role in the stored task"
    genders = {
        (words.genders[olds[p.old].low], words.genders[news[p.new].low]) for p in by_kind.get("gender", ())
    }
    for side, other in genders if not why else ():
        if any(words.genders.get(low) == side for low in kept):
            why = "he and she are replaced in one place and kept in another"
        elif any(words.genders.get(low) == other for low in old.lows):
            why = "he and she have other roles in the stored task"
    return Refusal(why) if why else found


def _replaced(old: Reading, new: Reading, path: Sequence[_Pair], kept: set[str], found: Alignment) -> str:
    """Note the names and nouns that are replaced; why they cannot be, or \"\"."""
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    nouns: set[str] = set()  # the words at the place of a name or noun
    things: set[str] = set()  # the words that are no names
    stated: set[str] = set()  # the words that are not only in the question
    for pair in path:
        if pair.kind not in ("name", "noun"):
            continue
        x, y = old.tokens[pair.old], new.tokens[pair.new]
        was, becomes = _stem(x, pair.kind), _stem(y, pair.kind)
        low = x.low.removesuffix("'s")
        found.exchanged[low] = y.low.removesuffix("'s")
        if forth.setdefault(was, becomes) != becomes:
            return f"{was!r} became {forth[was]!r} and {becomes!r}"
        if back.setdefault(becomes, was) != was:
            return f"{becomes!r} replaces {back[becomes]!r} and {was!r}"
        if pair.kind == "name" or _noun_like(old.tokens, pair.old, old.words):
            nouns.add(was)
        if pair.kind == "noun":
            things.add(low)
            counted = _counted(old.tokens, pair.old)
            if counted:
                found.counted.add(low)
            if pair.old not in old.asked or counted == "number":
                stated.add(was)
    stems = {singular(low) for low in kept}
    for was, becomes in forth.items():
        if singular(was) in stems:
            return f"{was!r} is replaced in one place and kept in another"
        if singular(becomes) in old.stems:
            return f"{becomes!r} has another role in the stored task"
        if was not in nouns:
            return f"{was!r} and {becomes!r} are not known to mean the same"
    found.beside = {pair for pair in _joined(old.tokens) if pair[0] in found.exchanged}
    found.asked = {low for low in things if singular(low) not in stated}
    found.widened = {low for low in found.asked if found.exchanged[low] in old.words.general}
    return ""


def _joined(found: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """The words that `or` or `and` joins, in both directions: one of them may be what was chosen."""
    plain = [token.low for token in found if token.kind == "word" and token.low not in _OBJECTS]
    for at in range(1, len(plain) - 1):
        if plain[at] in ("or", "and"):
            yield plain[at - 1], plain[at + 1]
            yield plain[at + 1], plain[at - 1]


def _lows(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.low for token in tokens)


def _agree(x: Token, y: Token) -> bool:
    return x.kind == y.kind == "word" and (x.low == plural(y.low) or y.low == plural(x.low))


def _stem(token: Token, kind: str) -> str:
    return token.low.removesuffix("'s") if kind == "name" else singular(token.low)


def _noun_like(found: Sequence[Token], at: int, words: Words) -> bool:
    """Whether a word is at the place of a noun: after a number, an article or a possessive."""
    behind = found[at + 1] if at + 1 < len(found) else None
    if behind is not None and (behind.kind == "number" or behind.low in _OBJECTS):
        return False  # a verb before its object
    for token in reversed(found[max(0, at - ADJECTIVES) : at]):
        if token.kind == "number" or token.low in words.markers or token.low.endswith("'s"):
            return True
        if token.kind != "word" or (token.low in words.fixed and token.low not in words.adjectives):
            return False
    return False


def _counted(found: Sequence[Token], at: int) -> str:
    """How a word is counted: `number`, `each`, or \"\"."""
    for token in reversed(found[max(0, at - ADJECTIVES) : at]):
        if token.kind != "word":
            return token.kind if token.kind == "number" else ""
        if token.low in _EACH:
            return "each"
    return ""
