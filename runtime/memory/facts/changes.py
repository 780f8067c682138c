"""Whether a later statement ends what an earlier one said: it names the old value, or tells another one.

A change is told in few ways: the old value stands where something is left (`from`, `instead of`, `no longer`,
the object of `replace`), or the subject of the earlier statement stands in a sentence of change with another
value. What is only possible, wished, asked, made up, or so for a while changes nothing; neither does what is
about somebody else or another one of the same kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile

from runtime.memory.facts.claims import Claim, claims_of, lowered
from runtime.memory.facts.language import Language
from runtime.memory.facts.terms import Term, pieces

_OTHERS = frozenset({"he", "she", "they"})
_NOBODY = _OTHERS | {"i", "we", "it", "you"}
_EMPTY = _NOBODY | {"not", "mr", "mrs", "ms", "miss", "dr", "prof"}
_PLAIN = frozenset({"", "be", "have", "get", "do", "call"})
"""Verbs that say nothing about the attribute."""
_VALUED = ("name", "number", "date", "time", "leaf")
_FIRST = re.compile(r"\b(?:i|we|my|our|us|me|mine|ours)\b", re.IGNORECASE)
_REPORT = re.compile(r"^.{1,60}?\b(?:told (?:me|us)|mentioned|reported)\b(?: that)?", re.IGNORECASE)
"""Who told it; what follows is told of somebody else unless it says `I`."""
_PLACE = re.compile(r"['’]s?\s+(?:place|stead)\b|\bthe place of\b")
_THEIRS = re.compile(r"\b(?:his|her|its|their)\s+(\w+)")
_LASTING = re.compile(r"\b(?:is|are|am|has|have|will|gets?|must|can|may)\b|['’](?:s|m|re|ve)\b")
_ENDING = re.compile(
    r"(?:[nptl]?(?:ed|er|ing)|y|ies|ied|e?s|e|d|r|ers|or|ors|ings|s?hip|ion|ment|al|ist|ance|ation|age|ian|ly|i?ty|ness)?"
)
"""What may follow the common beginning of two words of one family."""


@dataclass(frozen=True)
class Change:
    """Why a later statement ends an earlier one."""

    why: str
    sure: bool  # the old value is named; else only the nearest memory is meant
    weight: float  # how much of the earlier statement the later one names


def ended(earlier: str, later: str, language: Language) -> Change | None:
    """Why the later text ends what the earlier one said; None if it does not."""
    return _Pair(_read(earlier, language), _read(later, language), language).change()


def tells_more(text: str, language: Language) -> bool:
    """Whether a text tells a change or an addition: it is no evidence of what was before."""
    told = _read(text, language)
    return told.changes or told.adds


@dataclass(frozen=True, eq=False)
class _Statement:
    """A text as terms, and how it is meant. Subject, verb and value are those of its first claim."""

    low: str
    every: tuple[Term, ...]
    claims: tuple[Claim, ...]
    subject: tuple[Term, ...]
    verb: tuple[Term, ...]
    value: tuple[Term, ...]
    old: tuple[Term, ...]  # what it says is no longer so
    mine: bool  # it is about the speaker
    changes: bool
    adds: bool  # it says that it adds something
    becomes: bool  # it tells a change by a verb such as `move`
    names: bool  # it tells a name


@lru_cache(4096)
def _read(text: str, language: Language) -> _Statement:
    every, low = _terms(text, language), lowered(text)
    told = _REPORT.sub("", text)
    claims = claims_of(told, "", language) or (Claim(),)
    first = claims[0]
    verb = () if first.attribute in _PLAIN else _terms(first.attribute, language)
    value = _terms(first.value, language)
    old = _terms(" ".join(each.old for each in claims), language)
    return _Statement(
        low=low,
        every=every,
        claims=claims,
        subject=_terms(first.subject, language),
        verb=verb,
        value=tuple(each for each in value if not _found([each], old, language)) or value or verb,
        old=old,
        mine=bool(_FIRST.search(told)),
        changes=any(each.change for each in claims),
        adds=language.cue("adds", low),
        becomes=language.cue("becomes another", low),
        names=any(language.cue("names it", word) for each in every for word in (each.base, each.low))
        or (first.attribute == "be" and all(each.kind in _VALUED for each in value)),
    )


class _Pair:
    """An earlier and a later statement, term by term."""

    def __init__(self, before: _Statement, after: _Statement, language: Language) -> None:
        self.before, self.after, self.language = before, after, language
        self.subject = self._known(before.subject, after.every)
        self.verb = bool(self._known(before.verb, after.every))
        self.value = self._known(before.value, after.every)
        self.whole = bool(before.subject) and len(self.subject) == len(before.subject)
        self.gone = self._known(before.value, after.old)
        self.gone += [x for x in before.value if x not in self.gone and self._reversed(x)]
        self.valued = [each for each in self.gone if each.kind in _VALUED]
        self.over = self._known(before.subject, after.old)
        self.lost = [x for x in before.value if x not in self.value or x in self.gone]
        self.new = [y for y in after.every if not self._known([y], before.every)]
        self.replaced = _same_kind(self.lost, self.new)
        self.about = bool(self.subject) or self.verb or (before.mine and after.mine)
        self.weight = 2 * len(self.gone) + len(self.subject) + len(self.value) + self.verb + len(self.over)

    def change(self) -> Change | None:
        """The first of the ways in which the later statement ends the earlier one."""
        if not (self.subject or self.value or self.verb) or not self._lasts() or self._somebody_else():
            return None
        if self._handed():
            return Change(f"{self.over[0].text} has handed it over", True, self.weight)
        if self.gone:
            return self._named()
        if not self.after.adds and (found := self._renamed()):
            return found
        if not self.whole and self._other_thing():
            return None
        return self._ended() or (None if self.after.adds else self._other_value())

    def _lasts(self) -> bool:
        """Whether the later statement tells how it is from now on, and the earlier one what can end."""
        before, after = self.before, self.after
        if any(not each.asserted or each.temporary for each in after.claims):
            return False
        past = any(self.language.past(each.low) for each in before.every) and not before.becomes
        event = past and not _LASTING.search(before.low)
        return not event or bool(self.valued and self.whole)

    def _named(self) -> Change | None:
        """The old value is named as no longer so."""
        why = f"{(self.valued or self.gone)[0].text} is named as no longer so"
        numbers = all(map(_amounts, self.gone))
        if numbers and not (self.subject or self.verb or len(self.value) > len(self.gone)):
            return Change(why, False, self.weight) if _same_kind(self.gone, self.new) else None
        if self.valued or 2 * len(self.gone) >= len(self.before.value):
            return Change(why, self.about or bool(self.valued and not numbers), self.weight)
        return Change(why, False, self.weight) if self.about else None

    def _renamed(self) -> Change | None:
        if self.before.names and self.after.names and self.new and (self.value or self.whole):
            return Change("it has another name", bool(self.value), self.weight + 1)
        return None

    def _handed(self) -> bool:
        """Whether what the subject does is now done by somebody who is named."""
        done = self.verb or len(self.value) == len(self.before.value)
        to = any(y.kind == "name" and not self._known([y], self.after.old) for y in self.new)
        return self.whole and self.over == self.subject and done and to

    def _ended(self) -> Change | None:
        """The subject, or what it does, is named as no longer so."""
        if any(self.language.cue("is over", x.low) for x in self.before.value):
            return None  # the report was nearly finished
        stopped = self._known(self.before.verb, self.after.old)
        both = (self.over and (self.verb or self.value)) or (stopped and (self.subject or self.value))
        denies = not all(each.polarity for each in self.after.claims)
        if both and (self.lost or self.after.becomes or denies):
            sure = bool(self.verb or stopped or self._known(self.over, self.after.subject))
            return Change(f"{[*self.over, *stopped][0].text} has ended", sure, self.weight)
        if self.over and self.whole and self.lost:
            return Change(f"{self.over[0].text} has ended", False, self.weight)
        return None

    def _other_value(self) -> Change | None:
        """The subject stands in a sentence of change with another value."""
        if not self.after.changes or _same_kind(self.before.value, self.after.old):
            return None  # an old value is named, and it is another one
        firm = self.language.cue("has changed", self.after.low)
        told = firm or self.replaced or (self.after.becomes and not self.before.verb)
        if (told and self.about and (self.lost or self.replaced)) or (
            firm and self.whole and _same_kind(self.before.value, self.new)
        ):
            return Change("it says that this has changed", False, self.weight)
        return None

    def _reversed(self, x: Term) -> bool:
        """Whether the later statement says the opposite of the same subject."""
        wanted = self.before.subject
        return bool(wanted) and any(
            len(self._known(wanted, _terms(claim.subject, self.language))) == len(wanted)
            and any(
                self.language.opposed(x.base, y.base) in ("either", "opposite")
                for y in _terms(f"{claim.attribute} {claim.value}", self.language)
            )
            for claim in self.after.claims
        )

    def _somebody_else(self) -> bool:
        """Whether what changes has a subject that is neither the earlier one's nor the old value."""
        before, after = self.before, self.after
        missed = [x for x in before.subject if x not in self.subject]
        differ = (self.language.opposed, self.language.exclusive)
        if any(each(x.key, y.key) for each in differ for x in missed for y in self.new):
            return True  # upstairs and downstairs, the red and the blue one
        subjects = [_terms(each.subject, self.language) for each in after.claims]
        if missed and any(self._known(self._marking(), each) for each in subjects):
            return True  # line 4 and line 6
        telling = [each for each in after.claims if self._known(self.gone, _terms(each.old, self.language))]
        who = (telling or after.claims)[0].subject.split()
        if before.claims[0].subject in ("i", "we") and not after.mine and who[-1:] and who[-1] in _OTHERS:
            return True
        known = (*before.value, *before.verb)
        if any(self._known(each, known) for each in subjects) or (self._takes() and self.gone):
            return False
        theirs = _terms(" ".join(who), self.language)
        if not theirs or who[-1] in _NOBODY:
            return False
        if self._known(before.subject, [y for y in after.every if y not in self._owned(theirs)]):
            return False
        return (
            bool(before.subject)
            or not after.mine
            or any(x.low in _THEIRS.findall(after.low) for x in self.gone)
        )

    def _owned(self, theirs: Sequence[Term]) -> set[Term]:
        """What stands in the later statement only as the owner of something else, or as owned by another."""
        every = self.after.every
        pairs = [(x, y) for x, y in pairwise(every) if y.at == x.at + 1 and x.text.endswith(("'s", "’s"))]
        owned = {x for x, y in pairs if self._known([y], theirs) and not self._known([y], self.before.every)}
        owned |= {y for x, y in pairs if not self._known([x], self.before.every)}
        if self.before.mine and not self.after.mine:
            owned |= {y for y in every if y.low in _THEIRS.findall(self.after.low)}
        return owned

    def _takes(self) -> bool:
        """Whether the later statement's subject takes the place of something."""
        low, cue = self.after.low, self.language.cue
        return bool(_PLACE.search(low)) or cue("takes the place of", low) or cue("gets another name", low)

    def _other_thing(self) -> bool:
        """Whether the later statement is about another one of the same kind."""
        others = [y for y in self.after.subject if not self._known([y], self.before.every)]
        return bool(self._marking()) or bool(others and self._known(self.subject, self.after.subject))

    def _marking(self) -> list[Term]:
        """The new words beside the subject, by which it is another one."""
        heads = self._known(self.after.every, self.subject)
        before, behind = {x.at - 1 for x in heads}, {x.at + 1: x.kind for x in heads}
        return [
            y
            for y in self.new
            if (y.at in before or (y.at in behind and (behind[y.at], y.kind) != ("word", "word")))
            and not self.language.past(y.low)
        ]

    def _known(self, wanted: Sequence[Term], among: Sequence[Term]) -> list[Term]:
        return _found(wanted, among, self.language)


@lru_cache(8192)
def _terms(text: str, language: Language) -> tuple[Term, ...]:
    """The terms with meaning; `at` is the place among all words."""
    found: list[Term] = []
    for n, each in enumerate(pieces(text.replace("-in-law", "inlaw"), language)):
        if not each.key or each.key in _EMPTY:
            continue
        key, low = (re.sub(r"['’]s$", "", word).rstrip(".") for word in (each.key, each.low))
        base = each.base or (language.base(key) if each.kind in ("word", "name") else "")
        found.append(each._replace(key=key, low=low, base=base, at=n))
    return tuple(found)


def _amounts(term: Term) -> set[object]:
    """The numbers in a term, without units."""
    if term.kind == "number":
        return {term.amount if term.amount is not None else term.value}
    if term.kind == "date":
        year, month, day = term.parts
        return {day or (0 if month else year) or term.key}
    return set()


def _alike(x: Term, y: Term, language: Language) -> bool:
    """Whether two terms may name the same, whatever their units and endings."""
    mine, yours = _amounts(x), _amounts(y)
    if mine or yours:
        return bool(mine & yours)
    if x.key == y.key or language.alike(x.base, y.base):
        return True
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(x.low, y.low, strict=False)))
    return same >= 4 and all(_ENDING.fullmatch(each.low[same:]) for each in (x, y))


def _found(wanted: Sequence[Term], among: Sequence[Term], language: Language) -> list[Term]:
    return [x for x in wanted if any(_alike(x, y, language) for y in among)]


def _same_kind(some: Sequence[Term], others: Sequence[Term]) -> bool:
    """Whether one of these values may take the place of one of the others."""
    for x in some:
        for y in others:
            if x.kind == y.kind and x.kind in ("name", "time", "leaf", "date"):
                return True
            if x.kind == y.kind == "number" and (x.unit == y.unit or not x.unit or not y.unit):
                return True
    return False
