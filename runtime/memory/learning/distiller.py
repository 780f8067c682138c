"""Habits of attempts that were accepted: which tools in which order, where files go, how they are written.

Each attempt leaves insights. Ten that are pending are looked at together: what came three times becomes a
pattern, and what came once ages out. Only names of tools and plain names of folders are told; no other text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from runtime.memory.learning.patterns import GENERAL, MOST_SOURCES, Pattern, named
from runtime.memory.learning.tried import Tried
from runtime.memory.learning.wording import Wording
from runtime.store import Record, Shelf

PENDING = 10
"""Insights that are consolidated together. Source: learning.md."""
OCCURRENCES = 3
"""From here on a habit is a pattern. Source: learning.md."""
MAJORITY = 0.6
"""Of the attempts at such tasks that could have it, those that have: less is no habit."""
AGES = 3
"""Consolidations that an insight waits through for others like it."""
LONGEST_SEQUENCE = 5
SHOWN = 0.3
"""What no context would show is not kept."""
SURE = 0.6
"""What a habit is believed at most: it was seen in successes alone, and compared with nothing."""


class Insight(Record):
    """One thing that an accepted attempt did."""

    KIND: ClassVar[str] = "insight"

    habit: str = ""  # sequence, or one of `habits`
    names: tuple[str, ...] = ()
    type: str = GENERAL
    run: str = ""
    document: str = ""
    at: str = ""
    age: int = 0


class Distiller:
    """Takes in attempts, and gives patterns back when there is enough."""

    def __init__(self, shelf: Shelf, wording: Wording) -> None:
        self.shelf, self.wording = shelf, wording

    def take(self, tried: Sequence[Tried]) -> list[Pattern]:
        """Note what accepted attempts did; the patterns that are due, where ten insights are pending."""
        for each in tried:
            self.shelf.put(*insights(each))
        if self.shelf.count(Insight) < PENDING:
            return []
        fresh = list(self.shelf.scan(Insight, {"age": 0}))
        return self.consolidate() if len(fresh) >= PENDING else []

    def consolidate(self) -> list[Pattern]:
        """Habits that came three times become patterns; the others get older, and go when they are old."""
        groups: dict[tuple[str, tuple[str, ...], str], list[Insight]] = {}
        for each in self.shelf.scan(Insight):
            groups.setdefault((each.habit, each.names, each.type), []).append(each)
        made: list[Pattern] = []
        with self.shelf.transaction():
            for group in groups.values():
                runs = {each.run for each in group}
                rivals = _rivals(groups, group)
                if len(runs) >= OCCURRENCES and len(group) >= MAJORITY * (len(group) + rivals):
                    if (found := self._pattern(group, rivals)).confidence >= SHOWN:
                        made.append(found)
                    self.shelf.delete(Insight, *(each.id for each in group))
                    continue
                old = [each.id for each in group if each.age + 1 >= AGES]
                self.shelf.delete(Insight, *old)
                kept = [each for each in group if each.age + 1 < AGES]
                self.shelf.put(*(each.model_copy(update={"age": each.age + 1}) for each in kept))
        return made

    def _pattern(self, group: Sequence[Insight], others: int) -> Pattern:
        first = group[0]
        said = self.wording.habit(first.habit, first.names)
        count, at = len(group), max(each.at for each in group)
        share = count / (count + others)
        return Pattern(
            name=named(said.title),
            title=said.title,
            guidance=said.do,
            avoid=said.avoid,
            why=f"{count} of {count + others} accepted attempts at such tasks did so.",
            types=(first.type,),
            confidence=round(SURE * share * count / (count + 2), 2),
            success_rate=1.0,
            samples=count,
            origin="distilled",
            created=at,
            sources=tuple(dict.fromkeys(each.document for each in reversed(group)))[:MOST_SOURCES],
        )


def _rivals(groups: dict[tuple[str, tuple[str, ...], str], list[Insight]], group: Sequence[Insight]) -> int:
    """Attempts at such tasks that did it in another way."""
    first = group[0]
    key = first.names[:1] if first.habit in ("folder", "naming", "indent", "docstring") else ()
    return sum(
        len(other)
        for (habit, names, type), other in groups.items()
        if habit == first.habit and type == first.type and names != first.names and names[: len(key)] == key
    )


def insights(tried: Tried) -> Iterator[Insight]:
    """What an accepted attempt did, one thing each."""
    for habit, names in _habits(tried):
        told: dict[str, Any] = {"habit": habit, "names": names, "type": tried.type, "run": tried.run}
        mark = hashlib.sha256(f"{tried.id} {habit} {names}".encode()).hexdigest()[:20]
        yield Insight(id=mark, document=tried.document, at=tried.at, **told)


def _habits(tried: Tried) -> Iterator[tuple[str, tuple[str, ...]]]:
    done = [act.tool for act in tried.acts if act.state == "done"]
    sequence = tuple(name for at, name in enumerate(done) if at == 0 or done[at - 1] != name)
    if 2 <= len(sequence) <= LONGEST_SEQUENCE:
        yield "sequence", sequence
    for habit, *names in tried.habits:
        yield habit, tuple(names)
