"""The second way to read a task: by what its words mean, where no phrasing reads it word by word.

This chooses the phrasings that a task could mean, and among their readings; `walking` holds one phrasing
against a task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from runtime.responders.reflexes.names import read_named
from runtime.responders.reflexes.phrasing import Phrasing, PhrasingError, Reading
from runtime.responders.reflexes.procedure import Procedure, Shelf
from runtime.responders.reflexes.slots import Scan, Words
from runtime.responders.reflexes.walking import Floating, Walk, floats_in, loss, rank

MOST_WORDS = 40
"""Of a task; one that says more is no short order."""
_WORD = re.compile(r"[^\s\[\](){}<>|]+")
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_GROUP = re.compile(r"\(([^()]*)\)")
_ROOM = {
    **dict.fromkeys(("number", "integer", "percent", "numbers", "quantity", "duration", "date", "range"), 0),
    **dict.fromkeys(("several numbers", "path", "file", "paths", "files", "several paths", "named paths"), 0),
    **dict.fromkeys(("name", "archive", "glob", "url", "quoted", "text", "expression"), 0),
    **dict.fromkeys(("columns", "folders", "places", "bare folders", "line"), 6),
    "phrase": 6,
}
"""How many words that show no kind a slot of this kind may take; of other kinds, one."""
_SPELT = {"quantity": ("unit",), "duration": ("period",), "date": ("day",)}
"""Kinds of slots that take words of a list."""
_HOLE = re.compile(r"\{([^{}]*)\}|<([^<>]*)>")


class _Vocabulary(NamedTuple):
    own: frozenset[str]  # the words of a phrasing with all that could stand for them
    room: int  # how many other words its slots could take
    musts: list[frozenset[str]]  # of each of these, a task has a word


class Meanings:
    """The reflexes of a shelf with the words that mean the same, for reading by meaning."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.language = shelf.language
        self._spoken: dict[str, _Vocabulary] = {}

    def readings(self, scan: Scan, start: int, end: int) -> Iterator[tuple[Procedure, Phrasing, Reading]]:
        """Every reading of the tokens from `start` to `end`."""
        if end - start > MOST_WORDS:
            return
        cut = Scan(scan.tokens[:end], scan.text, scan.language, scan.prior)
        words = frozenset(token.word for token in cut.tokens[start:])
        said = self._content(cut, start)
        floats: list[Floating] | None = None
        for procedure in self.shelf.procedures:
            if procedure.refuse & words or procedure.needs or procedure.uses_it or procedure.learned:
                continue
            for phrasing in procedure.phrasings:
                if not self._could(phrasing, said, words):
                    continue
                if floats is None:
                    floats = list(floats_in(cut, start))
                yield from self._by(procedure, phrasing, cut, start, floats)

    def _by(
        self, procedure: Procedure, phrasing: Phrasing, scan: Scan, start: int, floats: list[Floating]
    ) -> Iterator[tuple[Procedure, Phrasing, Reading]]:
        for floating in (None, *floats):
            walk = Walk(phrasing, scan, self.alike, changes=procedure.changes, floating=floating)
            try:
                found = walk.readings(start)
            except PhrasingError:
                return
            for reading in found:
                yield procedure, phrasing, reading

    def nearest(self, found: Sequence[tuple[Procedure | None, Reading, Mapping[str, Any]]]) -> int | None:
        """The place of the reading that is nearest to what was said; None when one that differs is as near.

        Where anything would be changed, another reading at all is one too many.
        """
        if not found:
            return None
        best = min(range(len(found)), key=lambda at: rank(found[at][1]))
        procedure, reading, slots = found[best]
        others = [each for each in found if each[0] is not procedure or dict(each[2]) != dict(slots)]
        changes = any(each[0] is not None and each[0].changes for each in found)
        near = [each for each in others if changes or loss(each[1]) <= loss(reading)]
        return None if near else best

    # ---- which phrasings could read a task at all ----

    def _content(self, scan: Scan, start: int) -> list[str]:
        """The words that a phrasing must have: neither empty ones nor names, numbers and quoted texts."""
        named = {at for at in range(start, len(scan.tokens)) for _ in read_named(scan, at)}
        spelt = self.language.aside | self.language.numbers.keys() | self.language.months.keys()
        spelt |= {word for words in self.language.operators for word in words}
        words = (scan.word(at) for at in range(start, len(scan.tokens)) if at not in named)
        return [
            word
            for word in words
            if re.search(r"[^\W\d]", word) and not re.search(r"\d", word) and word not in spelt
        ]

    def _could(self, phrasing: Phrasing, said: list[str], words: frozenset[str]) -> bool:
        """Whether the phrasing covers what is said, and what is said has the words that it must have."""
        if phrasing.text not in self._spoken:
            self._spoken[phrasing.text] = self._vocabulary(phrasing)
        own, room, musts = self._spoken[phrasing.text]
        return sum(word not in own for word in said) <= room and all(must & words for must in musts)

    def _vocabulary(self, phrasing: Phrasing) -> _Vocabulary:
        own, room = self._own(phrasing.text, phrasing)
        outer = _OPTIONAL.sub(" ", _OPTIONAL.sub(" ", _OPTIONAL.sub(" ", phrasing.text)))
        groups = [_WORD.findall(each) for each in _GROUP.findall(outer) if not re.search(r"[{<]", each)]
        groups += [[word] for word in phrasing.needed]
        must = [self._meaning(each) for each in groups if not self._slight & {*each}]
        return _Vocabulary(self._meaning(own), room, must)

    @cached_property
    def _slight(self) -> frozenset[str]:
        """Words that a task need not have where a phrasing has them."""
        return self.language.aside | self.language.articles | self.language.prepositions.keys()

    def _meaning(self, words: Iterable[str]) -> frozenset[str]:
        """Words with all the words that could stand for them."""
        own = {word.lower() for word in words}
        return frozenset(own.union(*(self._neighbours.get(word, ()) for word in own)))

    def _own(self, text: str, phrasing: Phrasing) -> tuple[set[str], int]:
        """The words of a phrasing, and how many others its slots could take."""
        words: set[str] = set()
        room = 0
        for hole in _HOLE.finditer(text):
            if hole[2] is not None:
                more, others = self._own(self.language.classes.get(hole[2], ""), phrasing)
                words |= more
                room += others
            else:
                listed = phrasing.kinds.words(hole[1])
                words |= {word for choice in listed or () for word in choice}
                kind = str(phrasing.kinds.kind(hole[1]))
                room += 0 if listed is not None else _ROOM.get(kind.partition(" *")[0], 1)
                words |= {w for name in _SPELT.get(kind, ()) for c in self.language.choices[name] for w in c}
        return words | {word.lower() for word in _WORD.findall(_HOLE.sub(" ", text))}, room

    @cached_property
    def _groups(self) -> Mapping[int, set[Words]]:
        """The phrases of each group of the language of tasks.

        Words that mean the same in any text (`memory/words.md`) are too many here: to number lines is not to
        count them, and the rows of a table are not the lines of its file.
        """
        groups: dict[int, set[Words]] = {}
        for phrase, numbers in self.language.same.items():
            for number in numbers:
                groups.setdefault(number, set()).add(phrase)
        return groups

    @cached_property
    def _neighbours(self) -> Mapping[str, set[str]]:
        """For each word, the words of all phrases that can stand for a phrase with this word."""
        found: dict[str, set[str]] = {}
        for phrases in self._groups.values():
            words = {word for phrase in phrases for word in phrase}
            for word in words:
                found.setdefault(word, set()).update(words)
        return found

    def alike(self, said: Words) -> set[Words]:
        """The phrases that mean the same in a task on files."""
        numbers = self.language.same.get(said, ())
        return {each for number in numbers for each in self._groups[number]} - {said}
