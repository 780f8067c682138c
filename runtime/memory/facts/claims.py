"""A statement as claims: how surely it is meant, and from when until when it holds.

The words that tell a change or a doubt are data of `memory/agreement.md`. They tell how a statement is shown,
and end nothing that was said before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from runtime.memory.facts import dates
from runtime.memory.facts.language import Language
from runtime.memory.facts.terms import pieces

Modality = Literal["is", "will", "wants", "may", "example", "asks"]
"""It holds; it is to hold; somebody wishes it; it is possible or hearsay; it is made up; it is a question."""
SENTENCES = 8
"""Sentences of one text that are read."""


@dataclass(frozen=True)
class Claim:
    """How one sentence of a text is meant."""

    since: str = ""  # stored time from which it holds; "" if the text does not say
    until: str = ""  # stored time until which it holds
    polarity: bool = True  # False: all of it denies something
    modality: Modality = "is"
    change: bool = False  # it says that something has changed
    temporary: bool = False  # an exception for a while, after which the earlier value holds again

    @property
    def asserted(self) -> bool:
        """Whether it says how things are or will be."""
        return self.modality in ("is", "will")


_TITLES = "".join(rf"(?<!\b{title}\.)" for title in "Mr Dr Mrs Ms St Ltd Inc Prof Co".split())  # noqa: SIM905
_SENTENCE = re.compile(rf"{_TITLES}(?<=[.!?;])[\"')\]]*\s+|\n+")
_CLAUSE = re.compile(r"[,:]\s+(?:(?:and|but|so|since|as|while|which|who)\s+)?|\s+and\s+", re.IGNORECASE)
_MAY = re.compile(r"(?<=\w )May\b")
_TOLD = re.compile(r"\b(?:was|were|has been|have been)\b|(?<!\bis )(?<!\bare )\b\w{3,}ed\b")
"""What happened: a day that it names is when."""


@lru_cache(4096)
def claims_of(text: str, at: str, language: Language) -> tuple[Claim, ...]:
    """The claims of a text that was said at a stored time ("" if unknown), one for each sentence."""
    sentences = (each for each in _SENTENCE.split(text.strip())[:SENTENCES] if each.strip())
    return tuple(_claim(each, at, language) for each in sentences)


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


def _claim(sentence: str, at: str, language: Language) -> Claim:
    low = lowered(sentence)
    change = language.cue("has changed", low) or language.cue("becomes another", low)
    return Claim(
        since=dates.since(sentence, at, change=change),
        until=dates.until(sentence, at),
        polarity=any(_affirms(each, language) for each in _CLAUSE.split(sentence)),
        modality=_modality(low, language),
        change=change,
        temporary=language.cue("for a while", low) or _for_a_day(low, language),
    )


def _affirms(clause: str, language: Language) -> bool:
    return all(each.key != "not" for each in pieces(clause, language))


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
