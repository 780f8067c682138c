"""What is known of words for telling whether sayings agree: data of `memory/agreement.md` and `words.md`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path

from runtime.memory.procedural.inflection import stem, verb_forms

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
_PAIRS = {"either one or the other": "either", "opposites": "opposites", "different ones": "different"}
SEEN = 20_000
"""Words whose base form is kept in mind."""
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non")


@dataclass
class Language:
    """Words by what they do to a saying. Words stand in their base form."""

    silent: set[str] = field(default_factory=set[str])
    negators: set[str] = field(default_factory=set[str])
    single: set[str] = field(default_factory=set[str])
    once: set[str] = field(default_factory=set[str])
    others: set[str] = field(default_factory=set[str])
    ends: set[str] = field(default_factory=set[str])
    begins: set[str] = field(default_factory=set[str])
    now: set[str] = field(default_factory=set[str])
    opinions: set[str] = field(default_factory=set[str])
    greetings: set[str] = field(default_factory=set[str])
    phrases: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    # of several words, and the one that stands for them
    bases: dict[str, str] = field(default_factory=dict[str, str])  # of forms of verbs
    groups: dict[str, set[int]] = field(default_factory=dict[str, "set[int]"])  # what means the same
    either: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    opposites: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    different: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    kinds: dict[str, set[int]] = field(default_factory=dict[str, "set[int]"])  # of which one excludes another
    topics: dict[str, set[int]] = field(default_factory=dict[str, "set[int]"])
    units: dict[str, tuple[str, Fraction]] = field(default_factory=dict[str, tuple[str, Fraction]])
    known: set[str] = field(default_factory=set[str])  # every word that some file has
    _count: int = 0
    _seen: dict[str, str] = field(default_factory=dict[str, str])
    _poles: set[str] = field(default_factory=set[str])
    _starts: set[str] = field(default_factory=set[str])

    # ---- asking --------------------------------------------------------------------------------------------

    def base(self, word: str) -> str:
        """One form for all forms of a word."""
        found = self._seen.get(word)
        if found is None:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            found = self._seen[word] = self._base(word)
        return found

    def _base(self, word: str) -> str:
        if (known := self.bases.get(word)) is not None:
            return known
        if "-" in word or word in self.silent or word in self.negators:
            return word
        for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", "")):
            if word.endswith(ending) and len(word) > len(ending) + 2:
                cut = word[: -len(ending)] + instead
                if ending in ("ing", "ed") and not re.search(r"[aeiouy]", cut):
                    break
                for each in (cut, cut + "e", cut[:-1] if cut[-1:] == cut[-2:-1] else cut):
                    if each in self.bases:
                        return self.bases[each]
                if ending in ("ing", "ed"):
                    return stem(cut[:-1] if cut[-1:] == cut[-2:-1] and cut[-1:] not in "sl" else cut)
        return stem(word)

    def knows(self, word: str) -> bool:
        """Whether a word stands in one of the files, in any form."""
        return word in self.bases or word in self.known or self.base(word) in self.known

    def alike(self, one: str, other: str) -> bool:
        """Whether two base forms may stand for each other."""
        return one == other or bool(self.groups.get(one, set[int]()) & self.groups.get(other, set[int]()))

    def opposed(self, one: str, other: str) -> str:
        """`either` where one of two words holds, `opposite` where both may not; "" where neither is so.

        `different` are words for two things that may both be there.
        """
        if (one, other) in self.different:
            return "different"
        if (one, other) in self.either or _denied(one, other) or _denied(other, one):
            return "either"
        return "opposite" if (one, other) in self.opposites else ""

    def polar(self, word: str) -> bool:
        """Whether a word has an opposite."""
        if not self._poles:
            self._poles = {one for pairs in (self.either, self.opposites) for one, _ in pairs}
        return word in self._poles

    def begins_phrase(self, low: str) -> bool:
        """Whether some phrase that one word stands for begins with this word."""
        if not self._starts:
            self._starts = {phrase[0] for phrase in self.phrases}
        return low in self._starts or self.base(low) in self._starts

    def exclusive(self, one: str, other: str) -> bool:
        """Whether two words are of one kind of which only one can be."""
        return one != other and bool(self.kinds.get(one, set[int]()) & self.kinds.get(other, set[int]()))

    def on_topic(self, one: set[str], other: set[str]) -> bool:
        """Whether two sets of words speak of one topic."""
        mine = {topic for word in one for topic in self.topics.get(word, ())}
        return any(topic in mine for word in other for topic in self.topics.get(word, ()))

    # ---- reading -------------------------------------------------------------------------------------------

    def read(self, text: str) -> None:
        """Add what a file holds."""
        self.known |= _words(text)
        self._seen.clear()
        title = ""
        for line in text.splitlines():
            if line.startswith("## "):
                title = line[3:].strip().lower()
                self._seen.clear()
            elif title and (line := line.strip().lower()):
                self._line(title, line)

    def verbs(self, text: str) -> None:
        """Learn the forms of verbs, and which words mean the same, from a file of words."""
        self.known |= _words(text)
        title = ""
        for line in text.splitlines():
            if line.startswith("## "):
                title = line[3:].strip().lower()
                continue
            parts = [part.strip().lower() for part in line.split("|")]
            if title in ("verbs", "never exchanged, in all forms"):
                for part in parts:
                    for form in verb_forms(part):
                        self.bases.setdefault(form[0], part.split()[0])
            if title in ("verbs", "nouns") and len(parts) > 1:
                plain = [re.sub(r" \([^)]*\)", "", part) for part in parts]
                self._join([each for each in plain if " " not in each])

    def _line(self, title: str, line: str) -> None:
        parts = [part.strip() for part in line.split("|")]
        if title in ("ends", "begins"):
            getattr(self, title).update(map(self._word, parts))
        elif title in _SETS:
            getattr(self, _SETS[title]).update(self._base_forms(title, line.split()))
        elif title == "denies what was":
            for part in parts:
                self.phrases[tuple(part.split())] = "nolonger"
        elif title == "means the same":
            self._join([self._word(part) for part in parts])
        elif title in _PAIRS:
            pairs: set[tuple[str, str]] = getattr(self, _PAIRS[title])
            words = [self._word(part) for part in parts]
            pairs |= {(one, other) for one in words for other in words if one != other}
        elif title in ("only one of", "one topic"):
            self._count += 1
            into = self.kinds if title == "only one of" else self.topics
            for word in line.split():
                into.setdefault(self.base(word), set()).add(self._count)
        elif title == "units":
            words, _, size = line.partition(":")
            number, dimension = size.split()
            for word in words.split():
                self.units[word] = (dimension, Fraction(number))

    def _base_forms(self, title: str, words: list[str]) -> list[str]:
        return words if title in ("says nothing", "denies") else [*words, *map(self.base, words)]

    def _word(self, phrase: str) -> str:
        """The one word that stands for a phrase."""
        words = phrase.split()
        if len(words) == 1:
            return self.base(phrase)
        made = "-".join(words)
        self.phrases[tuple(self.base(word) for word in words)] = made
        return made

    def _join(self, words: list[str]) -> None:
        self._count += 1
        for word in words:
            self.groups.setdefault(self.base(word), set()).add(self._count)


def _denied(word: str, other: str) -> bool:
    """Whether one is the other with `un` and its like before it: `married` and `unmarried`."""
    return len(word) > 3 and other.endswith(word) and other.removesuffix(word) in _PREFIXES


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"(?ms)^## names that are words$.*?(?=^## )", "", text.lower())))


@cache
def language_of(systems: tuple[Path, ...]) -> Language:
    """The language of these system folders, all of them together."""
    language = Language()
    for name, read in (("words.md", language.verbs), ("agreement.md", language.read)):
        for folder in reversed(systems):
            path = folder / "memory" / name
            if path.is_file():
                read(path.read_text("utf-8"))
    return language
