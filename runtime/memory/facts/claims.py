"""A statement as claims: what has which value of which attribute, from when until when, and how surely.

Rules read one clause after another; the words that tell a change or a doubt are data of
`memory/agreement.md`. A clause in which they find no verb is a claim without an attribute, not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from runtime.memory.facts import dates
from runtime.memory.facts.gone import denied, gone
from runtime.memory.facts.language import Language
from runtime.memory.facts.terms import Term, pieces

Modality = Literal["is", "will", "wants", "may", "example", "asks"]
"""It holds; it is to hold; somebody wishes it; it is possible or hearsay; it is made up; it is a question."""
SENTENCES = 8
"""Sentences of one text that are read."""


@dataclass(frozen=True)
class Claim:
    """One thing that a text says."""

    subject: str = ""  # base forms of the words for what it is about: `rent flat` of "the rent of the flat"
    attribute: str = ""  # the base form of the verb
    value: str = ""  # as it is written
    old: str = ""  # in lower case: the parts that it says are no longer so
    since: str = ""  # stored time from which it holds; "" if the text does not say
    until: str = ""  # stored time until which it holds
    polarity: bool = True  # False: it denies something
    modality: Modality = "is"
    change: bool = False  # it says that something has changed
    temporary: bool = False  # an exception for a while, after which the earlier value holds again

    @property
    def asserted(self) -> bool:
        """Whether it says how things are or will be, and may end what was said before."""
        return self.modality in ("is", "will")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BE = _words("is are was were am 's 're 'm been be")
_AUXILIARIES = _words("has have had will shall do does did can must would could may might")
_NO_VERB_AFTER = _words("the a an my our your his her its their this that these those of to")
_TITLES = "".join(rf"(?<!\b{title}\.)" for title in _words("Mr Dr Mrs Ms St Ltd Inc Prof Co"))
_SENTENCE = re.compile(rf"{_TITLES}(?<=[.!?;])[\"')\]]*\s+|\n+")
_CLAUSE = re.compile(r"[,:]\s+(?:(?:and|but|so|since|as|while|which|who)\s+)?|\s+and\s+", re.IGNORECASE)
_MAY = re.compile(r"(?<=\w )May\b")
_TOLD = re.compile(r"\b(?:was|were|has been|have been)\b|(?<!\bis )(?<!\bare )\b\w{3,}ed\b")
"""What happened: a day that it names is when."""


@lru_cache(4096)
def claims_of(text: str, at: str, language: Language) -> tuple[Claim, ...]:
    """The claims of a text that was said at a stored time ("" if unknown), one for each clause."""
    sentences = (each for each in _SENTENCE.split(text.strip())[:SENTENCES] if each.strip())
    return tuple(claim for each in sentences for claim in _claims(each, at, language))


def modality(text: str, language: Language) -> Modality | Literal["for a while"]:
    """How a whole text is meant, by its first claim that is no plain statement; what will be is one, too."""
    claims = claims_of(text, "", language)
    if any(each.temporary for each in claims):
        return "for a while"
    doubts: list[Modality] = [each.modality for each in claims if not each.asserted]
    return doubts[0] if doubts else "is"


def valid(text: str, at: str, language: Language) -> tuple[str, str]:
    """From when until when a text holds that was said at a stored time, as far as it tells."""
    claims = claims_of(text, at, language)
    if not claims or not at or not all(each.asserted for each in claims):
        return at, ""
    first = claims[0]
    if language.cue("for a while", lowered(text)):
        return at, first.until or dates.awhile(text, at)
    return first.since or at, "" if first.change else first.until


def _claims(sentence: str, at: str, language: Language) -> Iterator[Claim]:
    low = lowered(sentence)
    clauses = [_claim(each, language) for each in _CLAUSE.split(sentence)]
    change = language.cue("has changed", low) or any(each["change"] for each in clauses)
    shared: dict[str, Any] = {
        "since": dates.since(sentence, at, change=change),
        "until": dates.until(sentence, at),
        "modality": _modality(low, language),
        "temporary": language.cue("for a while", low) or _for_a_day(low, language),
        "change": change,
    }
    yield from (Claim(**{**each, **shared}) for each in clauses)


def lowered(sentence: str) -> str:
    """A sentence in lower case, without the month that is another word, too."""
    return _MAY.sub("", sentence).lower().replace("’", "'")


def _for_a_day(low: str, language: Language) -> bool:
    """Whether a sentence is about one day only: `from today on` and `not today` are not."""
    day = language.cued("on a day", low)
    if not day or _TOLD.search(low):
        return False
    return not re.search(rf"\b(?:from|as of|since|not|instead of|due|until) {day}\b|\bfrom .+ until\b", low)


def _modality(low: str, language: Language) -> Modality:
    if low.rstrip().endswith("?"):
        return "asks"
    for each in ("example", "wants", "may"):
        if language.cue(each, low):
            return each
    return "will" if re.search(r"\b(?:will|shall|going to)\b|'ll\b", low) else "is"


def _claim(clause: str, language: Language) -> Mapping[str, Any]:
    """The fields of a claim that its clause tells."""
    words, low = list(pieces(clause, language)), lowered(clause)
    subject, attribute, after = _parts(words, language)
    old = list(gone(low, language))
    change = bool(old) or language.cue("becomes another", low)
    value = " ".join(each.text for each in after)
    polarity = all(each.key != "not" for each in words)
    if not polarity and (told := denied(low)):
        old.append(told[0])
        value = told[1]
    return {
        "subject": _keys(subject),
        "attribute": attribute,
        "value": value,
        "old": " ".join(old).strip(),
        "polarity": polarity,
        "change": change,
    }


def _parts(words: Sequence[Term], language: Language) -> tuple[Sequence[Term], str, Sequence[Term]]:
    """The words for the subject, the attribute, and the words for the value."""
    verb = _verb(words, language)
    if verb is None:
        return (), "", words
    before, after = words[:verb], words[verb + 1 :]
    helped = words[verb].low in _AUXILIARIES | _BE
    if helped and after and after[0].low in language.bases and after[0].low.endswith(("ed", "en", "ing")):
        return before, language.base(after[0].low), after[1:]
    return before, words[verb].base or language.base(words[verb].low), after


def _keys(words: Sequence[Term]) -> str:
    return " ".join(each.key for each in words if each.key)


def _verb(words: Sequence[Term], language: Language) -> int | None:
    """The place of the main verb: the first form of a verb, or a later `is` or `has` (the dog's bed is)."""
    found: int | None = None
    for at, word in enumerate(words):
        before = words[at - 1]
        if at == 0 or word.kind not in ("word", "name") or before.low in _NO_VERB_AFTER:
            continue
        if word.low in _BE | _AUXILIARIES:
            return at
        if found is None and word.low in language.bases:
            found = at
    return found if found is not None else _perhaps_verb(words)


def _perhaps_verb(words: Sequence[Term]) -> int | None:
    """The place of an unknown word that looks like a verb: `grazes` after a noun."""
    for at, (before, word) in enumerate(pairwise(words), 1):
        looks = before.key and _tells(word) and re.search(r"(?<![su])s$|ed$", word.low)
        if looks and before.low not in _NO_VERB_AFTER:
            return at
    return None


def _tells(word: Term) -> bool:
    return word.kind == "word" and word.key not in ("", "not")
