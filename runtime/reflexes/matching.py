"""Finds the reflex that covers a task, and its slots, without guessing.

A task is covered when one phrasing reads all of it, or when it can be divided at joining words into parts
that are each covered: word by word first, then by what it is about (`intents`). Where two readings are
equally good and mean different things, there is no match. A reflex that only looks takes no order for a
change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

from runtime.reflexes.ellipsis import Beside
from runtime.reflexes.intents import Intent
from runtime.reflexes.phrasing import Phrasing, PhrasingError, Reading, as_list
from runtime.reflexes.procedure import Procedure, Shelf
from runtime.reflexes.slots import Earlier, It, Scan
from runtime.reflexes.surroundings import Surroundings
from runtime.reflexes.templates import Unbound, plain
from runtime.text.chunks import chunks
from runtime.text.demand import demand

MOST_JOINS = 16
"""Places where a task may be divided; a task with more is not a short order."""
MOST_COURTESIES = 8
"""Courtesies before a task, and after it, that are skipped."""
LONGEST_MESSAGE = 1_000
"""Characters of a result that reports a file; a longer one is a text."""
_ENDS = frozenset(".,;:!?…\n")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_IMPLIED = {
    "number": ("number", "text"),
    "numbers": ("numbers", "list", "text"),
    "list": ("list", "text"),
    "table": ("table", "list", "text"),
    "text": ("text",),
    "matches": ("list",),
    "file": ("file",),
    "table file": ("file", "table file"),
}
"""The shapes as which a result of a shape can be used."""
_NO_READING = Reading(0, 0, ())
Readings = Callable[[Scan, int, int], Iterator[tuple[Procedure, Phrasing | Intent, Reading]]]


@dataclass(frozen=True)
class Match:
    """A reflex with its slots bound; or, in `parts`, several of them in a row."""

    task: str  # what this part of the task says, with every `it` that means a file replaced
    procedure: Procedure | None = None
    phrasing: str = ""
    reading: Reading = _NO_READING
    prior: tuple[Earlier, ...] = ()
    parts: tuple[Match, ...] = ()

    @cached_property
    def slots(self) -> dict[str, Any]:
        """The slots by name, defaults included."""
        return {**(self.procedure.defaults if self.procedure else {}), **self.reading.slots}

    @property
    def plan(self) -> dict[str, Any]:
        """The slots that the plan uses."""
        used = self.procedure.mentioned if self.procedure else frozenset[str]()
        return {name: value for name, value in self.slots.items() if name in used}

    @property
    def used(self) -> list[Procedure]:
        """The reflexes, each once."""
        found = (each.procedure for each in self.parts or (self,) if each.procedure)
        return list({each.path: each for each in found}.values())

    @property
    def uses_it(self) -> bool:
        """Whether it needs the text of the result before."""
        own = self.procedure is not None and self.procedure.uses_it
        return own or any(isinstance(value, It) for value in self.slots.values())

    @property
    def changes(self) -> bool:
        """Whether some part of it may do more than look."""
        return any(each.changes for each in self.used)

    @property
    def inline(self) -> bool:
        """Whether its words alone do not say what it does."""
        return self.uses_it or self.reading.elliptic

    @property
    def beside(self) -> Beside:
        """What the parts beside it may take from it."""
        return Beside(self.procedure, self.reading.slots)

    @property
    def uses_all(self) -> bool:
        """Whether it needs all results before, not the latest alone."""
        return self.procedure is not None and self.procedure.needs == "several numbers"

    @property
    def writes(self) -> bool:
        """Whether its result reports a file and is no answer."""
        return self.procedure is not None and "text" not in _shapes(self.procedure.gives)

    def promise(self) -> Earlier:
        """The result that later parts may use."""
        assert self.procedure
        try:
            file = plain(self.procedure.about, self.slots)
            column = plain(self.procedure.column, self.slots)
        except Unbound:
            file = column = ""
        shapes = _shapes((*self.procedure.gives, *self.procedure.facts))
        return Earlier(shapes, None, file, column)


def _shapes(names: tuple[str, ...]) -> frozenset[str]:
    """All shapes that a result of these shapes can be used as."""
    return frozenset(shape for name in names for shape in _IMPLIED.get(name, (name,)))


def match(
    task: str, shelf: Shelf, prior: tuple[Earlier, ...] = (), around: Surroundings | None = None
) -> Match | None:
    """The reflex that covers all of a task; None if none does or two do equally well."""
    found = chunks(task)
    if not found:
        return None
    scan = Scan(found, task, shelf.language, prior, around, systems=shelf.systems)
    for by_intent in (False, True):
        covered = _Covered(scan, shelf, by_intent)
        whole = covered.best(0, len(found), prior) or (None if covered.torn else _split_tasks(covered))
        if whole is not None or covered.torn:
            return whole
    return covered.best(0, len(found), prior, Beside()) if prior else None


class _Covered:
    """The readings of a task's parts."""

    def __init__(self, scan: Scan, shelf: Shelf, by_intent: bool) -> None:
        self.scan = scan
        self.shelf = shelf
        self.by_intent = by_intent
        self.torn = False  # whether the task had two best readings
        self.orders_change = cache(self._orders_change)

    def _orders_change(self, start: int, end: int) -> bool:
        """Whether the tokens from `start` to `end` order a change."""
        return demand(self.scan.raw(start, end), self.scan.systems) == "change"

    def best(
        self, start: int, end: int, prior: tuple[Earlier, ...], beside: Beside | None = None
    ) -> Match | None:
        """The best reading of the tokens from `start` to `end`; None if there is none, or a tie.

        With `beside`, it leaves something out, which the part beside it or the result before says.
        """
        scan = replace(self.scan, prior=prior, beside=beside.names if beside else ())
        spans = self._trimmed(start, end)
        phrased = beside is None
        found = [each for span in spans if phrased for each in self._matches(self._readings, scan, *span)]
        found = self._heeding(found, start, end)
        if found:
            best = max(found, key=lambda each: each.reading.score)
            rivals = [each for each in found if each.reading.score == best.reading.score]
        elif self.by_intent:
            readings = partial(self.shelf.intents.readings, beside=beside)
            found = [each for span in spans for each in self._matches(readings, scan, *span)]
            found = self._heeding(found, start, end)
            best = min(found, key=lambda each: each.reading.rank, default=None)
            rivals = [each for each in found if best and _rival(each, best)]
        else:
            return None
        if best and any(each.procedure is not best.procedure or each.plan != best.plan for each in rivals):
            whole = (start, end) == (0, len(self.scan.tokens))
            self.torn = self.torn or (whole and not best.reading.by_intent)
            return None
        return best

    def _heeding(self, found: list[Match], start: int, end: int) -> list[Match]:
        """The readings that do what the tokens from `start` to `end` demand."""
        if all(each.changes for each in found) or not self.orders_change(start, end):
            return found
        return [each for each in found if each.changes]

    def _matches(self, readings: Readings, scan: Scan, start: int, end: int) -> Iterator[Match]:
        for procedure, pattern, reading in readings(scan, start, end):
            yield Match(_task_of(scan, reading, start, end), procedure, pattern.text, reading, scan.prior)

    def _readings(
        self, scan: Scan, start: int, end: int
    ) -> Iterator[tuple[Procedure, Phrasing | Intent, Reading]]:
        words = frozenset(token.word for token in scan.tokens[start:end])
        cut = replace(scan, tokens=scan.tokens[:end])
        for procedure in self.shelf.procedures:
            if not procedure.may_read(words, scan.prior):
                continue
            for phrasing in procedure.phrasings:
                if phrasing.needed <= words:
                    try:
                        found = phrasing.readings(cut, start, end)
                    except PhrasingError:
                        continue  # reported by `Procedure.faults`
                    for reading in found:
                        yield procedure, phrasing, reading

    def _trimmed(self, start: int, end: int) -> list[tuple[int, int]]:
        """The span without marks at its ends, with and without the courtesies around it."""
        scan = self.scan
        while end > start and scan.word(end - 1) in _ENDS:
            end -= 1
        starts, ends = [start], [end]
        for at in starts:
            for after, _ in scan.named_at(at, self.shelf.opening):
                after += after < end and scan.word(after) in (",", ":")
                if after < end and after not in starts and len(starts) <= MOST_COURTESIES:
                    starts.append(after)
        for at in ends:
            for words in self.shelf.closing.get(scan.word(at - 1), ()):
                before = at - len(words)
                if before > start and scan.follows(before, words):
                    while before > start and scan.word(before - 1) in _ENDS:
                        before -= 1
                    if before not in ends and len(ends) <= MOST_COURTESIES:
                        ends.append(before)
        return [(a, b) for a in starts for b in ends if a < b]


MARGIN = 3
"""How much worse a reading of a change by another reflex must be."""


def _rival(other: Match, best: Match) -> bool:
    """Whether another reading is as good as the best; where both change files, nearly as good is enough."""
    assert other.procedure
    assert best.procedure
    if other.procedure is best.procedure:
        return other.reading.rank == best.reading.rank
    margin = MARGIN if best.procedure.changes and other.procedure.changes else 0
    said_less = other.reading.exact < best.reading.exact - 1
    return other.reading.loss <= best.reading.loss + margin and not said_less


def _task_of(scan: Scan, reading: Reading, start: int, end: int) -> str:
    """The words of a part, pronouns replaced by the files that they mean."""
    pieces: list[str] = []
    at = start
    for bound in sorted(reading.meant, key=lambda each: each.start):
        there = scan.raw(bound.start, bound.end) == "there"
        inside = there and bound.start > at and scan.word(bound.start - 1) == "in"
        before = bound.start - inside
        if before > at:
            pieces.append(scan.raw(at, before))
        to = "into " if inside else "to " if there else ""
        pieces.append(to + ", ".join(_quoted(str(value)) for value in as_list(bound.value)))
        at = bound.end
    if at < end:
        pieces.append(scan.raw(at, end))
    return " ".join(pieces)


def _quoted(path: str) -> str:
    if re.fullmatch(r"[\w./-]+", path):
        return path
    mark = next((mark for mark in "\"`'" if mark not in path), '"')
    return f"{mark}{path}{mark}"


# ---- several tasks in one -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chain:
    """Parts that cover the tokens up to some place, and their common score."""

    parts: tuple[Match, ...] = ()
    prior: tuple[Earlier, ...] = ()
    score: int = 0
    torn: bool = False  # another chain is as good and means something else

    @property
    def order(self) -> tuple[int, int]:
        """Less is better: fewer parts, then a higher score."""
        return len(self.parts), -self.score

    def plus(self, part: Match) -> _Chain:
        score = self.score + part.reading.exact * 10 - part.reading.vague
        return _Chain((*self.parts, part), (*self.prior, part.promise()), score, self.torn)


def _split_tasks(covered: _Covered) -> Match | None:
    """The task as the fewest covered parts; None if there are none, or two ways to divide it."""
    scan = covered.scan
    joins = _joins(scan, covered.shelf)
    if not 0 < len(joins) <= MOST_JOINS:
        return None
    starts = [0, *(after for _, after in joins)]
    ends = [*(before for before, _ in joins), len(scan.tokens)]
    chains: list[_Chain | None] = [_Chain(prior=scan.prior)] + [None] * len(ends)
    for last in range(1, len(ends) + 1):
        found: list[_Chain] = []
        for first, chain in enumerate(chains[:last]):
            if chain is not None and starts[first] < ends[last - 1]:
                part = covered.best(starts[first], ends[last - 1], chain.prior)
                if part is None and covered.by_intent:
                    part = _elliptic(
                        covered, chain, (starts[first], ends[last - 1]), starts[last:], ends[last:]
                    )
                found += [chain.plus(part)] if part else []
        if found:
            best = min(found, key=lambda each: each.order)
            tied = sum(each.order == best.order for each in found) > 1
            chains[last] = replace(best, torn=best.torn or tied)
    done = chains[-1]
    covered.torn = covered.torn or (done is not None and done.torn)
    if done is None or done.torn or len(done.parts) < 2 or _means_the_file(done.parts):
        return None
    whole = Match(scan.text, parts=done.parts, prior=scan.prior)
    return whole if whole.changes or not covered.orders_change(0, len(scan.tokens)) else None


def _means_the_file(parts: Sequence[Match]) -> bool:
    """Whether a part prints a file that another one changes, in a form that nothing uses: `and sort it`."""
    changed = {each.promise().file for each in parts if each.procedure and each.procedure.changes} - {""}
    return any(
        part.procedure and part.procedure.reshapes and part.promise().file in changed
        for part, after in zip(parts, (*parts[1:], None), strict=True)
        if after is None or not after.uses_it
    )


def _elliptic(
    covered: _Covered, chain: _Chain, span: tuple[int, int], starts: list[int], ends: list[int]
) -> Match | None:
    """A part that leaves out what the part before says, or the one that begins after it."""
    if chain.parts:
        return covered.best(*span, chain.prior, chain.parts[-1].beside)
    for end in ends:
        after = covered.best(starts[0], end, chain.prior)
        part = covered.best(*span, chain.prior, after.beside) if after else None
        if part and any(each.start == each.end for each in part.reading.bound):  # not the words alone
            return part
    return None


def _joins(scan: Scan, shelf: Shelf) -> list[tuple[int, int]]:
    """The places where the task may be divided: runs of separators and joining words."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(scan.tokens):
        after = at
        while further := max((end for end, _ in scan.named_at(after, shelf.joining)), default=0):
            after = further
        if after > at and at > 0 and after < len(scan.tokens):
            found.append((at, after))
        at = max(after, at + 1)
    return found


# ---- what came before ----------------------------------------------------------------------------------


def earlier(text: str, shelf: Shelf, source: str = "") -> Earlier:
    """An existing result as later tasks can use it."""
    short = text.strip() if len(text) <= LONGEST_MESSAGE else ""
    if shelf.wrote and (hit := shelf.wrote.fullmatch(short)):
        column = re.split(r",\s*", hit.groupdict().get("columns") or "")[-1]
        table = column or hit["file"].endswith((".csv", ".tsv"))
        return Earlier(_shapes(("table file" if table else "file",)), None, hit["file"], column, source)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or (shelf.nothing and shelf.nothing.match(text)):
        return Earlier(frozenset(), text, source=source)
    column = ""
    facts: list[tuple[str, str]] = []
    if _NUMBER.fullmatch(text.strip()):
        shapes = _shapes(("number",))
        text = text.strip()
    elif all(_NUMBER.fullmatch(line.strip()) for line in lines):
        shapes, facts = _shapes(("numbers",)), [("count", str(len(lines)))]
    elif column := _table_column(lines):
        shapes = _shapes(("table",))
    elif shelf.total and (hit := shelf.total.search(text)):
        facts = [("total", hit[1].replace(",", ""))]
        shapes = _shapes(("list",))
    else:
        shapes, facts = _shapes(("list",)), [("count", str(len(lines)))]
    return Earlier(shapes | {name for name, _ in facts}, text, "", column, source, tuple(facts))


def _table_column(lines: list[str]) -> str:
    """The last column's name if the lines are CSV with numbers in that column, else ""."""
    import csv

    try:
        rows = list(csv.reader(lines))
    except csv.Error:
        return ""
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return ""
    numeric = all(_NUMBER.fullmatch(row[-1].strip()) for row in rows[1:])
    return rows[0][-1] if numeric and not _NUMBER.fullmatch(rows[0][-1].strip()) else ""
