"""One phrasing held against one task, by what the words mean.

The task walks through the phrasing as it does word by word (`phrasing`), but a word may stand for another
that means the same, words that say nothing may be there, and one named file or quoted text may
stand elsewhere. Nothing else may be left over on either side. What changes files is read more strictly than
what only looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from runtime.responders.reflexes.names import read_named, read_symbol
from runtime.responders.reflexes.phrasing import Bound, Phrasing, Reading
from runtime.responders.reflexes.slots import Language, Scan, Words

VISITS = 4_000
"""Steps of the search for readings by one phrasing; a task that needs more is too vague to act on."""
LONGEST = 6
"""Words of a phrase that may stand for another."""
ALOFT, LANDING, LANDED = 0, 1, 2
"""Where the floating leaf is: not bound yet; its preposition is read; bound, or there is none."""
LOOSE = 2
"""How vague a slot may be: a bare name or a column, no word of prose."""
STRICT = frozenset({"into"})
"""The prepositions that may stand for each other where files change, by their name in language.md."""


@dataclass(frozen=True)
class Floating:
    """A file or a quoted text that is taken out of its place, with the preposition that stood before it."""

    scan: Scan  # without it
    preposition: str
    leaf: int  # the token that it is
    first: int  # of the tokens that are taken out
    width: int  # how many these are
    fronted: bool  # it stood before all other words


@dataclass(frozen=True)
class _Place:
    """How far the walk is: in the phrasing, in the task, and with the floating leaf."""

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
    """One phrasing held against one task."""

    def __init__(
        self,
        phrasing: Phrasing,
        scan: Scan,
        alike: Callable[[Words], set[Words]],
        *,
        changes: bool,
        floating: Floating | None,
    ) -> None:
        self.means = alike
        self.language: Language = phrasing.language
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
            key, now = (place, so_far.bound), rank(so_far)
            if key in best and best[key] <= now:
                continue
            if len(best) >= VISITS:
                return []
            best[key] = now
            if (place.node, place.at, place.leaf) == end:
                known = found.get(so_far.bound)
                if known is None or now < rank(known):
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
        there = _Place(node, place.at + 1, place.leaf, what)
        if said == what:
            yield there, replace(so_far, exact=so_far.exact + 1)
        elif said and self._same_place(what, said):
            yield replace(there, loose=self.changes), _taking(so_far, said, what)
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
                found += [(length, each) for each in sorted(self.means(said))]
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
        said, places = self.floating.preposition, self.language.prepositions
        if self.changes:  # `in a.txt` may be where something is, or where it goes
            return said == what and "place" not in places.get(said, ())
        if not said:  # `notes.md: how many lines`
            return self.floating.fronted and "place" in places.get(what, ())
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


def rank(reading: Reading) -> tuple[int, int]:
    """Less is better: near to what was said, with many words of the phrasing's own."""
    return loss(reading), -reading.exact


def told(reading: Reading) -> str:
    """Which words were taken for which, for people."""
    said = [f"“{said}” taken for “{meant}”" for said, meant in reading.taken]
    if reading.aside:
        said.append(f"“{' '.join(reading.aside)}” left aside")
    return ", ".join(said) or "words in another order"
