"""Whether a later statement ends what an earlier one said: it names the old value, or the subject with another.

A change is told in few ways: the old value stands where something is left (`from`, `instead of`, `no longer`, the
object of `replace`), or the subject of the earlier statement stands in a sentence of change with another value.
What is only possible, wished, asked, made up, or so for a while changes nothing.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from runtime.memory.facts.claims import claims_of
from runtime.memory.facts.language import Language
from runtime.memory.facts.terms import Term, pieces

_NOBODY = frozenset({"i", "we", "he", "she", "they", "it", "you"})
_PLAIN = frozenset({"", "be", "have", "get", "do", "call"})
"""Verbs that say nothing about the attribute."""
_VALUED = ("name", "number", "date", "time", "leaf")
_OWNED = re.compile(r"(?:\bof\b|['’]s\b)[^.]*\b(?:is|are|was|were)\b")
"""The captain of the team is."""
_FIRST = re.compile(r"\b(?:i|we|my|our|us|me|mine|ours)\b", re.IGNORECASE)
_ENDINGS = frozenset(
    ["", "e", "y", "s", "es", "ed", "d", "r", "er", "or", "ers", "ors", "ing", "ings", "ship", "hip", "ion", "ment"]
    + ["al", "ist", "ance", "ation", "age", "ian", "ies", "ied", "ier", "ning", "ner", "ned", "ping", "ped", "per"]
    + ["ting", "ted", "ter", "lled", "lling", "ly", "ty", "ity", "ness"]
)
"""What may follow the common beginning of two words of one family."""


@dataclass(frozen=True)
class Change:
    """Why a later statement ends an earlier one."""

    why: str
    sure: bool  # the old value is named; else only the nearest memory is meant
    weight: float  # how much of the earlier statement it names


@dataclass(frozen=True)
class _Before:
    """An earlier statement: what it is about, its verb, and its value."""

    subject: tuple[Term, ...]
    verb: tuple[Term, ...]
    value: tuple[Term, ...]
    every: tuple[Term, ...]
    mine: bool  # it is about the speaker
    event: bool  # it tells what happened once
    names: bool  # it tells a name


@dataclass(frozen=True)
class _After:
    """A later statement: its terms, those that it says are no longer so, and its first subject."""

    every: tuple[Term, ...]
    old: tuple[Term, ...]
    subject: tuple[Term, ...]
    meant: bool  # it says how things are, and not only for a while
    changes: bool
    adds: str
    denies: bool
    becomes: bool
    firm: bool  # with words such as `now` or `instead`
    instead: bool  # with words that need an earlier value
    names: bool
    mine: bool


@lru_cache(8192)
def _terms(text: str, language: Language) -> tuple[Term, ...]:
    """The terms with meaning; `at` is the place among all words."""
    found: list[Term] = []
    for n, each in enumerate(pieces(text, language)):
        if not each.key or each.key in _NOBODY or each.key == "not":
            continue
        key = each.key.removesuffix("'s").removesuffix("’s").rstrip(".")
        base = each.base or (language.base(key) if each.kind in ("word", "name") else "")
        found.append(each._replace(key=key, low=each.low.removesuffix("'s").removesuffix("’s"), base=base, at=n))
    return tuple(found)


@lru_cache(4096)
def _before(text: str, at: str, language: Language) -> _Before | None:
    claims = claims_of(text, at, language)
    if not claims:
        return None
    first = claims[0]
    verb = () if first.attribute in _PLAIN else _terms(first.attribute, language)
    subject = _terms(first.subject, language)
    if verb and _OWNED.search(text):
        subject, verb = (*verb, *subject), ()
    value, over = _terms(first.value, language) or verb, _terms(first.old, language)
    tells = language.cue("becomes another", text.lower())
    past = any(language.past(each.low) for each in _terms(text, language)) and not tells
    return _Before(
        subject=subject,
        verb=verb,
        value=tuple(x for x in value if not _found([x], over, language)) or value,
        every=_terms(text, language),
        mine=bool(_FIRST.search(text)),
        event=past and not re.search(r"\b(?:is|are|am|has|have|will|gets?|must|can|may)\b|['’](?:s|m|re|ve)\b", text),
        names=_names(_terms(text, language), language)
        or (first.attribute == "be" and bool(value) and all(x.kind in _VALUED for x in value)),
    )


@lru_cache(4096)
def _after(text: str, at: str, language: Language) -> _After:
    claims = claims_of(text, at, language)
    low = text.lower().replace("’", "'")
    return _After(
        every=_terms(text, language),
        old=_terms(" ".join(each.old for each in claims), language),
        subject=_terms(claims[0].subject, language) if claims else (),
        meant=bool(claims) and all(each.asserted and not each.temporary for each in claims),
        changes=any(each.change for each in claims),
        adds=language.cued("adds", low),
        denies=any(not each.polarity for each in claims),
        becomes=language.cue("becomes another", low),
        firm=language.cue("changed for good", low),
        instead=language.cue("instead", low),
        names=_names(_terms(text, language), language) or language.cue("names it", low),
        mine=bool(_FIRST.search(text)),
    )


def _names(terms: Sequence[Term], language: Language) -> bool:
    return any(language.cue("names it", each.base or each.key) or language.cue("names it", each.low) for each in terms)


def ended(earlier: str, later: str, language: Language, at: str = "") -> Change | None:
    """Whether the later text, said at a stored time, ends what the earlier one said; None if it does not."""
    before, after = _before(earlier, "", language), _after(later, at, language)
    if before is None or not after.meant and not _of_a_day(earlier, later, at, language):
        return None
    subject = _found(before.subject, after.every, language)
    verb = bool(_found(before.verb, after.every, language))
    value = _found(before.value, after.every, language)
    whole = bool(before.subject) and len(subject) == len(before.subject)
    gone = [x for x in before.value if _found([x], after.old, language)]
    gone += [x for x in (*before.value, *before.verb) if x not in gone and _reversed(x, before, later, at, language)]
    over, stopped = (_found(each, after.old, language) for each in (before.subject, before.verb))
    new = [y for y in after.every if not _found([y], before.every, language) and not language.cue("has changed", y.low)]
    lost = [x for x in before.value if x not in value or x in gone]
    replaced = [*lost, *(x for x in before.subject if x.kind == "name" and x not in subject)]
    person = not whole and _other_person(before, after, language)
    rival = person or (not whole and not after.instead and _rival(before, subject, new, verb and bool(lost), after, language))
    about = bool(subject) or verb or (before.mine and after.mine)
    weight = len(gone) * 2 + len(subject) + len(value) + verb + len(over)
    valued = [x for x in gone if x.kind in _VALUED]
    if before.event and not (valued and whole):
        return None
    if gone and not person and (valued or after.changes or not rival):
        why = f"{(valued or gone)[0].text} is named as no longer so"
        numbers = all(_amounts(x) for x in gone)
        if numbers and not (subject or verb or len(value) > len(gone)):
            return Change(why, False, weight) if _same_kind(gone, new) else None
        if valued or stopped or len(gone) * 2 >= len(before.value):
            return Change(why, bool(about or not numbers), weight)
        return Change(why, False, weight) if about else None
    if after.names and before.names and (value or whole) and any(y.kind in ("name", "leaf") for y in new):
        return Change("it has another name", bool(value), weight + 1)
    if rival:
        return None
    if (over and (verb or value)) or (stopped and (subject or value)):
        if lost or after.firm or after.denies:
            return Change(f"{(*over, *stopped)[0].text} has ended", True, weight)
    if (after.adds and after.adds not in earlier.lower()) or not (after.changes or over):
        return None
    if over and whole and lost:
        return Change(f"{over[0].text} has ended", False, weight)
    becomes = after.becomes and not before.verb
    if lost and whole and (verb or becomes or after.firm or _same_kind(replaced, new)):
        return Change("it says that this has changed", False, weight)
    if whole and after.firm and _same_kind(before.value, new):
        return Change("it says that this has changed", False, weight)
    if replaced and about and (after.firm or becomes or _same_kind(replaced, new)):
        return Change("it says that this has changed", False, weight)
    return None


def _of_a_day(earlier: str, later: str, at: str, language: Language) -> bool:
    """Whether what is so for a day changes something that was for this day, too."""
    low = later.lower()
    day = language.cued("on a day", low)
    told = all(each.asserted for each in claims_of(later, at, language)) and not language.cue("for a while", low)
    return bool(day and told) and bool(language.cue("on a day", earlier.lower()) or _dated(earlier, language))


def _dated(text: str, language: Language) -> bool:
    return any(each.kind in ("date", "time") for each in _terms(text, language))


def _reversed(x: Term, before: _Before, later: str, at: str, language: Language) -> bool:
    """Whether the later text says the opposite of the same subject."""
    if not x.base or not before.subject:
        return False
    return any(
        len(_found(before.subject, _terms(claim.subject, language), language)) == len(before.subject)
        and any(
            language.opposed(x.base, y.base) in ("either", "opposite") and not language.alike(x.base, y.base)
            for y in _terms(f"{claim.attribute} {claim.value}", language)
        )
        for claim in claims_of(later, at, language)
    )


def _other_person(before: _Before, after: _After, language: Language) -> bool:
    """Whether both begin with a name, and not with the same."""
    mine, yours = ([x for x in each.subject if x.kind == "name"] for each in (before, after))
    named = bool(_found(mine, after.every, language)) or bool(_found(yours, before.every, language))
    return bool(mine and yours) and not named


def _rival(
    before: _Before,
    subject: Sequence[Term],
    new: Sequence[Term],
    same_verb: bool,
    after: _After,
    language: Language,
) -> bool:
    """Whether the later statement is about another one of the same kind, or about another person."""
    others = [y for y in after.subject if not _found([y], before.every, language)]
    if not subject:
        return bool(others) and same_verb
    heads = _found(after.every, subject, language)
    places = {head.at - 1 for head in heads} | {head.at + 1 for head in heads if head.kind != "word"}
    beside = [y for y in new if y.at in places and not language.past(y.low)]
    return bool(beside) or bool(others and _found(subject, after.subject, language))


def _amounts(term: Term) -> set[object]:
    """The numbers in a term, without units."""
    if term.kind == "number":
        return {term.amount if term.amount is not None else term.value}
    if term.kind == "date":
        return {term.parts[2]} if term.parts[2] else {term.key}
    if term.kind == "time" and term.value is not None:
        hour, minute = divmod(term.value, 60)
        return {term.value} if minute else {term.value, hour, hour % 12}
    return set()


def _alike(x: Term, y: Term, language: Language) -> bool:
    """Whether two terms may name the same, whatever their units and endings."""
    if x.key == y.key:
        return True
    mine, yours = _amounts(x), _amounts(y)
    if mine or yours:
        return bool(mine & yours)
    if not x.base or not y.base:
        return False
    if x.base == y.base or language.alike(x.base, y.base):
        return True
    same = len(os.path.commonprefix((x.low, y.low)))
    return same >= 4 and x.low[same:] in _ENDINGS and y.low[same:] in _ENDINGS


def _found(wanted: Sequence[Term], among: Sequence[Term], language: Language) -> list[Term]:
    return [x for x in wanted if any(_alike(x, y, language) for y in among)]


def _same_kind(some: Sequence[Term], others: Sequence[Term]) -> bool:
    """Whether one of these values may take the place of one of the others."""
    for x in some:
        for y in others:
            if x.kind == y.kind and x.kind in ("name", "time", "leaf"):
                return True
            if x.kind == y.kind == "number" and (x.unit == y.unit or not x.unit or not y.unit):
                return True
            if x.kind == y.kind == "date" and any(x.parts) == any(y.parts):
                return True
    return False
