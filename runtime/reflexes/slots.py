"""What readers of slots work on: tokens, earlier results, and the words that all reflexes share.

A reader yields every way in which its kind can begin at a token: where it ends, what it means, and how vague
that is: 0 for what is nothing else, 1 for what shows its kind, 2 and more for words that could be anything.
The readers stand in `values` (numbers, dates, arithmetic) and `names` (paths, texts, columns).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from runtime.reflexes.surroundings import Contents, Surroundings
from runtime.text.chunks import Chunk


@dataclass(frozen=True)
class Earlier:
    """An earlier result: its shapes, and the file or column that it is about."""

    shapes: frozenset[str]  # number, numbers, list, table, text, file, table file, and facts: total, count
    text: str | None = None  # None: promised, not there yet
    file: str = ""
    column: str = ""  # of a table, its last; of a number, what it is a number of
    source: str = ""
    facts: tuple[tuple[str, str], ...] = ()  # known facts about it: ("total", "42")
    result: str = ""  # of a step that is still to come, its expression: `steps[2].result`


class It(str):
    """A slot's value that is a template for the text of the latest result."""

    __slots__ = ()


class Meant(str):
    """A path that a pronoun such as `it` means."""

    __slots__ = ()


Words = tuple[str, ...]
Named = Mapping[str, list[tuple[Words, frozenset[str]]]]
"""Phrases by their first word, each with the names of the lists that it is in."""


def by_first_word(lists: Mapping[str, Iterable[Words]]) -> Named:
    """The phrases of some lists by their first word, each with the lists that have it."""
    names: dict[Words, set[str]] = {}
    for name, listed in lists.items():
        for words in listed:
            names.setdefault(words, set()).add(name)
    found: dict[str, list[tuple[Words, frozenset[str]]]] = {}
    for words, each in names.items():
        found.setdefault(words[0], []).append((words, frozenset(each)))
    return found


@dataclass(frozen=True)
class Language:
    """The words that all reflexes share, from `language.md`."""

    numbers: Mapping[str, str] = field(default_factory=dict)
    months: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[Words, str] = field(default_factory=dict)
    choices: Mapping[str, Mapping[Words, Any]] = field(default_factory=dict)  # kind, unit, period, day, …
    classes: Mapping[str, str] = field(default_factory=dict)  # <name> in a phrasing
    text_pronouns: frozenset[Words] = frozenset()
    file_pronouns: frozenset[Words] = frozenset()
    refused: frozenset[str] = frozenset()  # words that no unquoted text may hold
    names: frozenset[str] = frozenset()  # files without an extension
    owners: frozenset[str] = frozenset()  # words before the name of a file: `my todo list`
    courtesies: tuple[Words, ...] = ()  # after a task
    descriptions: Mapping[str, frozenset[str]] = field(  # words of texts that are still to be written
        default_factory=lambda: defaultdict[str, frozenset[str]](frozenset)
    )
    # for reading by intents
    concepts: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)  # classes of words by name
    prepositions: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)  # groups by name
    kinds: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)  # what tasks want, for small models
    aside: tuple[Words, ...] = ()  # what says nothing in a question
    articles: frozenset[str] = frozenset()  # words that say nothing anywhere
    limits: frozenset[str] = frozenset()  # words without which a task says something else
    markers: frozenset[str] = frozenset()  # words that say nothing beside a named file
    announcing: frozenset[str] = frozenset()  # words after which any word is a text

    @cached_property
    def naming(self) -> Named:
        """The phrases of all concepts by their first word, each with its concepts."""
        return by_first_word(self.concepts)

    @cached_property
    def leaving(self) -> Named:
        """The phrases of `aside` by their first word."""
        return by_first_word({"": self.aside})

    @cached_property
    def relating(self) -> Named:
        """The prepositions by their first word, each with its groups."""
        return by_first_word(self.prepositions)


@dataclass(frozen=True)
class Scan:
    """The tokens that are being read, what came before, and the language."""

    tokens: tuple[Chunk, ...]
    text: str
    language: Language
    prior: tuple[Earlier, ...] = ()
    around: Surroundings | None = None  # None: the folder is not known
    beside: tuple[str, ...] = ()  # the files of the part of the task beside this one
    systems: tuple[Path, ...] = ()  # the folders whose `memory/words.md` count

    @cached_property
    def tables(self) -> list[Contents]:
        """What the tables and JSON documents hold that the task names or that came before."""
        if self.around is None:
            return []
        names = [token.text for token in self.tokens if "." in token.text]
        names += [*self.beside, *(each.file for each in self.prior[-1:] if each.file)]
        for token in self.tokens:
            called = self.around.called(token.word) if token.word.isalpha() and len(token.word) > 3 else []
            names += called if len(called) == 1 else []
        return [found for name in dict.fromkeys(names) if (found := self.around.contents(name))]

    def word(self, at: int) -> str:
        """The word at a position, "" for quoted text and beyond the end."""
        return self.tokens[at].word if at < len(self.tokens) else ""

    def raw(self, start: int, end: int) -> str:
        """The text from one token to another."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    @cached_property
    def _read(self) -> dict[tuple[Reader, int], tuple[Read, ...]]:
        return {}

    def read(self, reader: Reader, at: int) -> tuple[Read, ...]:
        """All that a kind reads at a position; hundreds of phrasings and intents ask for the same."""
        found = self._read.get((reader, at))
        if found is None:
            found = self._read[reader, at] = tuple(reader(self, at))
        return found

    def follows(self, at: int, words: Words) -> bool:
        """Whether these words are at a position."""
        for offset, word in enumerate(words):  # noqa: SIM110 (it is asked thousands of times a task)
            if self.word(at + offset) != word:
                return False
        return True

    def after(self, at: int, phrases: Iterable[Words]) -> Iterator[int]:
        """The ends of those of these phrases that are at a position."""
        return (at + len(words) for words in phrases if self.follows(at, words))

    def named_at(self, at: int, named: Named) -> Iterator[tuple[int, frozenset[str]]]:
        """The ends and names of those of these phrases that are at a position."""
        for words, names in named.get(self.word(at), ()):
            if self.follows(at, words):
                yield at + len(words), names

    @property
    def it(self) -> Earlier | None:
        """The latest result."""
        return self.prior[-1] if self.prior else None


Read = tuple[int, Any, int]
Reader = Callable[[Scan, int], Iterator[Read]]


def choice_of(choices: Mapping[Words, Any]) -> Reader:
    """One of a list of words, each with what it means."""
    by_first: dict[str, list[tuple[Words, Any]]] = {}
    for words, value in choices.items():
        by_first.setdefault(words[0], []).append((words, value))

    def read(scan: Scan, at: int) -> Iterator[Read]:
        for words, value in by_first.get(scan.word(at), ()):
            if scan.follows(at, words):
                yield at + len(words), value, 0

    return read


def list_of(read: Reader, least: int = 1) -> Reader:
    """One or more of a kind, joined by commas and `and`."""

    def read_all(scan: Scan, at: int) -> Iterator[Read]:
        reached: list[tuple[int, tuple[Any, ...], int]] = [(at, (), 0)]
        while reached:
            start, values, vague = reached.pop()
            for end, value, more in read(scan, start):
                if len(values) + 1 >= least:
                    yield end, [*values, value], vague + more
                after = end + (scan.word(end) == ",")
                after += scan.word(after) in ("and", "&", "+")
                if after > end and len(values) < 20:
                    reached.append((after, (*values, value), vague + more))

    return read_all


def those_like(read: Reader, pattern: str) -> Reader:
    """What a kind reads, if it matches one of some patterns, such as `*.csv *.tsv`."""

    def read_some(scan: Scan, at: int) -> Iterator[Read]:
        for end, value, vague in read(scan, at):
            if any(fnmatch(str(value).lower(), each) for each in pattern.split()):
                yield end, value, max(vague - 1, 0)

    return read_some
