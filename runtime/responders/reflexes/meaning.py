"""The second way to read a task: by what its words mean, where no phrasing reads it word by word.

The task walks through a phrasing as before, but a word may stand for another that means the same, words that say
nothing may be missing or be there, and one named file or quoted text may stand elsewhere. Nothing else may be
left over on either side. What changes files is read more strictly than what only looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from runtime.memory.procedural.words import Words as Known
from runtime.responders.reflexes.names import read_named, read_symbol
from runtime.responders.reflexes.phrasing import Bound, Phrasing, PhrasingError, Reading
from runtime.responders.reflexes.procedure import Procedure, Shelf
from runtime.responders.reflexes.slots import Language, Scan, Words

VISITS = 4_000
"""Steps of the search for readings by one phrasing; a task that needs more is too vague to act on."""
MOST_WORDS = 40
"""Of a task; one that says more is no short order."""
LONGEST = 6
"""Words of a phrase that may stand for another."""
_WORD = re.compile(r"[^\s\[\](){}<>|]+")
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_GROUP = re.compile(r"\(([^()]*)\)")
_ROOM = {
    **dict.fromkeys("number integer percent numbers quantity duration date range expression".split(), 0),
    **dict.fromkeys(("several numbers", "path", "file", "paths", "files", "several paths", "named paths"), 0),
    **dict.fromkeys(("name", "archive", "glob", "url", "quoted", "text"), 0),
    **dict.fromkeys(("columns", "folders", "places", "bare folders", "line"), 6),
    "phrase": 6,
}
"""How many words that show no kind a slot of this kind may take; of other kinds, one."""
_SPELT = {"quantity": ("unit",), "duration": ("period",), "date": ("day",)}
"""Kinds of slots that take words of a list."""
_HOLE = re.compile(r"\{([^{}]*)\}|<([^<>]*)>")


@dataclass(frozen=True)
class _Float:
    """A file or a quoted text that is taken out of its place, with the preposition that stood before it."""

    scan: Scan  # without it
    preposition: str
    leaf: int  # the token that it is
    first: int  # of the tokens that are taken out
    width: int  # how many these are


ALOFT, LANDING, LANDED = 0, 1, 2
"""Where the floating leaf is: not bound yet; its preposition is read; bound, or there is none."""
LOOSE = 2
"""How vague a slot may be: a bare name or a column, no word of prose."""
STRICT = frozenset({"into"})
"""The prepositions that may stand for each other where files change, by their name in language.md."""


@dataclass(frozen=True)
class _Place:
    """How far the walk is: in the phrasing, in the task, and with the floating leaf."""

    node: int
    at: int
    leaf: int
    before: str = ""  # the phrasing's word before, "" after a slot
    loose: bool = False  # a word was just left aside


_NOTHING = Reading(0, 0, (), meaning=True)


class _Vocabulary(NamedTuple):
    own: frozenset[str]  # the words of a phrasing with all that could stand for them
    room: int  # how many other words its slots could take
    musts: list[frozenset[str]]  # of each of these, a task has a word


class Meanings:
    """What is known of words and of the reflexes of a shelf, for reading by meaning."""

    def __init__(self, shelf: Shelf, known: Known) -> None:
        self.shelf = shelf
        self.language = shelf.language
        self.known = known
        self._spoken: dict[str, _Vocabulary] = {}

    def readings(self, scan: Scan, start: int, end: int) -> Iterator[tuple[Procedure, Phrasing, Reading]]:
        """Every reading of the tokens from `start` to `end`."""
        if end - start > MOST_WORDS:
            return
        cut = Scan(scan.tokens[:end], scan.text, scan.language, scan.prior)
        words = frozenset(token.word for token in cut.tokens[start:])
        said = [word for word in self._content(cut, start)]
        floats: list[_Float] | None = None
        for procedure in self.shelf.procedures:
            if procedure.refuse & words or procedure.needs or procedure.uses_it or procedure.learned:
                continue
            for phrasing in procedure.phrasings:
                if not self._could(phrasing, said, words):
                    continue
                if floats is None:
                    floats = list(_floats(cut, start))
                yield from self._by(procedure, phrasing, cut, start, floats)

    def _by(
        self, procedure: Procedure, phrasing: Phrasing, scan: Scan, start: int, floats: list[_Float]
    ) -> Iterator[tuple[Procedure, Phrasing, Reading]]:
        for floating in (None, *floats):
            walk = _Walk(self, phrasing, scan, procedure.changes, floating)
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
        best = min(range(len(found)), key=lambda at: _rank(found[at][1]))
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
    def _groups(self) -> tuple[Mapping[int, set[Words]], Mapping[int, set[Words]]]:
        """The phrases of each group: of the language of tasks, and of the words for all texts."""
        found: tuple[dict[int, set[Words]], dict[int, set[Words]]] = ({}, {})
        for groups, same in zip(found, (self.language.same, self.known.same), strict=True):
            for phrase, numbers in same.items():
                for number in numbers:
                    groups.setdefault(number, set()).add(phrase)
        return found

    @cached_property
    def _neighbours(self) -> Mapping[str, set[str]]:
        """For each word, the words of all phrases that can stand for a phrase with this word."""
        found: dict[str, set[str]] = {}
        for groups in self._groups:
            for phrases in groups.values():
                words = {word for phrase in phrases for word in phrase}
                for word in words:
                    found.setdefault(word, set()).update(words)
        return found

    def alike(self, said: Words, *, strictly: bool) -> set[Words]:
        """The phrases that mean the same in a task on files; not `strictly`, those of other texts too."""
        same, others = self._groups
        found = {each for number in self.language.same.get(said, ()) for each in same[number]}
        if not strictly and not self.known.fixed & {*said}:
            more = {each for number in self.known.same.get(said, ()) for each in others[number]}
            found |= {each for each in more if not self.known.fixed & {*each}}
        return found - {said}


def _floats(scan: Scan, start: int) -> Iterator[_Float]:
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
        if first == start and last == len(scan.tokens) or joined & {"and", "&", "or"}:
            continue
        rest = (*scan.tokens[:first], *scan.tokens[last:])
        loose = Scan(rest, scan.text, language, scan.prior)
        yield _Float(loose, preposition, at, first, last - first)


class _Walk:
    """One phrasing held against one task."""

    def __init__(
        self, meanings: Meanings, phrasing: Phrasing, scan: Scan, changes: bool, floating: _Float | None
    ) -> None:
        self.meanings = meanings
        self.language: Language = meanings.language
        self.graph = phrasing.graph
        self.whole = scan
        self.scan = floating.scan if floating else scan
        self.changes = changes
        self.floating = floating
        self.alike: dict[int, list[tuple[int, Words]]] = {}

    def readings(self, start: int) -> list[Reading]:
        """Every reading, each with the fewest words changed."""
        begin = _Place(0, start, LANDED if self.floating is None else ALOFT)
        end = (self.graph.final, len(self.scan.tokens), LANDED)
        best: dict[tuple[_Place, tuple[Bound, ...]], tuple[int, int]] = {}
        found: dict[tuple[Bound, ...], Reading] = {}
        reached = [(begin, _NOTHING)]
        while reached:
            place, so_far = reached.pop()
            key, rank = (place, so_far.bound), _rank(so_far)
            if key in best and best[key] <= rank:
                continue
            if len(best) >= VISITS:
                return []
            best[key] = rank
            if (place.node, place.at, place.leaf) == end:
                known = found.get(so_far.bound)
                if known is None or rank < _rank(known):
                    found[so_far.bound] = so_far
            reached += self._ways(place, so_far)
        return list(found.values())

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
                said = self.scan.word(place.at)
                left = replace(so_far, aside=(*so_far.aside, said))
                yield replace(place, at=place.at + 1, loose=True), left

    def _word(self, what: str, node: int, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        said = self.scan.word(place.at)
        if place.leaf == LANDING:
            if what in self.language.articles | self.language.markers:
                yield replace(place, node=node), so_far
            return
        there = _Place(node, place.at + 1, place.leaf, before=what)
        if said == what:
            yield there, replace(so_far, exact=so_far.exact + 1)
        elif said and self._same_place(what, said):
            yield there, _taking(so_far, said, what)
        if self._empty(what):
            yield replace(place, node=node, loose=True), so_far
        if place.leaf == ALOFT and self._may_land(what):
            yield _Place(node, place.at, LANDING, before=what), so_far

    def _slot(self, what: Any, node: int, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        name, reader, listed = what
        if self.floating and place.leaf != LANDED:
            leaf = self.floating.leaf
            bare = not self.floating.preposition and place.before not in self.language.prepositions
            if place.leaf == LANDING or bare:
                for stop, value, vague in reader(self.whole, leaf):
                    if stop == leaf + 1:
                        bound = _bound(name, value, leaf, stop)
                        yield _Place(node, place.at, LANDED), _binding(so_far, bound, vague)
        if place.at < len(self.scan.tokens) and place.leaf != LANDING:
            for stop, value, vague in reader(self.scan, place.at):
                if vague > self._vagueness(place) and not self._plain(place.at):
                    continue
                bound = _bound(name, value, self._index(place.at), self._index(stop - 1) + 1)
                read = _binding(so_far, bound, vague, stop - place.at if listed else 0)
                yield _Place(node, stop, place.leaf), read

    def _vagueness(self, place: _Place) -> int:
        """How vague a slot may be here: less after a word left aside, more after one that announces it."""
        if place.loose:
            return 0 if self.changes else 1
        return LOOSE + 1 if place.before in self.language.announcing else LOOSE

    def _plain(self, at: int) -> bool:
        """Whether a token shows by itself what it is: a path, a name such as `TODO`, or a text in quotes."""
        return any(read_named(self.scan, at)) or any(read_symbol(self.scan, at))

    def _index(self, at: int) -> int:
        """The place in the task of a token of the task without its floating leaf."""
        floating = self.floating
        return at + floating.width if floating and at >= floating.first else at

    def _phrases(self, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        """Words of the task that stand for words of the phrasing."""
        for length, phrase in self._alike(place.at):
            for node in self._after(place.node, phrase):
                said = " ".join(self.scan.word(place.at + offset) for offset in range(length))
                there = _Place(node, place.at + length, place.leaf, before=phrase[-1])
                yield there, _taking(so_far, said, " ".join(phrase))

    def _alike(self, at: int) -> list[tuple[int, Words]]:
        """What the words at a place of the task could stand for, with how many words they are."""
        if at not in self.alike:
            found: list[tuple[int, Words]] = []
            for length in range(1, min(LONGEST, len(self.scan.tokens) - at) + 1):
                said = tuple(self.scan.word(at + offset) for offset in range(length))
                if "" in said:
                    break
                found += [(length, each) for each in self.meanings.alike(said, strictly=self.changes)]
            self.alike[at] = found
        return self.alike[at]

    def _after(self, node: int, phrase: Words) -> set[int]:
        """Where the phrasing is after these words, read from a node."""
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

    def _empty(self, word: str) -> bool:
        """Whether the phrasing's word need not be said."""
        return word in (self.language.articles if self.changes else self.language.aside)

    def _says_nothing(self, at: int) -> bool:
        """Whether the task's word need not be in the phrasing."""
        word = self.scan.word(at)
        if word in (self.language.articles if self.changes else self.language.aside):
            return True
        beside = (each for each in (at - 1, at + 1) if 0 <= each < len(self.scan.tokens))
        return word in self.language.markers and any(any(read_named(self.scan, each)) for each in beside)

    def _same_place(self, phrasing: str, said: str) -> bool:
        """Whether two prepositions may stand for each other; where files change, only `in` and `into` may."""
        groups = self.language.prepositions
        shared = groups.get(phrasing, frozenset()) & groups.get(said, frozenset())
        return bool(shared & STRICT if self.changes else shared)

    def _may_land(self, what: str) -> bool:
        """Whether the floating leaf may be what the phrasing has after this word."""
        assert self.floating
        said = self.floating.preposition
        if not said:  # `notes.md: how many lines`
            return not self.changes and "place" in self.language.prepositions.get(what, ())
        return said == what or self._same_place(what, said)


def _bound(name: str, value: Any, start: int, end: int) -> Bound:
    return Bound(name, tuple(value) if isinstance(value, list) else value, start, end)


def _binding(so_far: Reading, bound: Bound, vague: int, words: int = 0) -> Reading:
    bounds = (*so_far.bound, bound)
    return replace(so_far, exact=so_far.exact + words, vague=so_far.vague + vague, bound=bounds)


def _taking(so_far: Reading, said: str, meant: str) -> Reading:
    return replace(so_far, taken=(*so_far.taken, (said, meant)))


def loss(reading: Reading) -> int:
    """How far a reading is from the words of its phrasing."""
    return 2 * len(reading.taken) + len(reading.aside) + max(0, reading.vague - 1)


def _rank(reading: Reading) -> tuple[int, int]:
    return loss(reading), -reading.exact


def told(reading: Reading) -> str:
    """Which words were taken for which, for people."""
    said = [f"“{said}” taken for “{meant}”" for said, meant in reading.taken]
    if reading.aside:
        said.append(f"“{' '.join(reading.aside)}” left aside")
    return ", ".join(said) or "words in another order"
