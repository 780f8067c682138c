"""Reads a task by meaning, where no phrasing matches it word by word.

A word may be replaced by a synonym, words without meaning may be left out, and one file or quoted text may
be at another place. Nothing else may be left over. What changes files is read more strictly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runtime.reflexes.names import read_named, read_symbol
from runtime.reflexes.phrasing import Bound, Phrasing, PhrasingError, Reading, bound_as
from runtime.reflexes.slots import Language, Scan, Words

if TYPE_CHECKING:
    from runtime.reflexes.procedure import Procedure, Shelf

VISITS = 4_000
"""Steps of the search for readings by one phrasing; a task that needs more is too vague to act on."""
LONGEST = 6
"""Words of a phrase that may replace another."""
ALOFT, LANDING, LANDED = 0, 1, 2
"""The floating value: not bound yet; its preposition is read; bound, or there is none."""
LOOSE = 2
"""How vague a slot may be: a bare name or a column, no word of prose."""
STRICT = frozenset({"into"})
"""Groups of prepositions that may replace each other where files change."""


@dataclass(frozen=True)
class Floating:
    """A file or quoted text that is taken out of its place, with its preposition."""

    scan: Scan  # without it
    preposition: str
    leaf: int  # the token that it is
    first: int  # of the tokens that are taken out
    width: int  # how many these are
    fronted: bool  # it stood before all other words


@dataclass(frozen=True)
class _Place:
    """A state of the walk: in the phrasing, in the task, and of the floating value."""

    node: int
    at: int
    leaf: int
    before: str = ""  # the phrasing's word before, "" after a slot
    loose: bool = False  # a word was just left aside, or taken for another preposition


_NOTHING = Reading(0, 0, (), meaning=True)


def floats_in(scan: Scan, start: int) -> Iterator[Floating]:
    """What may be taken out of its place: a single file or quoted text, with its preposition and article."""
    language = scan.language
    for at in range(start, len(scan.tokens)):
        if not any(read_named(scan, at)) and not scan.tokens[at].quoted:
            continue
        first, last = at, at + 1
        while first > start and scan.word(first - 1) in language.articles | language.markers:
            first -= 1
        preposition = scan.word(first - 1) if first > start else ""
        if preposition in language.prepositions:
            first -= 1
        else:
            preposition = ""
        if first == start:
            while scan.word(last) in (",", ":"):
                last += 1
        joined = {scan.word(first - 1) if first > start else "", scan.word(last), scan.word(at + 1)}
        if (first == start and last == len(scan.tokens)) or joined & {"and", "&", "or"}:
            continue
        rest = (*scan.tokens[:first], *scan.tokens[last:])
        loose = Scan(rest, scan.text, language, scan.prior)
        yield Floating(loose, preposition, at, first, last - first, first == start)


class Walk:
    """Reads one task by one phrasing."""

    def __init__(
        self,
        phrasing: Phrasing,
        scan: Scan,
        alike: Callable[[Words], set[Words]],
        *,
        changes: bool,
        floating: Floating | None,
    ) -> None:
        self.alike = alike
        self.language: Language = phrasing.language
        self.graph = phrasing.graph
        self.whole = scan
        self.scan = floating.scan if floating else scan
        self.changes = changes
        self.floating = floating

    def readings(self, start: int) -> list[Reading]:
        """All readings, each with the fewest changed words."""
        begin = _Place(0, start, LANDED if self.floating is None else ALOFT)
        end = (self.graph.final, len(self.scan.tokens), LANDED)
        best: dict[tuple[_Place, tuple[Bound, ...]], tuple[int, int]] = {}
        readings: dict[tuple[Bound, ...], Reading] = {}
        reached = [(begin, _NOTHING)]
        while reached:
            place, so_far = reached.pop()
            key, now = (place, so_far.bound), so_far.rank
            if key in best and best[key] <= now:
                continue
            if len(best) >= VISITS:
                return []
            best[key] = now
            if (place.node, place.at, place.leaf) == end:
                earlier = readings.get(so_far.bound)
                if earlier is None or now < earlier.rank:
                    readings[so_far.bound] = so_far
            reached += self._ways(place, so_far)
        return list(readings.values())

    def _ways(self, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        for kind, what, node in self.graph.edges[place.node]:
            if kind == "skip":
                yield replace(place, node=node), so_far
            elif kind == "word":
                yield from self._word(what, node, place, so_far)
            else:
                yield from self._slot(what, node, place, so_far)
        if place.at < len(self.scan.tokens) and place.leaf != LANDING:
            yield from self._phrases(place, so_far)
            if self._says_nothing(place.at):
                word = self.scan.word(place.at)
                left = replace(so_far, aside=(*so_far.aside, word))
                yield replace(place, at=place.at + 1, loose=True), left

    def _word(self, what: str, node: int, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        word = self.scan.word(place.at)
        if place.leaf == LANDING:
            if what in self.language.articles | self.language.markers:
                yield replace(place, node=node), so_far
            return
        there = _Place(node, place.at + 1, place.leaf, what)
        if word == what:
            yield there, replace(so_far, exact=so_far.exact + 1)
        elif word and self._same_place(what, word):
            yield replace(there, loose=self.changes), _taking(so_far, word, what)
        if place.leaf == ALOFT and self._may_land(what):
            yield _Place(node, place.at, LANDING, before=what), so_far

    def _slot(self, what: Any, node: int, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        name, reader, listed = what
        if self.floating and place.leaf != LANDED:
            leaf = self.floating.leaf
            named = self.floating.preposition or place.before in self.language.prepositions
            bare = not named and not self.changes
            if place.leaf == LANDING or bare:
                for stop, value, vague in reader(self.whole, leaf):
                    if stop == leaf + 1:
                        bound = bound_as(name, value, leaf, stop)
                        yield _Place(node, place.at, LANDED), _binding(so_far, bound, vague)
        if place.at < len(self.scan.tokens) and place.leaf != LANDING:
            for stop, value, vague in reader(self.scan, place.at):
                if vague > self._vagueness(place) and not self._plain(place.at):
                    continue
                bound = bound_as(name, value, self._index(place.at), self._index(stop - 1) + 1)
                read = _binding(so_far, bound, vague, stop - place.at if listed else 0)
                yield _Place(node, stop, place.leaf), read

    def _vagueness(self, place: _Place) -> int:
        """How vague a slot may be here: less after a skipped word, more after one that announces it."""
        if place.loose:
            return 0 if self.changes else 1
        return LOOSE + 1 if place.before in self.language.announcing else LOOSE

    def _plain(self, at: int) -> bool:
        """Whether a token is clearly a path, a name such as `TODO`, or a quoted text."""
        return any(read_named(self.scan, at)) or any(read_symbol(self.scan, at))

    def _index(self, at: int) -> int:
        """The place in the task of a token of the task without its floating leaf."""
        floating = self.floating
        return at + floating.width if floating and at >= floating.first else at

    def _phrases(self, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        """Replace words of the task by synonyms of the phrasing."""
        for length in range(1, min(LONGEST, len(self.scan.tokens) - place.at) + 1):
            words = tuple(self.scan.word(place.at + offset) for offset in range(length))
            if "" in words:
                return
            for phrase in sorted(self.alike(words)):
                for node in self._after(place.node, phrase):
                    there = _Place(node, place.at + length, place.leaf, before=phrase[-1])
                    yield there, _taking(so_far, " ".join(words), " ".join(phrase))

    def _after(self, node: int, phrase: Words) -> set[int]:
        """The nodes that these words reach from a node."""
        nodes = {node}
        for word in phrase:
            reached, nodes = list(nodes), set()
            passed: set[int] = set()
            while reached:
                at = reached.pop()
                if at in passed:
                    continue
                passed.add(at)
                for kind, what, after in self.graph.edges[at]:
                    if kind == "skip":
                        reached.append(after)
                    elif kind == "word" and what == word:
                        nodes.add(after)
        return nodes

    def _says_nothing(self, at: int) -> bool:
        """Whether a word of the task may be skipped."""
        word = self.scan.word(at)
        if word in (self.language.articles if self.changes else self.language.aside):
            return True
        beside = (each for each in (at - 1, at + 1) if 0 <= each < len(self.scan.tokens))
        return word in self.language.markers and any(any(read_named(self.scan, each)) for each in beside)

    def _same_place(self, phrasing: str, word: str) -> bool:
        """Whether two prepositions are interchangeable; where files change, only `in` and `into` are."""
        groups = self.language.prepositions
        shared = groups.get(phrasing, frozenset()) & groups.get(word, frozenset())
        return bool(shared & STRICT if self.changes else shared)

    def _may_land(self, what: str) -> bool:
        """Whether the floating leaf may be what the phrasing has after this word."""
        assert self.floating
        preposition, places = self.floating.preposition, self.language.prepositions
        if self.changes:  # `in a.txt` may be where something is, or where it goes
            return preposition == what and "place" not in places.get(preposition, ())
        if not preposition:  # `notes.md: how many lines`
            return self.floating.fronted and "place" in places.get(what, ())
        return preposition == what or self._same_place(what, preposition)


def _binding(so_far: Reading, bound: Bound, vague: int, words: int = 0) -> Reading:
    bounds = (*so_far.bound, bound)
    return replace(so_far, exact=so_far.exact + words, vague=so_far.vague + vague, bound=bounds)


def _taking(so_far: Reading, words: str, meant: str) -> Reading:
    return replace(so_far, taken=(*so_far.taken, (words, meant)))


MOST_WORDS = 40
"""Of a task; a longer one is not a short order."""
_WORD = re.compile(r"[^\s\[\](){}<>|]+")
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_GROUP = re.compile(r"\(([^()]*)\)")


class Meanings:
    """Reads tasks by meaning with the reflexes of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.language = shelf.language
        self._needed: dict[str, list[frozenset[str]]] = {}

    def readings(self, scan: Scan, start: int, end: int) -> Iterator[tuple[Procedure, Phrasing, Reading]]:
        """Every reading of the tokens from `start` to `end`."""
        if end - start > MOST_WORDS:
            return
        cut = Scan(scan.tokens[:end], scan.text, scan.language, scan.prior)
        words = frozenset(token.word for token in cut.tokens[start:])
        floats = (None, *floats_in(cut, start))
        for procedure in self.shelf.procedures:
            if procedure.refuse & words or procedure.needs or procedure.uses_it or procedure.learned:
                continue
            for phrasing in procedure.phrasings:
                if not all(needed & words for needed in self._needs(phrasing)):
                    continue
                with suppress(PhrasingError):
                    for floating in floats:
                        walk = Walk(phrasing, cut, self.alike, changes=procedure.changes, floating=floating)
                        for reading in walk.readings(start):
                            yield procedure, phrasing, reading

    def _needs(self, phrasing: Phrasing) -> list[frozenset[str]]:
        """Sets of words of which a task has one each, if the phrasing can read it at all."""
        if phrasing.text not in self._needed:
            outer = phrasing.text
            for _ in range(3):
                outer = _OPTIONAL.sub(" ", outer)
            groups = [_WORD.findall(each) for each in _GROUP.findall(outer) if not re.search(r"[{<]", each)]
            groups += [[word] for word in phrasing.needed]
            self._needed[phrasing.text] = [
                self._meaning(each) for each in groups if not self._slight & {*each}
            ]
        return self._needed[phrasing.text]

    @cached_property
    def _slight(self) -> frozenset[str]:
        """Words of a phrasing that a task may lack."""
        return self.language.aside | self.language.articles | self.language.prepositions.keys()

    def _meaning(self, words: Iterable[str]) -> frozenset[str]:
        """Words with their synonyms."""
        own = {word.lower() for word in words}
        return frozenset(own.union(*(self._neighbours.get(word, ()) for word in own)))

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
        """For each word, the words of all synonyms of phrases with this word."""
        found: dict[str, set[str]] = {}
        for phrases in self._groups.values():
            words = {word for phrase in phrases for word in phrase}
            for word in words:
                found.setdefault(word, set()).update(words)
        return found

    def alike(self, words: Words) -> set[Words]:
        """The phrases that mean the same in a task on files."""
        numbers = self.language.same.get(words, ())
        return {each for number in numbers for each in self._groups[number]} - {words}
