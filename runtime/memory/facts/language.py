"""The words that decide whether two statements agree: data of `memory/agreement.md` and `memory/words.md`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import _lru_cache_wrapper, cache, cached_property, lru_cache
from pathlib import Path

from runtime.text.inflection import stem, verb_forms

_SETS = {
    "says nothing": "silent",
    "denies": "negators",
    "one at a time": "single",
    "only once": "once",
    "another one": "others",
    "now": "now",
    "opinion": "opinions",
    "greets": "greetings",
}
"""Sections of `agreement.md` that are plain lists of words, and the field that holds each."""
_PAIRS = {"either one or the other": "either", "opposites": "opposites", "different ones": "different"}
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
    others: Words = field(default_factory=set[str])
    ends: Words = field(default_factory=set[str])
    begins: Words = field(default_factory=set[str])
    now: Words = field(default_factory=set[str])
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
    topics: Groups = field(default_factory=_groups)
    units: dict[str, tuple[str, Fraction]] = field(default_factory=dict[str, tuple[str, Fraction]])
    known: Words = field(default_factory=set[str])  # every word of the files
    _count: int = 0

    # ---- questions ---------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> _lru_cache_wrapper[str]:
        """One form for all forms of a word; called with a word."""
        return lru_cache(CACHED)(self._base)

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

    def begins_phrase(self, low: str) -> bool:
        """Whether a known phrase begins with this word."""
        return low in self.starts or self.base(low) in self.starts

    def on_topic(self, some: set[str], others: set[str]) -> bool:
        """Whether two sets of words share a topic."""
        mine = {topic for word in some for topic in self.topics.get(word, ())}
        return any(topic in mine for word in others for topic in self.topics.get(word, ()))

    # ---- reading -----------------------------------------------------------------------------------------

    def read_agreement(self, text: str) -> None:
        """Add the content of an `agreement.md`."""
        self._know(text)
        for title, line in _lines(text):
            self._line(title, line)
        self.base.cache_clear()

    def read_words(self, text: str) -> None:
        """Add forms of verbs and synonyms from a `words.md`."""
        self._know(text)
        for title, line in _lines(text):
            parts = [part.strip() for part in line.split("|")]
            if title in ("verbs", "never exchanged, in all forms"):
                for part in parts:
                    for form in verb_forms(part):
                        self.bases.setdefault(form[0], part.split()[0])
            if title in ("verbs", "nouns") and len(parts) > 1:
                plain = [re.sub(r" \([^)]*\)", "", part) for part in parts]
                self._group(self.synonyms, [self.base(each) for each in plain if " " not in each])
        self.base.cache_clear()

    def _know(self, text: str) -> None:
        text = re.sub(r"(?ms)^## names that are words$.*?(?=^## )", "", text.lower())
        self.known.update(re.findall(r"[a-z]+", text))

    def _line(self, title: str, line: str) -> None:
        parts = [part.strip() for part in line.split("|")]
        if title in ("ends", "begins"):
            getattr(self, title).update(map(self._word, parts))
        elif title in _SETS:
            words = line.split()
            literal = title in ("says nothing", "denies")
            getattr(self, _SETS[title]).update(words if literal else [*words, *map(self.base, words)])
            self.base.cache_clear()  # bases depend on silent words
        elif title == "denies what was":
            for part in parts:
                self._phrase(part.split(), "nolonger")
        elif title == "means the same":
            self._group(self.synonyms, map(self._word, parts))
        elif title in _PAIRS:
            words = [self._word(part) for part in parts]
            getattr(self, _PAIRS[title]).update((a, b) for a in words for b in words if a != b)
        elif title == "only one of":
            self._group(self.kinds, map(self.base, line.split()))
        elif title == "one topic":
            self._group(self.topics, map(self.base, line.split()))
        elif title == "units":
            words, _, size = line.partition(":")
            number, dimension = size.split()
            self.units.update((word, (dimension, Fraction(number))) for word in words.split())

    def _word(self, phrase: str) -> str:
        """The one word that replaces a phrase."""
        words = phrase.split()
        if len(words) == 1:
            return self.base(phrase)
        return self._phrase([self.base(word) for word in words], "-".join(words))

    def _phrase(self, words: list[str], made: str) -> str:
        self.phrases[tuple(words)] = made
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


def _lines(text: str) -> Iterable[tuple[str, str]]:
    """The lines of all sections, each with the title of its section."""
    title = ""
    for line in text.lower().splitlines():
        if line.startswith("## "):
            title = line[3:].strip()
        elif title and line.strip():
            yield title, line.strip()


def language_of(systems: tuple[Path, ...]) -> Language:
    """The language of these system folders, nearest first, all of them together."""
    names = ("words.md", "agreement.md")
    files = [folder / "memory" / name for name in names for folder in reversed(systems)]
    return _language(tuple(path for path in files if path.is_file()))


@cache
def _language(files: tuple[Path, ...]) -> Language:
    """Read once per process; workspaces without files of their own share one."""
    language = Language()
    for path in files:
        read = language.read_words if path.name == "words.md" else language.read_agreement
        read(path.read_text("utf-8"))
    return language
