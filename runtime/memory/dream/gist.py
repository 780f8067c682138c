"""Wordings of memories: the sentences that say something, and whether a model's wording is grounded.

Without a model a wording only chooses sentences and keeps them apart. It loses nothing that is said: a
sentence is left out if it says nothing, or if another one of the same person repeats it and goes on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from runtime.memory.facts.records import Observation
from runtime.text.sections import sections

GROUNDED = 0.25
"""The least share of a new wording's keywords that its evidence contains. Source: the reference engine."""
ABSTRACT = 0.10
"""The same for an abstraction, which may use words of its own."""
LONGEST = 2_000
"""Characters of a model's wording, and of turns that become one memory."""
_WORD = re.compile(r"\w+(?:[.,:/]\d+)*(?:['’]\w+)?")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\n+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|edly|ed|ies|es|s|ly|e|y)$")
_DENYING = frozenset(["not", "never", "no", "none", "nobody", "without", "neither", "nor", "cannot"])


@cache
def fillers(systems: tuple[Path, ...]) -> frozenset[str]:
    """The words that say nothing by themselves, of `memory/talk.md` in these system folders."""
    return frozenset(word.lower() for _, body in sections(systems, "talk.md") for word in body.split())


def _lower(word: str) -> str:
    return word.lower().replace("’", "'")


def _words(text: str) -> list[str]:
    """In lower case; a denial is `not`."""
    words = (_lower(word) for word in _WORD.findall(text))
    return ["not" if low.endswith("n't") or low in _DENYING else low for low in words]


def _stem(low: str) -> str:
    return _ENDING.sub("", low.removesuffix("'s"))


def word_counts(text: str, empty: frozenset[str] = frozenset()) -> Counter[str]:
    """The words that say something, without case and endings, and how often each occurs; a denial is one."""
    return Counter(_stem(low) for low in _words(text) if low == "not" or low not in empty)


def keywords(text: str, empty: frozenset[str] = frozenset()) -> frozenset[str]:
    """The same as a set."""
    return frozenset(word_counts(text, empty))


def spelled(word: str, text: str) -> str:
    """A keyword as a text spells it."""
    return next((low for each in _WORD.findall(text) if _stem(low := each.lower()) == word), word)


def values(text: str) -> frozenset[str]:
    """What a wording may neither invent nor lose: numbers, names and denials.

    A name is a capitalised word that does not begin a sentence.
    """
    found: set[str] = set()
    for sentence in split(text):
        for place, (word, low) in enumerate(zip(_WORD.findall(sentence), _words(sentence), strict=True)):
            name = place and word[0].isupper() and len(low) > 1 and not low.startswith("i'")
            if low == "not" or name or any(sign.isdigit() for sign in word):
                found.add(low.removesuffix("'s"))
    return frozenset(found)


def split(text: str) -> list[str]:
    """The sentences of a text; a line is at least one."""
    return [sentence for each in _SENTENCE.split(text) if (sentence := " ".join(each.split()))]


def gist(evidence: Sequence[Observation], empty: frozenset[str]) -> str:
    """A wording of some observations, in sentences of theirs; speakers are named if there are several.

    Of a text of nothing but fillers it is the first sentence.
    """
    sentences = [(each, sentence) for each in evidence for sentence in split(each.text)]
    words = [_words(sentence) for _, sentence in sentences]
    chosen: list[int] = []
    for at in sorted(range(len(sentences)), key=lambda at: (-len(words[at]), at)):
        who, own = sentences[at][0].who, words[at]
        repeated = any(who == sentences[k][0].who and own == words[k][: len(own)] for k in chosen)
        if keywords(sentences[at][1], empty) and not repeated:
            chosen.append(at)
    wording = [sentences[at] for at in sorted(chosen)] or sentences[:1]
    several = len({each.who for each in evidence}) > 1
    lines: list[str] = []
    before: Observation | None = None
    for each, sentence in wording:
        text = _ended(sentence) if len(wording) > 1 else sentence
        if before is not None and (each.id == before.id or (several and each.who == before.who)):
            lines[-1] += f" {text}"
        else:
            lines.append(f"{each.who}: {text}" if several and each.who else text)
        before = each
    return "\n".join(lines)


def _ended(sentence: str) -> str:
    """A sentence that the next one does not run into."""
    return sentence if sentence.rstrip("\"'”’)]»").endswith(tuple(".!?…:;")) else f"{sentence}."


def grounded(
    wording: str, evidence: Iterable[str], empty: frozenset[str] = frozenset(), least: float = GROUNDED
) -> str:
    """Why a model's wording may not be used for its evidence; "" if it may.

    Enough of its keywords are in the evidence, it invents no value, and (but for an abstraction) it loses
    none.
    """
    texts = list(evidence)
    if not wording.strip():
        return "there is no wording"
    if len(wording) > LONGEST:
        return f"it has {len(wording)} characters, at most {LONGEST} are allowed"
    own = keywords(wording, empty)
    evidence_keywords = frozenset[str]().union(*map(keywords, texts))
    share = len(own & evidence_keywords) / max(len(own), 1)
    if not own or share < least:
        return f"{share:.0%} of its keywords are in the evidence, {least:.0%} are needed"
    evidence_words, evidence_values = _plain(*texts), frozenset[str]().union(*map(values, texts))
    if invented := sorted(values(wording) - evidence_words - evidence_values):
        return f"{', '.join(invented[:3])}: not in the evidence"
    lost = sorted(evidence_values - values(wording) - _plain(wording)) if least > ABSTRACT else []
    return f"{', '.join(lost[:3])}: lost from the evidence" if lost else ""


def _plain(*texts: str) -> set[str]:
    return {_lower(word).removesuffix("'s") for text in texts for word in _WORD.findall(text)}
