"""Which words may stand for each other, and which never may: data, read from `memory/words.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Phrase = tuple[str, ...]

_IRREGULAR = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "person": "people",
    "mouse": "mice",
    "goose": "geese",
    "foot": "feet",
    "tooth": "teeth",
}
_SINGULAR = {plural: singular for singular, plural in _IRREGULAR.items()}
_VERB = re.compile(r"([a-z]+)(?: \(([a-z]+)\))?")


@dataclass
class Words:
    """What is known of words; `same` maps a phrase to the groups of phrases that mean the same."""

    same: dict[Phrase, set[int]] = field(default_factory=dict[Phrase, "set[int]"])
    fixed: set[str] = field(default_factory=set[str])
    markers: set[str] = field(default_factory=set[str])
    courtesies: set[str] = field(default_factory=set[str])
    orders: set[Phrase] = field(default_factory=set[Phrase])
    longest: int = 1
    _groups: int = 0

    def alike(self, first: Phrase, second: Phrase) -> bool:
        """Whether two phrases may stand in each other's place."""
        return bool(self.same.get(first, set[int]()) & self.same.get(second, set[int]()))

    def join(self, phrases: Iterable[Phrase]) -> None:
        """These phrases mean the same: what a person or a higher rung confirmed, say."""
        self._groups += 1
        for phrase in phrases:
            self.same.setdefault(phrase, set()).add(self._groups)
            self.longest = max(self.longest, len(phrase))

    def read(self, text: str) -> None:
        """Add what a file of words holds."""
        for title, lines in _sections(text):
            for line in lines:
                self._line(title, line)

    def _line(self, title: str, line: str) -> None:
        if title == "never exchanged":
            self.fixed |= set(line.split())
        elif title == "before a noun":
            self.markers |= set(line.split())
        elif title == "asks for nothing":
            self.courtesies |= set(line.split())
        elif title == "before an order":
            self.orders |= {tuple(part.split()) for part in line.split("|")}
        elif "|" in line:
            parts = [part.strip() for part in line.split("|")]
            for group in {"verbs": _verbs, "nouns": _nouns}.get(title, _literal)(parts):
                self.join(group)


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """Headings with the lines below them; sentences (with a full stop at their end) are for people."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("## "):
            found.append((line[3:].strip().lower(), []))
        elif found and line.strip() and (not line.rstrip().endswith(".") or "|" in line):
            found[-1][1].append(line.strip().lower())
    return found


def _literal(parts: Sequence[str]) -> list[list[Phrase]]:
    return [[tuple(part.split()) for part in parts]]


def _nouns(parts: Sequence[str]) -> list[list[Phrase]]:
    names = [tuple(part.split()) for part in parts]
    return [names, [(*name[:-1], plural(name[-1])) for name in names]]


def _verbs(parts: Sequence[str]) -> list[list[Phrase]]:
    """The forms of each verb: goes with its likes form by form."""
    forms: list[list[Phrase]] = [[], [], [], []]
    for part in parts:
        hit = _VERB.fullmatch(part)
        if hit is None:
            continue
        base, past = hit[1], hit[2] or _past(hit[1])
        for group, form in zip(forms, (base, _third(base), past, _ing(base)), strict=True):
            group.append((form,))
    return forms


def plural(word: str) -> str:
    """The plural of a noun."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


@cache
def stem(word: str) -> str:
    """What the forms of a noun have in common: `boxes`, `box` and `box's`; `cookies` and `cookie`."""
    word = word.removesuffix("'s").removesuffix("'")
    word = _SINGULAR.get(word, word)
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    word = word.removesuffix("e")
    if word.endswith("i"):
        return f"{word[:-1]}y"
    return f"{word[:-1]}f" if word.endswith("v") else word


def _third(base: str) -> str:
    return {"have": "has", "go": "goes", "do": "does"}.get(base) or plural(base)


def _past(base: str) -> str:
    if base.endswith("e"):
        return f"{base}d"
    if base.endswith("y") and base[-2:-1] not in "aeiou":
        return f"{base[:-1]}ied"
    return f"{_doubled(base)}ed"


def _ing(base: str) -> str:
    return f"{base[:-1] if base.endswith('e') and not base.endswith('ee') else _doubled(base)}ing"


def _doubled(base: str) -> str:
    """`plan` becomes `plann-`: a short verb with one vowel before its one last consonant."""
    short = len(base) <= 4 and re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", base)
    return base + base[-1] if short else base


@cache
def words_of(systems: tuple[Path, ...]) -> Words:
    """The words of these system folders, all of them together."""
    words = Words()
    for folder in reversed(systems):
        path = folder / "memory" / "words.md"
        if path.is_file():
            words.read(path.read_text("utf-8"))
    return words
