"""What retrieval knows about words: stems, words without meaning, and words that ask for a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from kernel.errors import ConfigurationError
from runtime.memory.store.words import plain

LONGEST = 20_000
"""Characters of a text that are used."""
MOST_TERMS = 64
"""Different words of a question that are used."""
_WORD = re.compile(r"[^\W_]+")
_SECTION = re.compile(r"^## +(.+)$", re.MULTILINE)


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
    days: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    seasons: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def terms(self, text: str) -> list[str]:
        """Stems of the meaningful words, as often as they occur."""
        return [stem(word) for word in words(text) if word not in self.dull]

    def question(self, text: str) -> list[str]:
        """The different stems to look for, in order; dull words only if there are no others."""
        told = self.terms(text) or [stem(word) for word in words(text)]
        return list(dict.fromkeys(told))[:MOST_TERMS]

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


def any_of(phrases: Iterable[str]) -> str:
    """A pattern that matches any of these, the longest first."""
    return "|".join(re.escape(each) for each in sorted(phrases, key=len, reverse=True)) or r"(?!)"


@cache
def _stemmer() -> Any:
    from snowballstemmer import stemmer

    return stemmer("english")


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a word."""
    return _stemmer().stemWord(word) if word.isascii() and len(word) < 40 else word


@cache
def language_of(systems: tuple[Path, ...] = ()) -> Language:
    """The lists of these system folders, the first one first; the shipped ones if none is given."""
    language = Language()
    for folder in reversed(systems or shipped()):
        path = folder / "memory" / "recall.md"
        if path.is_file():
            _read(language, path)
    return language


def shipped() -> tuple[Path, ...]:
    """The shipped instructions."""
    runtime = Path(__file__).parents[3]
    return tuple(folder for folder in (runtime / "_system", runtime.parent / "system") if folder.is_dir())[:1]


def _read(language: Language, path: Path) -> None:
    _, *parts = _SECTION.split(path.read_text("utf-8"))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    language.dull |= set(_list(sections, "Tell nothing"))
    language.asks_time += tuple(" ".join(_list(sections, "Ask for a time")).split(" | "))
    language.first_person |= set(_list(sections, "First person"))
    language.question_words |= set(_list(sections, "Begin a question"))
    language.auxiliaries |= set(_list(sections, "Come next in a question"))
    language.time_words |= set(_list(sections, "Tell a time"))
    language.nobody |= set(_list(sections, "No names"))
    language.days |= _pairs(sections, "Days", path)
    language.seasons |= _pairs(sections, "Seasons", path)
    numbers = _list(sections, "Numbers")
    try:
        language.numbers |= {
            word: int(value) for word, value in zip(numbers[::2], numbers[1::2], strict=True)
        }
    except ValueError:
        raise ConfigurationError(f"{path}: ## Numbers: words and numbers must alternate") from None


def _list(sections: dict[str, str], name: str) -> list[str]:
    """The words of a section; paragraphs that end with a full stop are explanations."""
    blocks = sections.get(name, "").strip().split("\n\n")
    return [word for block in blocks if not block.rstrip().endswith(".") for word in block.casefold().split()]


def _pairs(sections: dict[str, str], name: str, path: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for line in sections.get(name, "").splitlines():
        phrase, sign, told = line.partition("=")
        if not sign:
            continue
        try:
            first, last = (int(each) for each in told.split())
        except ValueError:
            raise ConfigurationError(f"{path}: {line}: needs two whole numbers after =") from None
        found[phrase.strip().casefold()] = (first, last)
    return found
