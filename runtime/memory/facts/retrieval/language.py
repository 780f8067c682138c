"""What retrieval knows about words: stems, words without meaning, and words that ask for a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from kernel.errors import ConfigurationError
from runtime.memory.store.words import plain
from runtime.text.inflection import regular_stem as stem
from runtime.text.patterns import any_of
from runtime.text.sections import sections

LONGEST = 20_000
"""Characters of a text that are used."""
MOST_TERMS = 64
"""Different words of a question that are used."""
_WORD = re.compile(r"[^\W_]+")
_SETS = {
    "tell nothing": "dull",
    "first person": "first_person",
    "begin a question": "question_words",
    "come next in a question": "auxiliaries",
    "tell a time": "time_words",
    "no names": "nobody",
    "asks for an amount in other words": "amounts",
    "asks for a price": "prices",
    "asks what happened": "happened",
    "says little in a question": "light",
}
"""Sections that are plain lists of words, and the field that holds each."""


@dataclass
class Language:
    """The lists of `memory/recall.md`."""

    dull: frozenset[str] = frozenset()
    asks_time: tuple[str, ...] = ()
    first_person: frozenset[str] = frozenset()
    question_words: frozenset[str] = frozenset()
    auxiliaries: frozenset[str] = frozenset()
    time_words: frozenset[str] = frozenset()
    nobody: frozenset[str] = frozenset()
    amounts: frozenset[str] = frozenset()
    prices: frozenset[str] = frozenset()
    light: frozenset[str] = frozenset()
    happened: frozenset[str] = frozenset()
    past: tuple[str, ...] = ()
    relations: dict[str, str] = field(default_factory=dict[str, str])
    """Each word that relates things, with the first of those that mean the same."""
    asks: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    shows: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    days: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    seasons: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def terms(self, text: str) -> list[str]:
        """Stems of the meaningful words, as often as they occur."""
        return [stem(word) for word in words(text) if word not in self.dull]

    def question(self, text: str) -> list[str]:
        """The different stems to look for, in order; dull words only if there are no others."""
        stems = self.terms(text) or [stem(word) for word in words(text)]
        return list(dict.fromkeys(stems))[:MOST_TERMS]

    def wants_time(self, text: str) -> bool:
        """Whether a question asks when something was."""
        return bool(self._asks.search(text[:LONGEST]))

    @cached_property
    def _asks(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{any_of(self.asks_time)})\b", re.IGNORECASE)

    def of_itself(self, text: str) -> bool:
        """Whether a text is in the first person."""
        return any(word in self.first_person for word in _WORD.findall(text[:LONGEST].casefold()))


def words(text: str) -> list[str]:
    """The words of a text in lower case; in scripts without spaces, single characters."""
    return _WORD.findall(plain(text[:LONGEST]).casefold())


@cache
def language_of(systems: tuple[Path, ...] = ()) -> Language:
    """The lists of these system folders, the first one first; the shipped ones if none is given."""
    language = Language()
    for heading, body in sections((systems or shipped())[::-1], "recall.md"):
        _read(language, heading, body)
    return language


def shipped() -> tuple[Path, ...]:
    """The shipped instructions."""
    runtime = Path(__file__).parents[3]
    return tuple(folder for folder in (runtime / "_system", runtime.parent / "system") if folder.is_dir())[:1]


def _read(language: Language, heading: str, body: str) -> None:
    """Add a section; paragraphs that end with a full stop are explanations."""
    blocks = [block for block in body.strip().split("\n\n") if not block.rstrip().endswith(".")]
    listed = " ".join(blocks).casefold().split()
    if heading in _SETS:
        setattr(language, _SETS[heading], getattr(language, _SETS[heading]) | set(listed))
    elif heading == "ask for a time":
        language.asks_time += tuple(" ".join(listed).split(" | "))
    elif heading == "asks for the past":
        language.past += tuple(" ".join(listed).split(" | "))
    elif heading in ("asks for", "shows an answer"):
        lists = language.asks if heading == "asks for" else language.shows
        for line in blocks[-1].casefold().splitlines() if blocks else ():
            kind, _, phrases = line.partition("=")
            lists[kind.strip()] = (*lists.get(kind.strip(), ()), *map(str.strip, phrases.split("|")))
    elif heading == "relate":
        for line in blocks[-1].casefold().splitlines() if blocks else ():
            language.relations |= dict.fromkeys(line.split(), line.split()[0])
    elif heading in ("days", "seasons"):
        getattr(language, heading).update(_pairs(body))
    elif heading == "numbers":
        try:
            language.numbers |= {word: int(n) for word, n in zip(listed[::2], listed[1::2], strict=True)}
        except ValueError:
            raise ConfigurationError("memory/recall.md: Numbers: words and numbers must alternate") from None


def _pairs(body: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for line in body.splitlines():
        phrase, sign, days = line.partition("=")
        if sign:
            try:
                first, last = (int(each) for each in days.split())
            except ValueError:
                message = f"memory/recall.md: {line}: needs two whole numbers after ="
                raise ConfigurationError(message) from None
            yield phrase.strip().casefold(), (first, last)
