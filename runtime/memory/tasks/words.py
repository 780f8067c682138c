"""Which words may replace each other and which never may, read from `memory/words.md`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path

from runtime.text.inflection import Phrase, plural, verb_forms
from runtime.text.sections import sections

_SETS = {
    "never exchanged": "fixed",
    "never exchanged, and may stand before a noun": "adjectives",
    "before a noun": "markers",
    "asks for nothing": "courtesies",
    "names that are words": "names",
    "takes in others": "general",
    "stands for several": "groups",
}
_PHRASES = {"before an order": "orders", "may be missing": "optional"}


@dataclass
class Words:
    """Word lists; `same` maps a phrase to its groups of synonyms.

    In a `strict` group (nouns) a word cannot replace one that has a role of its own in the task.
    """

    same: dict[Phrase, set[int]] = field(default_factory=dict[Phrase, "set[int]"])
    fixed: set[str] = field(default_factory=set[str])
    adjectives: set[str] = field(default_factory=set[str])  # a part of `fixed`
    markers: set[str] = field(default_factory=set[str])
    courtesies: set[str] = field(default_factory=set[str])
    names: set[str] = field(default_factory=set[str])
    general: set[str] = field(default_factory=set[str])
    groups: set[str] = field(default_factory=set[str])
    orders: set[Phrase] = field(default_factory=set[Phrase])
    optional: set[Phrase] = field(default_factory=set[Phrase])
    skips: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    # by first word: the lengths of the optional phrases
    implied: dict[str, set[Fraction]] = field(default_factory=dict[str, "set[Fraction]"])  # implied numbers
    means: dict[str, set[Fraction]] = field(default_factory=dict[str, "set[Fraction]"])
    # of these, the numbers that the word means
    constants: set[Fraction] = field(default_factory=set[Fraction])  # the numbers that any word implies
    genders: dict[str, int] = field(default_factory=dict[str, int])  # 0 he, 1 she
    swaps: set[Phrase] = field(default_factory=set[Phrase])  # pairs such as (he, she)
    strict: set[int] = field(default_factory=set[int])
    lengths: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    # by first word: the lengths of the phrases in `same`
    _groups: int = 0
    _roots: dict[Phrase, str] = field(default_factory=dict[Phrase, str])

    def alike(self, first: Phrase, second: Phrase) -> bool:
        """Whether two phrases are synonyms."""
        return bool(self.same.get(first, set[int]()) & self.same.get(second, set[int]()))

    def root(self, phrase: Phrase) -> str:
        """One name for all phrases connected by groups: for finding tasks, never for binding."""
        if not self._roots:
            self._find_roots()
        return self._roots.get(phrase, " ".join(phrase))

    def _find_roots(self) -> None:
        members: dict[int, list[Phrase]] = {}
        for phrase, groups in self.same.items():
            for group in groups:
                members.setdefault(group, []).append(phrase)
        for first in self.same:  # in their order, so that later additions rename little
            waiting = [] if first in self._roots else [first]
            while waiting:
                phrase = waiting.pop()
                if phrase not in self._roots:
                    self._roots[phrase] = " ".join(first)
                    waiting += (each for group in self.same[phrase] for each in members.pop(group, ()))

    def join(self, phrases: Iterable[Phrase], *, strict: bool = False) -> None:
        """Make these phrases synonyms."""
        self._groups += 1
        self._roots = {}
        if strict:
            self.strict.add(self._groups)
        for phrase in phrases:
            self.same.setdefault(phrase, set()).add(self._groups)
            known = self.lengths.get(phrase[0], ())
            if len(phrase) not in known:
                self.lengths[phrase[0]] = tuple(sorted((*known, len(phrase))))

    def read(self, title: str, body: str) -> None:
        """Add the words of a section; lines that end in a full stop are for people."""
        for line in filter(None, map(str.strip, body.lower().splitlines())):
            if not line.endswith(".") or "|" in line:
                self._line(title, re.sub(r"\s+", " ", line))

    def _line(self, title: str, line: str) -> None:
        parts = [part.strip() for part in line.split("|")]
        if title in _SETS:
            found: set[str] = getattr(self, _SETS[title])
            found |= set(line.split())
            if title.startswith("never exchanged"):
                self.fixed |= set(line.split())
        elif title == "never exchanged, in all forms":
            self.fixed |= {form[0] for part in parts for form in verb_forms(part)}
        elif title in _PHRASES:
            phrases = [tuple(part.split()) for part in parts]
            getattr(self, _PHRASES[title]).update(phrases)
            for phrase in phrases if title == "may be missing" else ():
                known = {*self.skips.get(phrase[0], ()), len(phrase)}
                self.skips[phrase[0]] = tuple(sorted(known, reverse=True))
        elif title in ("numbers behind words", "numbers that words are"):
            number, _, words = line.partition(":")
            self.constants.add(Fraction(number.strip()))
            for word in words.split():
                self.implied.setdefault(word, set()).add(Fraction(number.strip()))
                if title == "numbers that words are":
                    self.means.setdefault(word, set()).add(Fraction(number.strip()))
        elif title == "he and she":
            he, she = parts
            self.genders |= {he: 0, she: 1}
            self.swaps |= {(he, she), (she, he)}
        elif len(parts) > 1:
            self._join(title, parts)

    def _join(self, title: str, parts: Sequence[str]) -> None:
        if title == "verbs":
            for group in zip(*(forms for part in parts if (forms := verb_forms(part))), strict=True):
                self.join(group)
        elif title == "nouns":
            names = [tuple(part.split()) for part in parts]
            self.join(names, strict=True)
            self.join([(*name[:-1], plural(name[-1])) for name in names], strict=True)
        else:
            self.join(tuple(part.split()) for part in parts)


@cache
def words_of(systems: tuple[Path, ...]) -> Words:
    """The words of all these system folders."""
    words = Words()
    for title, body in sections(systems[::-1], "words.md"):
        words.read(title, body)
    return words


def fingerprint(systems: tuple[Path, ...]) -> str:
    """The same for the same words and the same way to read them; trees are indexed again when it changes."""
    found = hashlib.sha256(b"snowball")
    for folder in systems:
        path = folder / "memory" / "words.md"
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()[:12]
