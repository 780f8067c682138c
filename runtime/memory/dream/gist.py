"""Wordings of memories: what a text tells, what it may be shortened to, and what is grounded in it.

The form without a model only chooses sentences. It never loses a word that tells something: a sentence is
left out when it tells nothing, or when one sentence of the same person tells all that it does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runtime.memory.semantic.records import Observation

GROUNDED = 0.25
"""Of the keywords of a new wording, so many stand in its evidence at least. Source: the reference engine."""
ABSTRACT = 0.10
"""The same for an abstraction, which may use words of its own."""
LONGEST = 2_000
"""Characters of a wording that a model gives, and of what is told together: a memory is no file."""
_WORD = re.compile(r"\w+(?:[.,:/]\d+)*(?:['’]\w+)?")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|\n+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|edly|ed|ies|es|s|ly|e|y)$")
_DENYING = frozenset(["not", "never", "no", "none", "nobody", "without", "neither", "nor", "cannot"])


@dataclass(frozen=True)
class Sentence:
    """A sentence, whose it is, and what it tells."""

    who: str
    text: str
    tells: frozenset[str]


@cache
def fillers(systems: tuple[Path, ...]) -> frozenset[str]:
    """The words that tell nothing by themselves, of `memory/talk.md` in these system folders."""
    found: set[str] = set()
    for folder in systems:
        path = folder / "memory" / "talk.md"
        if path.is_file():
            body = path.read_text("utf-8").partition("\n## ")[2]
            lines = [line for line in body.splitlines()[1:] if not line.startswith("#")]
            found.update(word.lower() for word in " ".join(lines).split())
    return frozenset(found)


def keywords(text: str, empty: frozenset[str] = frozenset()) -> frozenset[str]:
    """The words that tell something, without case and endings; a denial is one of them."""
    return frozenset(counted(text, empty))


def counted(text: str, empty: frozenset[str] = frozenset()) -> Counter[str]:
    """The same, and how often each stands there."""
    found: Counter[str] = Counter()
    for word in _WORD.findall(text):
        low = word.lower().replace("’", "'")
        if low.endswith("n't") or low in _DENYING:
            found["not"] += 1
        elif low not in empty:
            found[_bare(low)] += 1
    return found


def spelled(word: str, text: str) -> str:
    """A word without its ending as a text has it."""
    return next((each.lower() for each in _WORD.findall(text) if _bare(each.lower()) == word), word)


def _bare(low: str) -> str:
    return _ENDING.sub("", low.removesuffix("'s"))


def values(text: str) -> frozenset[str]:
    """What of a text may not be made up and may not get lost: numbers, names and denials.

    A name is a word with a capital letter that does not begin a sentence.
    """
    found: set[str] = set()
    for sentence in split(text):
        for place, word in enumerate(_WORD.findall(sentence)):
            low = word.lower().replace("’", "'").removesuffix("'s")
            if any(sign.isdigit() for sign in word):
                found.add(low)
            elif low.endswith("n't") or low in _DENYING:
                found.add("not")
            elif place and word[0].isupper() and len(low) > 1 and not low.startswith("i'"):
                found.add(low)
    return frozenset(found)


def split(text: str) -> list[str]:
    """The sentences of a text; a line is one at least."""
    return [sentence for each in _SENTENCE.split(text) if (sentence := " ".join(each.split()))]


def gist(evidence: Sequence[Observation], empty: frozenset[str]) -> str:
    """A wording of what was observed, in sentences of it: nothing that tells something is lost.

    Where several speak, each is named before what they say. Raises nothing; a text of nothing but fillers is
    told by its first sentence.
    """
    found = [
        Sentence(each.who, sentence, keywords(sentence, empty))
        for each in evidence
        for sentence in split(each.text)
    ]
    kept = _telling(found) or found[:1]
    several = len({each.who for each in found}) > 1
    lines: list[str] = []
    before: str | None = None
    for each in kept:
        if several and each.who != before:
            lines.append(f"{each.who}: {each.text}" if each.who else each.text)
        elif lines:
            lines[-1] += f" {each.text}"
        else:
            lines.append(each.text)
        before = each.who
    return "\n".join(lines)


def _telling(found: Sequence[Sentence]) -> list[Sentence]:
    """The sentences without those that tell no more than another one of the same person."""
    order = sorted(range(len(found)), key=lambda place: (-len(found[place].tells), place))
    kept: dict[int, Sentence] = {}
    for place in order:
        each = found[place]
        if each.tells and not any(
            each.who == other.who and each.tells <= other.tells for other in kept.values()
        ):
            kept[place] = each
    return [kept[place] for place in sorted(kept)]


def grounded(
    wording: str, evidence: Iterable[str], empty: frozenset[str] = frozenset(), least: float = GROUNDED
) -> str:
    """Why a wording that a model gave may not stand for its evidence; "" when it may.

    Enough of its keywords stand there, it makes up no value, and (but for an abstraction) it loses none.
    """
    texts = list(evidence)
    if not wording.strip():
        return "there is no wording"
    if len(wording) > LONGEST:
        return f"it has {len(wording)} characters, {LONGEST} are the most"
    own = keywords(wording, empty)
    theirs: set[str] = set()
    for text in texts:
        theirs |= keywords(text)
    share = len(own & theirs) / max(len(own), 1)
    if not own or share < least:
        return f"{share:.0%} of its keywords stand in the evidence, {least:.0%} are needed"
    known = {
        word.lower().replace("’", "'").removesuffix("'s") for text in texts for word in _WORD.findall(text)
    }
    said = frozenset[str]().union(*(values(text) for text in texts))
    if made_up := sorted(value for value in values(wording) if value not in (known | said)):
        return f"{', '.join(made_up[:3])}: not in the evidence"
    lost = sorted(said - values(wording) - _plain(wording)) if least > ABSTRACT else []
    if lost:
        return f"{', '.join(lost[:3])}: lost from the evidence"
    return ""


def _plain(text: str) -> set[str]:
    return {word.lower().replace("’", "'").removesuffix("'s") for word in _WORD.findall(text)}
