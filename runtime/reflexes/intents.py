"""Reads a task by what it is about, where no phrasing matches it word by word.

An intent is a line such as `size [total] {path}`: concepts (classes of words, from `language.md`), slots, and
prepositions that give the next slot its role. Their order is free. Every word of the task must be one of them
or say nothing (`aside`); where anything is left over, there is no reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from runtime.reflexes.ellipsis import LIGHT, Beside, filled
from runtime.reflexes.names import read_named, read_symbol
from runtime.reflexes.phrasing import Bound, PhrasingError, Reading, bound_as
from runtime.reflexes.slots import Language, Named, Reader, Scan

if TYPE_CHECKING:
    from runtime.reflexes.procedure import Kinds, Procedure, Shelf

VISITS = 3_000
"""Steps of the search for readings by one intent; a task that needs more is too vague to act on."""
MOST_WORDS = 40
"""Of a task; a longer one is not a short order."""
LOOSE = 2
"""How vague a slot may be without a role: a bare name or a column, no word of prose."""
BARE = "bare"
"""The group of no preposition at all."""
_ITEM = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|[^\s\[\]{}]+")


@dataclass(frozen=True)
class Item:
    """A concept or a slot of an intent."""

    concept: str = ""
    slot: str = ""
    reader: Reader | None = None
    listed: bool = False  # a list of words, each with a value
    role: str = ""  # the group of prepositions before it; "" for none or a light one
    optional: bool = False


@dataclass(frozen=True)
class Intent:
    """One line of a reflex, compiled on demand."""

    text: str
    kinds: Kinds
    language: Language

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Its concepts and slots. Raises `PhrasingError`."""
        found: list[Item] = []
        role = ""
        for piece in _ITEM.findall(self.text):
            optional = piece.startswith("[")
            for part in _ITEM.findall(piece[1:-1]) if optional else (piece,):
                if part in self.language.prepositions:
                    role = part
                    continue
                item = self._slot(part[1:-1]) if part.startswith("{") else self._concept(part)
                found.append(replace(item, role=role, optional=optional))
                role = ""
        if role or not found:
            raise PhrasingError(f"a preposition has nothing after it in: {self.text}")
        return tuple(found)

    def _slot(self, text: str) -> Item:
        name, _, kind = (part.strip() for part in text.partition(":"))
        reader, listed = self.kinds(kind or name)
        return Item(slot=name, reader=reader, listed=listed)

    def _concept(self, name: str) -> Item:
        if name not in self.language.concepts:
            raise PhrasingError(f"{name} is none of the concepts of language.md in: {self.text}")
        return Item(concept=name)

    @cached_property
    def needed(self) -> frozenset[str]:
        """The concepts without which it cannot fit."""
        return frozenset(item.concept for item in self.items if item.concept and not item.optional)

    @cached_property
    def earlier(self) -> tuple[tuple[int, ...], ...]:
        """For each item the slots of the same kind and role that must be read before it."""
        same = [(item.reader, item.role) for item in self.items]
        return tuple(
            tuple(at for at in range(number) if item.reader and same[at] == same[number])
            for number, item in enumerate(self.items)
        )

    def order_of(self, reading: Reading) -> tuple[int, int, int]:
        """Smaller is better: the rank of the reading, then the slots in another order than in the line."""
        slots = [item.slot for item in self.items if item.slot]
        said = sorted((each for each in reading.bound if each.start < each.end), key=lambda each: each.start)
        places = [slots.index(each.slot) for each in said]
        swapped = sum(later < earlier for at, earlier in enumerate(places) for later in places[at + 1 :])
        return (*reading.rank, swapped)


@dataclass(frozen=True)
class _Place:
    """A state of the walk: in the task, of the items, and the preposition just read."""

    at: int
    used: frozenset[int] = frozenset()
    role: frozenset[str] = frozenset()
    marked: bool = False  # a word that announces a text stood before
    last: int = -1  # the concept just read, whose next item may be a text of any words


class Said:
    """The concepts, prepositions and words aside at each place of a task, looked up once."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        language = scan.language
        self.naming = cache(lambda at: tuple(scan.named_at(at, language.naming)))
        self.relating = cache(lambda at: tuple(scan.named_at(at, language.relating)))
        self.aside = cache(lambda at: tuple(scan.named_at(at, language.leaving)))

    def concepts(self, start: int) -> frozenset[str]:
        """All concepts from a place on."""
        found: set[str] = set()
        for at in range(start, len(self.scan.tokens)):
            for _, names in self.naming(at):
                found |= names
        return frozenset(found)


class Walk:
    """Reads one task by one intent."""

    def __init__(
        self,
        intent: Intent,
        said: Said,
        changes: bool,
        also: Named,
        beside: Beside | None = None,
    ) -> None:
        self.intent, self.said, self.scan, self.changes = intent, said, said.scan, changes
        self.also = also  # what the reflex does anyway
        self.beside = beside  # if something must be left out
        self.language = said.scan.language
        self.start = 0

    def readings(self, start: int) -> list[Reading]:
        """All readings, each with the fewest words left aside."""
        self.start = start
        best: dict[tuple[_Place, tuple[Bound, ...]], tuple[int, int]] = {}
        readings: dict[tuple[Bound, ...], Reading] = {}
        reached = [(_Place(start), Reading(0, 0, (), by_intent=True))]
        while reached:
            place, so_far = reached.pop()
            key = (place, so_far.bound)
            if key in best and best[key] <= so_far.rank:
                continue
            if len(best) >= VISITS:
                return []
            best[key] = so_far.rank
            if place.at == len(self.scan.tokens):
                whole = self._whole(place, so_far)
                earlier = whole and readings.get(whole.bound)
                if whole and (earlier is None or whole.rank < earlier.rank):
                    readings[whole.bound] = whole
                continue
            reached += self._ways(place, so_far)
        return list(readings.values())

    def _whole(self, place: _Place, so_far: Reading) -> Reading | None:
        """The reading at the end of the task; None if something is left out that nothing else says."""
        left = [
            item for at, item in enumerate(self.intent.items) if at not in place.used and not item.optional
        ]
        if not self._light(place):
            return None
        if not left:
            return None if self.beside else so_far
        if self.beside is None:
            return None
        verb = any(self.intent.items[each].concept for each in place.used)
        return filled(so_far, left, self.beside, self.said, verb=verb, changes=self.changes)

    def _light(self, place: _Place) -> bool:
        return not place.role or LIGHT in place.role

    def _ways(self, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        at, scan = place.at, self.scan
        if (
            self._light(place)
            and not place.marked
            and (at > self.start or self.beside or scan.word(at) != "of")
        ):
            for end, groups in self.said.relating(at):
                yield _Place(end, place.used, groups), so_far
        for number, item in enumerate(self.intent.items):
            if number in place.used or not place.used.issuperset(self.intent.earlier[number]):
                continue
            if not self._fits(item, place):
                continue
            used = place.used | {number}
            if item.concept:
                for end, names in self.said.naming(at):
                    if item.concept in names:
                        yield _Place(end, used, last=number), replace(so_far, exact=so_far.exact + end - at)
            elif item.reader:
                for end, value, vague in scan.read(item.reader, at):
                    announced = item.role or place.marked or self._next_to_verb(number, place.last)
                    if vague > LOOSE and not announced and not self._plain(at):
                        continue
                    bound = (*so_far.bound, bound_as(item.slot, value, at, end))
                    exact = so_far.exact + (end - at if item.listed else 0)
                    yield (
                        _Place(end, used),
                        replace(so_far, exact=exact, bound=bound, vague=so_far.vague + vague),
                    )
        if not place.marked:
            for end, _ in scan.named_at(at, self.also):
                yield replace(place, at=end), replace(so_far, exact=so_far.exact + end - at)
            yield from self._aside(place, so_far)

    def _fits(self, item: Item, place: _Place) -> bool:
        """Whether an item may follow here."""
        if place.marked and item.concept:
            return False
        if item.role == BARE:
            return not place.role
        return item.role in place.role if item.role else self._light(place)

    def _next_to_verb(self, number: int, last: int) -> bool:
        """Whether an item follows the concept just read, but for optional ones."""
        return 0 <= last < number and all(each.optional for each in self.intent.items[last + 1 : number])

    def _plain(self, at: int) -> bool:
        """Whether a token is clearly a path, a name such as `TODO`, or a quoted text."""
        return any(read_named(self.scan, at)) or any(read_symbol(self.scan, at))

    def _aside(self, place: _Place, so_far: Reading) -> Iterator[tuple[_Place, Reading]]:
        """Words of the task that say nothing here."""
        at, scan, language = place.at, self.scan, self.language
        word = scan.word(at)
        if word in language.articles:
            yield replace(place, at=at + 1), so_far
        elif word in language.announcing:
            yield replace(place, at=at + 1, marked=True), so_far
        elif word in language.markers and any(self._named_beside(at)):
            yield replace(place, at=at + 1), so_far
        elif not self.changes:
            for end, _ in self.said.aside(at):
                left = replace(so_far, aside=(*so_far.aside, scan.raw(at, end)))
                yield replace(place, at=end), left

    def _named_beside(self, at: int) -> Iterator[bool]:
        for each in (at - 1, at + 1, at + 2):
            if 0 <= each < len(self.scan.tokens):
                yield any(read_named(self.scan, each))


class Intents:
    """Reads tasks by the intents of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def readings(
        self, scan: Scan, start: int, end: int, beside: Beside | None = None
    ) -> Iterator[tuple[Procedure, Intent, Reading]]:
        """Every reading of the tokens from `start` to `end`.

        With `beside`, those that leave something out, which the part beside or the result before says.
        """
        if end - start > MOST_WORDS:
            return
        cut = replace(scan, tokens=scan.tokens[:end])
        words = frozenset(token.word for token in cut.tokens[start:])
        said = Said(cut)
        concepts = said.concepts(start)
        for procedure in self.shelf.procedures:
            if not procedure.may_read(words, scan.prior):
                continue
            for intent in procedure.intents:
                near = beside and replace(beside, same=procedure is beside.procedure)
                try:
                    fits = (near and near.same) or intent.needed <= concepts
                except PhrasingError:
                    continue  # reported by `Procedure.faults`
                if fits:
                    found = Walk(intent, said, procedure.changes, procedure.also, near).readings(start)
                    orders = [intent.order_of(each) for each in found]
                    least = min(orders, default=None)
                    for each, order in zip(found, orders, strict=True):
                        if order == least:
                            yield procedure, intent, each
