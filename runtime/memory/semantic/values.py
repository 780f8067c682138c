"""Whether two sayings agree in their values: numbers, dates, names, negation, opposites; not only in vectors.

A merge needs agreement: what an embedder holds to be the same may contradict each other. In doubt two sayings
differ, and both are kept. What is not told is no contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from runtime.memory.procedural.leaves import Token, tokens
from runtime.memory.semantic.language import Language
from runtime.memory.semantic.terms import Term, Terms, terms_of

Verdict = Literal["same", "open", "differ", "contrary"]
"""Every term agrees; no value differs but the wording does; a value differs; both cannot hold."""
SHARED = 0.5
"""The part of the terms that two sayings share, below which only vectors would say that they are one."""
BRIEF, TERSE = 8, 3
"""Terms of statements of which one may end the other, and of one that its topic alone may end."""


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


@lru_cache(4096)
def canonical(text: str) -> str:
    """The same for texts that differ in case, spaces, signs and how their numbers are written."""
    return " ".join(
        f"{each.value}{each.unit}" if each.kind == "number" and not version(each) else each.low
        for each in tokens(text)
        if each.kind != "mark" or each.text not in ".,;:!?"
    )


def version(token: Token) -> bool:
    """Whether a number may be the number of a version, where 3.10 is not 3.1."""
    return "." in token.text and token.text.endswith("0") and not token.unit


def agreement(a: Said, b: Said, language: Language) -> Agreement:
    """Whether two sayings agree, may be one, differ, or contradict each other; the order does not matter."""
    if canonical(a.text) == canonical(b.text) and (a.who == b.who or not _personal(a, language)):
        return Agreement("same")
    one, other = _terms(a, language), _terms(b, language)
    if one.long or other.long:
        return Agreement("differ", "they are too long to tell", 0.0)
    return _Comparison(one, other, language, a.at <= b.at, b.at <= a.at).verdict()


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

    def __init__(self, one: Terms, other: Terms, language: Language, forth: bool, back: bool) -> None:
        self.one, self.other, self.language = one, other, language
        self.orders = [pair for pair, may in (((one, other), forth), ((other, one), back)) if may]
        pairs = _matched(one.terms, other.terms, language)
        mine, yours = {x.at for x, _ in pairs}, {y.at for _, y in pairs}
        self.pairs = pairs
        self.left = [term for term in one.terms if term.at not in mine]
        self.right = [term for term in other.terms if term.at not in yours]
        count = len(one.terms) + len(other.terms)
        self.shared = 2 * len(pairs) / count if count else 1.0

    def verdict(self) -> Agreement:
        plain = self.one.plain and self.other.plain
        for earlier, later in self.orders if plain else ():
            if change := self._changed(earlier, later):
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
        if turned := self._turned():
            return self._told("differ", turned)
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
                return once or (self.one.equated and self.other.equated)
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

    def _changed(self, earlier: Terms, later: Terms) -> str:
        """Why the later saying tells that what the earlier one said is over; "" where it does not.

        Only of two short statements about the same subject, where the later one takes up what the earlier
        one said of it, or its topic.
        """
        language = self.language
        if not earlier.terms or not later.terms or max(len(earlier.terms), len(later.terms)) > BRIEF:
            return ""
        before, after = {term.key for term in earlier.terms}, {term.key for term in later.terms}
        subject = earlier.terms[0].key
        if all(term.key != subject for term in later.terms[:3]):  # the third: my new boss
            return ""
        if earlier.denials and not later.denials:
            return ""
        if any(word in each for each in (language.ends, language.begins, language.now) for word in before):
            return ""
        rest = before - {subject}
        taken_up = len(rest & after) >= max(1, len(rest)) / 2
        topic = len(earlier.terms) <= TERSE and language.on_topic(before, after)
        named = any(term.kind == "name" and term.key not in before for term in later.terms)
        was = any(term.kind == "name" and term.key not in after for term in earlier.terms)
        if after & language.ends and (taken_up or topic):
            return "the later one says that it has ended"
        moved = named and was and (topic or (earlier.copula and len(rest) <= TERSE))
        if after & language.begins and (moved or (topic and not named)):
            return "the later one says that it has changed"
        if after & language.now and ((named and was and taken_up) or topic):
            return "the later one says how it is now"
        return ""

    def _turned(self) -> str:
        """Two names in another order: who does something to whom is not the same."""
        if self.one.passive != self.other.passive or self.one.copula != self.other.copula:
            return ""
        names = [(x.at, y.at) for x, y in self.pairs if x.kind == y.kind == "name"]
        order = [at for _, at in sorted(names)]
        return "their names stand in another order" if order != sorted(order) else ""


def _comparable(x: Term, y: Term) -> bool:
    if x.kind == "number":
        return x.unit == y.unit or not x.unit or not y.unit
    if x.kind == "date" and any(x.parts) and any(y.parts):
        return any(mine and yours and mine != yours for mine, yours in zip(x.parts, y.parts, strict=True))
    return x.kind != "date" or any(x.parts) == any(y.parts)


def _matched(one: tuple[Term, ...], other: tuple[Term, ...], language: Language) -> list[tuple[Term, Term]]:
    """Pairs of terms that mean the same, each in one pair: those that are equal first, then the nearest."""
    pairs: list[tuple[Term, Term]] = []
    free: dict[str, list[Term]] = {}
    for y in other:
        free.setdefault(y.base or f"{y.kind} {y.key}", []).append(y)
    left: list[Term] = []
    for x in one:
        fits = free.get(x.base or f"{x.kind} {x.key}")
        if not fits:
            left.append(x)
            continue
        best = min(fits, key=lambda y: abs(y.at - x.at))
        fits.remove(best)
        pairs.append((x, best))
    rest = [y for fits in free.values() for y in fits if not y.base or y.base in language.groups]
    for x in left:
        if x.base and x.base not in language.groups:
            continue
        fits = [y for y in rest if _alike(x, y, language)]
        if fits:
            best = min(fits, key=lambda y: abs(y.at - x.at))
            rest.remove(best)
            pairs.append((x, best))
    return pairs


def _alike(x: Term, y: Term, language: Language) -> bool:
    if x.kind == "number" and y.kind == "number":
        return x.amount is not None and x.amount == y.amount and bool(x.unit) != bool(y.unit)
    if x.kind == "date" and y.kind == "date":
        told = [(mine, yours) for mine, yours in zip(x.parts, y.parts, strict=True) if mine and yours]
        return bool(told) and all(mine == yours for mine, yours in told)
    if x.kind in ("word", "name") and y.kind in ("word", "name"):
        return language.alike(x.base, y.base)
    return False
