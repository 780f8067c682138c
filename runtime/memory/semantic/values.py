"""Whether two sayings agree in their values: numbers, dates, names, negation, opposites; not only in vectors.

A merge needs agreement: what an embedder holds to be the same may contradict each other. In doubt two sayings
differ, and both are kept. What is not told is no contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from runtime.memory.procedural.leaves import tokens
from runtime.memory.semantic.language import Language
from runtime.memory.semantic.terms import Term, Terms, terms_of

Verdict = Literal["same", "open", "differ", "contrary"]
"""Every term agrees; no value differs but the wording does; a value differs; both cannot hold."""
SHARED = 0.5
"""The part of the terms that two sayings share, below which only vectors would say that they are one."""


@dataclass(frozen=True)
class Agreement:
    """How two sayings stand to each other in their values, and why."""

    verdict: Verdict
    why: str = ""
    shared: float = 1.0  # the part of their terms that they have in common
    both: bool = False  # each has words that the other has not
    update: bool = False  # the later one says that something has changed
    valued: bool = False  # numbers, dates or times differ

    @property
    def mergeable(self) -> bool:
        """Whether nothing speaks against one memory for both."""
        return self.verdict in ("same", "open")

    @property
    def clashes(self) -> bool:
        """Whether both cannot stand beside each other as evidence of one thing."""
        return self.verdict == "contrary" or self.valued


@dataclass(frozen=True)
class Said:
    """A text, who said it (`I` is this one) and when."""

    text: str
    who: str = ""
    at: str = ""


def canonical(text: str) -> str:
    """The same for texts that differ in case, spaces, signs and how their numbers are written."""
    return " ".join(
        f"{each.value}{each.unit}" if each.kind == "number" else each.low
        for each in tokens(text)
        if each.kind != "mark" or each.text not in ".,;:!?"
    )


def agreement(a: Said, b: Said, language: Language) -> Agreement:
    """Whether two sayings agree, may be one, differ, or contradict each other; the order does not matter."""
    if canonical(a.text) == canonical(b.text) and (a.who == b.who or not _personal(a, language)):
        return Agreement("same")
    one, other = _terms(a, language), _terms(b, language)
    if one.long or other.long:
        return Agreement("differ", "they are too long to tell", 0.0)
    return _Comparison(one, other, language, a.at <= b.at).verdict()


def _personal(said: Said, language: Language) -> bool:
    return bool(
        _terms(said, language).lows & {"i", "me", "my", "we", "our", "us", "mine", "i'm", "i've", "i'd"}
    )


def _terms(said: Said, language: Language) -> Terms:
    return _read(said.text, said.who, id(language), _Holder(language))


class _Holder:
    """A language as an argument that a cache does not look at."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder)

    def __hash__(self) -> int:
        return 0


@lru_cache(4096)
def _read(text: str, who: str, _: int, holder: _Holder) -> Terms:
    return terms_of(text, holder.language, who)


class _Comparison:
    """Two sayings term by term: what each has that the other has not, and in what that differs."""

    def __init__(self, one: Terms, other: Terms, language: Language, in_order: bool) -> None:
        self.one, self.other, self.language = one, other, language
        self.earlier, self.later = (one, other) if in_order else (other, one)
        pairs = _matched(one.terms, other.terms, language)
        mine, yours = {x.at for x, _ in pairs}, {y.at for _, y in pairs}
        self.pairs = pairs
        self.left = [term for term in one.terms if term.at not in mine]
        self.right = [term for term in other.terms if term.at not in yours]
        count = len(one.terms) + len(other.terms)
        self.shared = 2 * len(pairs) / count if count else 1.0

    def verdict(self) -> Agreement:
        plain = self.one.plain and self.other.plain
        if plain and (change := self._changed()):
            return Agreement("contrary", change, self.shared, update=True)
        odd = (self.one.denials - self.other.denials) % 2 == 1
        left, right, opposed = self._opposites()
        if odd and any(kind == "either" for _, _, kind in opposed):
            odd, opposed = False, opposed[1:]  # not open is closed
        clashes = [(x, y) for x in left for y in right if self._clash(x, y)]
        rest_left = [x for x in left if all(x is not each for each, _ in clashes)]
        rest_right = [y for y in right if all(y is not each for _, each in clashes)]
        bare = not rest_left and not rest_right
        if odd:
            told = "one denies what the other says"
            alone = (
                not clashes and not opposed and self.shared >= SHARED and self._little(rest_left, rest_right)
            )
            return self._told("contrary" if alone else "differ", told)
        if opposed:
            x, y, kind = opposed[0]
            alone = (
                not clashes and len(opposed) == 1 and bare and kind != "different" and not (x.led and y.led)
            )
            return self._told("contrary" if alone else "differ", f"{x.text} is the opposite of {y.text}")
        if clashes:
            x, y = clashes[0]
            alone = bare and len(clashes) == 1 and self._excludes(x, y)
            valued = any(each.kind in ("number", "date", "time") for each, _ in clashes)
            return self._told("contrary" if alone else "differ", f"{x.text} is not {y.text}", valued)
        if bare:
            if swapped := self._swapped():
                return self._told("contrary", swapped)
            return self._told("same", "")
        if one_for_other := self._substituted(rest_left, rest_right):
            return self._told("differ", one_for_other)
        if self._marked(rest_left) or self._marked(rest_right):
            return self._told("differ", "one of them is about another one")
        return self._told("open", "")

    def _told(self, verdict: Verdict, why: str, valued: bool = False) -> Agreement:
        if verdict == "contrary" and not (self.one.plain and self.other.plain):
            verdict = "differ"
        return Agreement(verdict, why, self.shared, bool(self.left and self.right), valued=valued)

    # ---- opposites -----------------------------------------------------------------------------------------

    def _opposites(self) -> tuple[list[Term], list[Term], list[tuple[Term, Term, str]]]:
        """What is left without the opposites, and these."""
        left, right = list(self.left), list(self.right)
        found: list[tuple[Term, Term, str]] = []
        for x in self.left:
            for y in right:
                if x.kind == y.kind == "word" and (kind := self.language.opposed(x.key, y.key)):
                    found.append((x, y, kind))
                    left.remove(x)
                    right.remove(y)
                    break
        return left, right, found

    def _little(self, left: list[Term], right: list[Term]) -> bool:
        """Whether what is left over says hardly anything: yet, any, now."""
        return len(left) + len(right) <= 1 and all(term.kind == "word" for term in (*left, *right))

    # ---- values --------------------------------------------------------------------------------------------

    def _clash(self, x: Term, y: Term) -> bool:
        """Whether one term stands where the other has another value."""
        if x.kind == "name" and y.kind == "name":
            return True
        if x.kind in ("number", "date", "time") and x.kind == y.kind:
            return _comparable(x, y)
        return x.kind == y.kind == "word" and self.language.exclusive(x.key, y.key)

    def _excludes(self, x: Term, y: Term) -> bool:
        """Whether of these two values only one can be, all else being equal."""
        if x.led and y.led:
            return False  # the Paris office, the London office
        words = {term.key for term, _ in self.pairs}
        single = bool(words & self.language.single)
        once = bool(words & self.language.once)
        state = self.one.copula and self.other.copula
        event = self.one.past and self.other.past and not state
        if x.kind == "number":
            return not event
        if x.kind in ("date", "time"):
            return once or not event
        if x.kind == "name":
            if x.at == 0 and y.at == 0:
                return once or event or (state and not single)
            return state or single or once
        return state or single

    def _marked(self, terms: list[Term]) -> bool:
        return any(term.low in self.language.others or term.unit == "#" for term in terms)

    def _substituted(self, left: list[Term], right: list[Term]) -> str:
        """One word in the place of another that does not mean the same."""
        if len(left) == len(right) == 1 and left[0].kind == right[0].kind == "word":
            x, y = left[0], right[0]
            if x.at == y.at:
                return f"{x.text} is not {y.text}"
        return ""

    def _swapped(self) -> str:
        """Two terms that have changed places: Alice lent Bob, Bob lent Alice."""
        if self.one.passive != self.other.passive or self.one.copula != self.other.copula:
            return ""
        order = [y.at for _, y in sorted(self.pairs, key=lambda pair: pair[0].at)]
        moved = [n for n, at in enumerate(order) if n != at]
        if len(moved) != 2:
            return ""
        x, y = (self.one.terms[n] for n in moved)
        if x.kind not in ("name", "word") or x.kind != y.kind or y.at - x.at < 2:
            return ""
        return f"{x.text} and {y.text} have changed places"

    # ---- change --------------------------------------------------------------------------------------------

    def _changed(self) -> str:
        """Why the later saying tells that what the earlier one said is over; "" where it does not."""
        language, earlier, later = self.language, self.earlier, self.later
        before, after = {term.key for term in earlier.terms}, {term.key for term in later.terms}
        subject = earlier.terms[0].key if earlier.terms else ""
        if not subject or subject not in after:
            return ""
        markers = language.ends | language.begins | language.now
        if before & markers or (earlier.denials and not later.denials):
            return ""
        topics = language.on_topic(before, after)
        rest = (before & after) - {subject}
        named = [term for term in later.terms if term.kind == "name" and term.key not in before]
        was = [term for term in earlier.terms if term.kind == "name" and term.key not in after]
        if after & language.ends and (topics or rest) and (rest or named or topics):
            return "the later one says that it has ended" if rest or topics else ""
        if after & language.begins and (
            (named and was and (topics or rest or earlier.copula)) or (topics and not named)
        ):
            return "the later one says that it has changed"
        if after & language.now and ((named and was and rest) or topics):
            return "the later one says how it is now"
        return ""


def _comparable(x: Term, y: Term) -> bool:
    if x.kind == "number":
        return x.unit == y.unit or not x.unit or not y.unit
    if x.kind == "date" and any(x.parts) and any(y.parts):
        return any(mine and yours and mine != yours for mine, yours in zip(x.parts, y.parts, strict=True))
    return x.kind != "date" or any(x.parts) == any(y.parts)


def _matched(one: tuple[Term, ...], other: tuple[Term, ...], language: Language) -> list[tuple[Term, Term]]:
    """Pairs of terms that mean the same, each in one pair: those in the same order first."""
    free = list(other)
    pairs: list[tuple[Term, Term]] = []
    for same in (_equal, _alike):
        taken = {x.at for x, _ in pairs}
        for x in one:
            if x.at in taken:
                continue
            fits = [y for y in free if same(x, y, language)]
            if fits:
                best = min(fits, key=lambda y: abs(y.at - x.at))
                pairs.append((x, best))
                free.remove(best)
    return pairs


def _equal(x: Term, y: Term, language: Language) -> bool:
    if x.kind == y.kind:
        return x.key == y.key
    return {x.kind, y.kind} == {"name", "word"} and language.base(x.key) == language.base(y.key)


def _alike(x: Term, y: Term, language: Language) -> bool:
    if x.kind == "number" and y.kind == "number":
        return x.count is not None and x.count == y.count and bool(x.unit) != bool(y.unit)
    if x.kind == "date" and y.kind == "date":
        told = [(mine, yours) for mine, yours in zip(x.parts, y.parts, strict=True) if mine and yours]
        return bool(told) and all(mine == yours for mine, yours in told)
    if x.kind in ("word", "name") and y.kind in ("word", "name"):
        return language.alike(language.base(x.key), language.base(y.key))
    return False
