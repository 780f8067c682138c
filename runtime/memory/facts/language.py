"""The words that decide whether two statements agree: data of `memory/agreement.md` and `memory/words.md`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

from runtime.text.inflection import stem, verb_forms
from runtime.text.sections import having, sections

_SETS = {
    "says nothing": "silent",
    "denies": "negators",
    "one at a time": "single",
    "only once": "once",
    "opinion": "opinions",
    "greets": "greetings",
}
"""Sections of `agreement.md` that are plain lists of words, and the field that holds each."""
_MEANT = ("may", "wants", "example", "for a while", "on a day")
_CHANGED = ("has changed",)
"""Sections of `agreement.md` that list phrases, between commas."""
_VERBS = ("becomes another",)
"""Sections of `agreement.md` that list verbs with their irregular forms."""
_PAIRS = {"either one or the other": "either", "opposites": "opposites", "different ones": "different"}
_GROUPS = {"only one of": "kinds"}
_TO = ("to", "from", "into", "over", "back", "up", "down", "by")
CACHED = 20_000
"""Words whose base form is cached."""
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non")

Words = set[str]
Pairs = set[tuple[str, str]]
Groups = defaultdict[str, set[int]]
"""By word: the numbers of the groups that it belongs to."""


def _groups() -> Groups:
    return defaultdict(set)


@dataclass(eq=False)
class Language:
    """Words by what they do to a statement, in their base form; only the same object is equal."""

    silent: Words = field(default_factory=set[str])
    negators: Words = field(default_factory=set[str])
    single: Words = field(default_factory=set[str])
    once: Words = field(default_factory=set[str])
    opinions: Words = field(default_factory=set[str])
    greetings: Words = field(default_factory=set[str])
    phrases: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    # several words → the one word that replaces them
    starts: Words = field(default_factory=set[str])  # first words of phrases
    bases: dict[str, str] = field(default_factory=dict[str, str])  # of forms of verbs
    synonyms: Groups = field(default_factory=_groups)
    either: Pairs = field(default_factory=set[tuple[str, str]])
    opposites: Pairs = field(default_factory=set[tuple[str, str]])
    different: Pairs = field(default_factory=set[tuple[str, str]])
    kinds: Groups = field(default_factory=_groups)  # words of a kind exclude each other
    units: dict[str, tuple[str, Fraction]] = field(default_factory=dict[str, tuple[str, Fraction]])
    known: Words = field(default_factory=set[str])  # every word of the files
    cues: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # by section: phrases that tell how a statement is meant, and all forms of verbs
    _phrases_of: dict[str, Words] = field(default_factory=dict[str, Words])
    _count: int = 0

    def __post_init__(self) -> None:
        self.base: Callable[[str], str] = self._base
        """One form for all forms of a word."""

    def _base(self, word: str) -> str:
        if (known := self.bases.get(word)) is not None:
            return known
        if "-" in word or word in self.silent or word in self.negators:
            return word
        for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", "")):
            if not word.endswith(ending) or len(word) <= len(ending) + 2:
                continue
            cut, verbal = word[: -len(ending)] + instead, ending in ("ing", "ed")
            if verbal and not re.search(r"[aeiouy]", cut):
                break
            single = cut[:-1] if cut[-1:] == cut[-2:-1] else cut
            for each in (cut, cut + "e", single):
                if each in self.bases:
                    return self.bases[each]
            if verbal:
                return stem(single if cut[-1:] not in "sl" else cut)
        return stem(word)

    def knows(self, word: str) -> bool:
        """Whether a word occurs in one of the files, in any form."""
        return word in self.bases or word in self.known or self.base(word) in self.known

    def alike(self, one: str, other: str) -> bool:
        """Whether two base forms are synonyms."""
        return one == other or _share(self.synonyms, one, other)

    def exclusive(self, one: str, other: str) -> bool:
        """Whether two words are of a kind of which only one can hold."""
        return one != other and _share(self.kinds, one, other)

    def opposed(self, one: str, other: str) -> str:
        """`either` if exactly one of two words holds, `opposite` if at most one; "" for neither.

        `different` words name two things that can both be there.
        """
        if (one, other) in self.different:
            return "different"
        if (one, other) in self.either or _negated(one, other) or _negated(other, one):
            return "either"
        return "opposite" if (one, other) in self.opposites else ""

    def polar(self, word: str) -> bool:
        """Whether a word has an opposite."""
        return any(word == one for pairs in (self.either, self.opposites) for one, _ in pairs)

    def cue(self, section: str, text: str) -> bool:
        """Whether one of the phrases of a section stands in a text, which is in lower case."""
        return bool(self.cued(section, text))

    def cued(self, section: str, text: str) -> str:
        """One of the phrases of a section that stands in a text, which is in lower case; "" for none."""
        if section not in self._phrases_of:
            self._phrases_of[section] = {" ".join(_split(each)) for each in self.cues.get(section, ())}
        return min(self._phrases_of[section] & _runs(text), default="")

    def begins_phrase(self, low: str) -> bool:
        """Whether a known phrase begins with this word."""
        return low in self.starts or self.base(low) in self.starts

    def past(self, low: str) -> bool:
        """Whether a word is a past form of a verb."""
        regular = low.endswith("ed") or (low in self.bases and not low.endswith(("s", "ing")))
        return regular and low != self.base(low)

    def read_words(self, title: str, body: str) -> None:
        """Add forms of verbs and synonyms from a section of a `words.md`."""
        for parts in _lines(body):
            if title in ("verbs", "never exchanged, in all forms"):
                for part in parts:
                    for form in verb_forms(part):
                        self.bases.setdefault(form[0], part.split()[0])
            if title in ("verbs", "nouns") and len(parts) > 1:
                plain = [re.sub(r" \([^)]*\)", "", part) for part in parts]
                self._group(self.synonyms, [self.base(each) for each in plain if " " not in each])

    def read_agreement(self, title: str, body: str) -> None:
        """Add a section of an `agreement.md`."""
        if title in _SETS:
            literal = title in ("says nothing", "denies")
            words = body.split()
            getattr(self, _SETS[title]).update(words if literal else [*words, *map(self.base, words)])
        elif title in _MEANT + _CHANGED:
            self.cues[title] = (*self.cues.get(title, ()), *_phrases(body))
        for parts in _lines(body):
            if title in _VERBS:
                self._verbs(title, parts)
            elif title == "means the same":
                self._group(self.synonyms, map(self._word, parts))
            elif title in _PAIRS:
                words = [self._word(part) for part in parts]
                getattr(self, _PAIRS[title]).update((a, b) for a in words for b in words if a != b)
            elif title in _GROUPS:
                self._group(getattr(self, _GROUPS[title]), map(self.base, parts[0].split()))
            elif title == "units":
                words, _, size = parts[0].partition(":")
                number, dimension = size.split()
                self.units.update((word, (dimension, Fraction(number))) for word in words.split())

    def _verbs(self, title: str, verbs: Iterable[str]) -> None:
        """Add the forms of verbs that tell a change; `moves` tells one only before `to` and the like."""
        cues: list[str] = []
        for verb in verbs:
            for n, form in enumerate(map(" ".join, verb_forms(verb))):
                self.bases.setdefault(form.split()[0], verb.split()[0])
                if n > 1:
                    cues.append(form)
                elif n == 1:
                    cues += [f"{form} {to}" for to in _TO]
        self.cues[title] = (*self.cues.get(title, ()), *cues)

    def _word(self, phrase: str) -> str:
        """The one word that replaces a phrase."""
        words = tuple(self.base(word) for word in phrase.split())
        if len(words) == 1:
            return words[0]
        self.phrases[words] = made = "-".join(phrase.split())
        self.starts.add(words[0])
        return made

    def _group(self, into: Groups, words: Iterable[str]) -> None:
        self._count += 1
        for word in words:
            into[word].add(self._count)


def _share(groups: Groups, one: str, other: str) -> bool:
    return not groups.get(one, set[int]()).isdisjoint(groups.get(other, ()))


def _negated(word: str, other: str) -> bool:
    """Whether one is the other with a prefix such as `un`: `married` and `unmarried`."""
    return len(word) > 3 and other.endswith(word) and other.removesuffix(word) in _PREFIXES


def _phrases(body: str) -> Iterable[str]:
    return (phrase for each in body.split(",") if (phrase := " ".join(each.split())))


def _split(text: str) -> list[str]:
    """Words and the marks that end a sentence; `'d` is a word."""
    return re.findall(r"'d\b|\w+(?:(?!'d\b)['-]\w+)*|[.;!?]", text)


@lru_cache(1024)
def _runs(text: str) -> frozenset[str]:
    """Every run of up to five words."""
    found = _split(text)
    return frozenset(" ".join(found[n : n + k]) for n in range(len(found)) for k in range(1, 6))


def _lines(body: str) -> Iterable[list[str]]:
    """The parts of each line."""
    return ([part.strip() for part in line.split("|")] for line in body.splitlines() if line.strip())


def language_of(systems: tuple[Path, ...]) -> Language:
    """The language of these system folders, nearest first, all of them together."""
    return _language(having(systems, "words.md", "agreement.md"))


@cache
def _language(systems: tuple[Path, ...]) -> Language:
    language = Language()
    for name, read in (("words.md", language.read_words), ("agreement.md", language.read_agreement)):
        for title, body in sections(systems[::-1], name):
            read(title, body.lower())
            if title != "names that are words":
                language.known.update(re.findall(r"[a-z]+", f"{title} {body.lower()}"))
    language.base = lru_cache(CACHED)(language.base)
    return language
