"""Whether two statements agree in their values: numbers, dates, names, negation, opposites.

A merge needs agreement: an embedder may put statements close together that contradict each other. In doubt
two statements differ, and both are kept. What is not said is no contradiction. None of this ends a statement:
by words, only the literal same with another value does (`another_value`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from runtime.memory.facts.claims import claims_of, modality
from runtime.memory.facts.language import Language
from runtime.memory.facts.terms import Term, Terms, pieces, terms_of, version
from runtime.text.tokens import tokens

Verdict = Literal["same", "open", "differ", "contrary"]
"""All terms agree; no value differs but the wording does; a value differs; both cannot hold."""
_OWNER = re.compile(r"\b(\w+)['’]s\b")
_FIRST = re.compile(r"\b(?:i|we|my|our|me|us)\b", re.IGNORECASE)
_PERFECT = re.compile(r"\b(?:has|have)\s+(?:\w+ly\s+|just\s+|now\s+)?(?!to\b)\w+(?:ed|en)\b", re.IGNORECASE)
"""What has happened: "has moved"."""
SHARED = 0.5
"""The share of terms in common below which similar vectors alone do not merge two statements."""
_VALUES = ("number", "date", "time")


@dataclass(frozen=True)
class Agreement:
    """How two statements relate in their values, and why."""

    verdict: Verdict
    why: str = ""
    shared: float = 1.0  # the share of their terms that they have in common
    both: bool = False  # each has words that the other has not
    valued: bool = False  # numbers, dates or times differ

    @property
    def mergeable(self) -> bool:
        """Whether nothing speaks against one memory for both."""
        return self.verdict in ("same", "open")

    @property
    def clashes(self) -> bool:
        """Whether both cannot be evidence of the same memory."""
        return self.verdict == "contrary" or self.valued


@dataclass(frozen=True)
class Said:
    """A text, who said it (`I` is this person) and when."""

    text: str
    who: str = ""
    at: str = ""


@lru_cache(4096)
def canonical(text: str) -> str:
    """The same for texts that differ in case, spaces, punctuation and how their numbers are written."""
    return " ".join(
        f"{each.value}{each.unit}" if each.kind == "number" and not version(each) else each.low
        for each in tokens(text)
        if each.kind != "mark" or each.text not in ".,;:!?"
    )


def agreement(a: Said, b: Said, language: Language) -> Agreement:
    """Whether two statements are the same, may be one, differ, or contradict each other; symmetric."""
    one, other = (_terms(each.text, each.who, language) for each in (a, b))
    personal = {"i", "me", "my", "mine", "we", "us", "our"} & one.lows
    if canonical(a.text) == canonical(b.text) and (a.who == b.who or not personal):
        return Agreement("same")
    if one.long or other.long:
        return Agreement("differ", "they are too long to compare", 0.0)
    found = _Comparison(one, other, language).result()
    meant = [modality(each.text, language) for each in (a, b)]
    if found.mergeable and meant[0] != meant[1]:
        return replace(found, verdict="differ", why="one of them does not say how it is")
    owners = [{*_OWNER.findall(each.text.lower())} for each in (a, b)]
    if found.mergeable and all(owners) and owners[0] != owners[1]:
        found = replace(found, verdict="differ", why="one is the other's")
    if found.verdict == "same" or (a.who != b.who and _FIRST.search(f"{a.text} {b.text}")):
        return found
    happened = [each.past or bool(_PERFECT.search(said.text)) for each, said in ((one, a), (other, b))]
    if found.verdict == "open" and happened[0] != happened[1]:
        found = replace(found, verdict="differ", why="one of them tells what has happened")
    changes = [any(each.change for each in claims_of(said.text, "", language)) for said in (a, b)]
    if found.verdict == "open" and changes[0] != changes[1]:
        found = replace(found, verdict="differ", why="one of them tells a change")
    return found


_SUBJECT = r"(?P<subject>(?!an?\b)[\w\s'’.&/+#-]+?)\s+is\s+"
_MARKS = r"[\s.!]*$"
_VALUED = re.compile(rf"{_SUBJECT}(?:now\s+)?(?P<value>\S.*?){_MARKS}", re.IGNORECASE)


def another_value(earlier: Said, later: Said, language: Language) -> str:
    """Why a later statement literally says the earlier one with another value: `X is 5`, `X is 8`; "" if not.

    Subject and attribute are the same words, both values are one number, date or time of the same unit, and
    the same person says it.
    """
    was, becomes = (_VALUED.fullmatch(each.text.strip()) for each in (earlier, later))
    if not was or not becomes or earlier.who != later.who:
        return ""
    if canonical(was["subject"]) != canonical(becomes["subject"]):
        return ""
    old, new = (_value(each["value"], language) for each in (was, becomes))
    if old is None or new is None or old[1] != new[1] or old[0] == new[0]:
        return ""
    return f"{was['value']} is now {becomes['value']}"


def _value(text: str, language: Language) -> tuple[object, object] | None:
    """A single value as what it is, and all that must be the same beside it; None for anything else."""
    first, *rest = pieces(text, language)
    if first.kind not in _VALUES or any(each.kind in (*_VALUES, "name") for each in rest):
        return None
    if first.kind == "date" and not first.parts[2]:
        return None  # a weekday comes again
    return first.key, (first.kind, first.unit, [each.low for each in rest])


@lru_cache(4096)
def _terms(text: str, who: str, language: Language) -> Terms:
    return terms_of(text, language, who)


class _Comparison:
    """Two statements term by term: what only one of them has, and how these terms differ."""

    def __init__(self, one: Terms, other: Terms, language: Language) -> None:
        self.one, self.other, self.language = one, other, language
        self.plain = one.plain and other.plain
        self.pairs = _matched(one.terms, other.terms, language)
        mine, yours = {x.at for x, _ in self.pairs}, {y.at for _, y in self.pairs}
        self.left = [term for term in one.terms if term.at not in mine]
        self.right = [term for term in other.terms if term.at not in yours]
        count = len(one.terms) + len(other.terms)
        self.shared = 2 * len(self.pairs) / count if count else 1.0

    def result(self) -> Agreement:
        """The checks in order of precedence; the first that applies decides."""
        odd = (self.one.denials - self.other.denials) % 2 == 1
        left, right, opposed = self._opposites()
        if odd and any(kind == "either" for _, _, kind in opposed):
            odd, opposed = False, opposed[1:]  # not open is closed
        clashes = [(x, y) for x in left for y in right if self._clash(x, y)]
        rest = (
            [x for x in left if all(x is not each for each, _ in clashes)],
            [y for y in right if all(y is not each for _, each in clashes)],
        )
        bare = not rest[0] and not rest[1]
        if odd:
            little = len(rest[0]) + len(rest[1]) <= 1 and all(
                term.kind == "word" for each in rest for term in each
            )
            alone = not clashes and not opposed and self.shared >= SHARED and little
            return self._differ("one denies what the other says", alone)
        if opposed:
            x, y, kind = opposed[0]
            alone = (
                not clashes and len(opposed) == 1 and bare and kind != "different" and not (x.led and y.led)
            ) and not self._reordered()
            return self._differ(f"{x.text} is the opposite of {y.text}", alone)
        if clashes:
            x, y = clashes[0]
            valued = any(each.kind in _VALUES for each, _ in clashes)
            alone = bare and len(clashes) == 1 and self._excludes(x, y)
            return self._differ(f"{x.text} is not {y.text}", alone, valued)
        if bare:
            swapped = self._swapped()
            return self._differ(swapped, True) if swapped else self._told("same")
        why = self._other_value(*rest) or self._substituted(*rest) or self._reordered()
        return self._differ(why) if why else self._told("open")

    def _differ(self, why: str, contrary: bool = False, valued: bool = False) -> Agreement:
        return self._told("contrary" if contrary and self.plain else "differ", why, valued)

    def _told(self, verdict: Verdict, why: str = "", valued: bool = False) -> Agreement:
        return Agreement(verdict, why, self.shared, bool(self.left and self.right), valued=valued)

    def _opposites(self) -> tuple[list[Term], list[Term], list[tuple[Term, Term, str]]]:
        """The unmatched terms without pairs of opposites, and these pairs."""
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

    def _clash(self, x: Term, y: Term) -> bool:
        """Whether one term takes the place of the other with another value."""
        if x.kind != y.kind:
            return False
        if x.kind in _VALUES:
            return _comparable(x, y)
        return x.kind == "name" or (x.kind == "word" and self.language.exclusive(x.key, y.key))

    def _excludes(self, x: Term, y: Term) -> bool:
        """Whether only one of these two values can hold if all else is equal."""
        if x.led and y.led:
            return False  # the Paris office, the London office
        words = {term.key for term, _ in self.pairs}
        once = not words.isdisjoint(self.language.once)
        state = self.one.copula and self.other.copula
        event = self.one.past and self.other.past and not state
        if x.kind in _VALUES:
            return not event or (once and x.kind != "number")
        if x.kind == "name" and x.at == y.at == 0:
            return once or (self.one.equated and self.other.equated)
        return state or not words.isdisjoint(self.language.single) or (once and x.kind == "name")

    def _other_value(self, left: list[Term], right: list[Term]) -> str:
        """One more number, date or time beside one of the same kind: two teaspoons, and half a teaspoon."""
        for x in (*left, *right):
            for pair in self.pairs:
                if x.kind in _VALUES and any(x.kind == y.kind and _comparable(x, y) for y in pair):
                    return f"{x.text} is not {pair[0].text}"
        return ""

    def _substituted(self, left: list[Term], right: list[Term]) -> str:
        """One word in the place of another that is no synonym."""
        if (
            len(left) == len(right) == 1
            and left[0].kind == right[0].kind == "word"
            and left[0].at == right[0].at
        ):
            return f"{left[0].text} is not {right[0].text}"
        return ""

    @property
    def _same_voice(self) -> bool:
        return self.one.passive == self.other.passive and self.one.copula == self.other.copula

    def _swapped(self) -> str:
        """Two terms that have changed places: Alice lent Bob, Bob lent Alice."""
        order = [y.at for _, y in sorted(self.pairs, key=lambda pair: pair[0].at)]
        moved = [n for n, at in enumerate(order) if n != at]
        if not self._same_voice or len(moved) != 2:
            return ""
        x, y = (self.one.terms[n] for n in moved)
        if x.kind not in ("name", "word") or x.kind != y.kind or y.at - x.at < 2:
            return ""
        return f"{x.text} and {y.text} have changed places"

    def _reordered(self) -> str:
        """Names in another order: who does something to whom is not the same."""
        order = [y for _, y in sorted((x.at, y.at) for x, y in self.pairs if x.kind == y.kind == "name")]
        return "their names are in another order" if self._same_voice and order != sorted(order) else ""


def _comparable(x: Term, y: Term) -> bool:
    if x.kind == "number":
        return x.unit == y.unit or not x.unit or not y.unit
    if x.kind == "date" and any(x.parts) and any(y.parts):
        return any(mine and yours and mine != yours for mine, yours in zip(x.parts, y.parts, strict=True))
    return x.kind != "date" or any(x.parts) == any(y.parts)


def _matched(one: tuple[Term, ...], other: tuple[Term, ...], language: Language) -> list[tuple[Term, Term]]:
    """Pairs of terms with the same meaning, each in one pair: equal ones first, then synonyms."""
    pairs: list[tuple[Term, Term]] = []
    free: dict[str, list[Term]] = {}
    for y in other:
        free.setdefault(y.base or f"{y.kind} {y.key}", []).append(y)
    left = [x for x in one if not _pair(x, free.get(x.base or f"{x.kind} {x.key}", []), pairs)]
    rest = [y for fits in free.values() for y in fits if not y.base or y.base in language.synonyms]
    for x in left:
        if not x.base or x.base in language.synonyms:
            fits = [y for y in rest if _alike(x, y, language)]
            if _pair(x, fits, pairs):
                rest.remove(pairs[-1][1])
    return pairs


def _pair(x: Term, fits: list[Term], pairs: list[tuple[Term, Term]]) -> bool:
    """Pair a term with the nearest of these, which is taken out; whether there is one."""
    if fits:
        best = min(fits, key=lambda y: abs(y.at - x.at))
        fits.remove(best)
        pairs.append((x, best))
        return True
    return False


def _alike(x: Term, y: Term, language: Language) -> bool:
    if x.kind == "number" and y.kind == "number":
        return x.amount is not None and x.amount == y.amount and bool(x.unit) != bool(y.unit)
    if x.kind == "date" and y.kind == "date":
        known = [(mine, yours) for mine, yours in zip(x.parts, y.parts, strict=True) if mine and yours]
        return bool(known) and all(mine == yours for mine, yours in known)
    return bool(x.base and y.base) and language.alike(x.base, y.base)
