"""Which rows go with what is forgotten, and which are changed: nothing is written here.

What a row is asked for by itself goes. With it go what was made of it alone and what repeats its words; what
stands on other evidence too is worded anew from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.memory.forgetting.wanted import ASKED, Texts, Wanted, fields, strings
from runtime.store import Shelf
from runtime.store.record import Row

Key = tuple[str, str]
"""Kind and id."""
TOLD = ("observation", "memory")
"""Kinds whose words are to be found nowhere else when they are forgotten."""
BESIDE = ("outline", "untaken", "links", "waiting", "unembedded", "merged-tree", "passage")
"""Kinds that hold more about another row, by its id."""
GO = frozenset(
    (*ASKED, "type-member", "problem-type", "tried", "insight", *BESIDE),
)
"""Kinds whose rows go whole; of others only what they say of it is taken out."""
SURE = 12
"""Characters of an id that stands for nothing else in a text field."""
GONE = "[forgotten]"


@dataclass
class Found:
    """What forgetting would do to rows."""

    gone: dict[Key, str] = field(default_factory=dict[Key, str])  # and what each said
    reworded: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    # memories, and the evidence that each is left with
    taken_out: set[Key] = field(default_factory=set[Key])  # rows that only mention it
    texts: Texts = field(default_factory=Texts)
    runs: dict[str, None] = field(default_factory=dict[str, None])  # whose documents tell it
    marks: set[str] = field(default_factory=set[str])  # by which documents do not tell it again

    @property
    def ids(self) -> set[str]:
        """Of what goes, whatever kind."""
        return {id for _, id in self.gone if len(id) >= SURE}


class Following:
    """Follows what is asked for through all rows."""

    def __init__(self, shelf: Shelf, wanted: Wanted) -> None:
        self.shelf, self.wanted = shelf, wanted
        self.found = Found()
        self._memories: dict[str, Mapping[str, Any]] = {}
        self._drawn: dict[str, list[str]] = {}  # abstractions, and the memories that they came from
        self._asked: set[str] = set()  # memories that were asked for themselves
        self._spoken: set[str] = set()  # observations that go
        self._states: set[str] = set()  # ids of passages that go, as of this look through all rows
        self._done: set[str] = set()  # and tasks of trees

    def follow(self) -> Found:
        """All of it."""
        for row in self._rows():
            told = fields(row)
            if row.kind == "memory":
                self._memories[row.id] = told
            if row.kind == "edge" and told.get("relation") == "derived":
                self._drawn.setdefault(str(told.get("source")), []).append(str(told.get("target")))
            if self.wanted.means(row, told) and not self._only_old(row, told):
                if row.kind == "memory":
                    self._asked.add(row.id)
                elif row.kind in GO:
                    self._goes(row, told)
                else:
                    self.found.taken_out.add((row.kind, row.id))
        self._memories_go()
        while self._repeats():
            self._memories_go()
        ids = self.found.ids
        for row in self._rows():
            key = (row.kind, row.id)
            if key not in self.found.gone and self._mentions(fields(row), ids):
                self.found.taken_out.add(key)
        self.found.taken_out -= {("memory", id) for id in self.found.reworded}
        return self.found

    def _rows(self) -> Iterator[Row]:
        for kind in self.shelf.kinds():
            if kind != "forgotten":
                yield from self.shelf.rows(kind)

    def _only_old(self, row: Row, told: Mapping[str, Any]) -> bool:
        """A memory is as old as its evidence, and goes by that."""
        return bool(self.wanted.before and row.kind == "memory" and told.get("evidence"))

    def _goes(self, row: Row, told: Mapping[str, Any]) -> None:
        found = self.found
        found.gone[row.kind, row.id] = row.text
        run = str(told.get("run") or "")
        if row.kind == "observation":
            self._spoken.add(row.id)
            run = str(told.get("thread") or "") if str(told.get("source", "")).startswith("run:") else ""
            if run:
                found.marks.add(f"said {run}#{told.get('turn', 0)}")
        if row.kind == "experience":
            found.marks.add(f"experience {row.id}")
        if run:
            found.runs[run] = None
        if row.kind in TOLD:
            found.texts.add([row.text])

    def _memories_go(self) -> None:
        """Memories by what is left of their evidence; those that were asked for take theirs along."""
        more = True
        while more:
            more = False
            for id, told in self._memories.items():
                if ("memory", id) not in self.found.gone:
                    more |= self._memory_goes(id, told)

    def _memory_goes(self, id: str, told: Mapping[str, Any]) -> bool:
        """Whether anything becomes of a memory that was not to become of it before."""
        found, asked = self.found, id in self._asked
        evidence = tuple(str(each) for each in told.get("evidence") or ())
        named = bool(self.wanted.id) and asked
        if named:
            self._take_along(evidence)
        left = tuple(each for each in evidence if each not in self._spoken)
        whole = told.get("held") == "abstraction" and any(
            ("memory", each) in found.gone or each in found.reworded for each in self._drawn.get(id, ())
        )
        if not (asked or whole or len(left) < len(evidence)) or (left and found.reworded.get(id) == left):
            return False
        found.texts.add([str(told.get("text", ""))])
        if left and not whole and not named:
            found.reworded[id] = left
        else:
            found.reworded.pop(id, None)
            found.gone["memory", id] = str(told.get("text", ""))
        return True

    def _take_along(self, evidence: tuple[str, ...]) -> None:
        rows = self.shelf.keeper.read("observation", [each for each in evidence if each not in self._spoken])
        for row in rows.values():
            self._goes(row, fields(row))

    def _repeats(self) -> bool:
        """What goes with what has gone: rows about it, edges to it, and rows that say its words again."""
        gone, ids, before = self.found.gone, self.found.ids, len(self.found.gone)
        self._states, self._done = self._passages(), self._tasks()
        for row in self._rows():
            if (row.kind, row.id) in gone or row.kind not in GO or row.kind == "memory":
                continue
            told = fields(row)
            if self._belongs(row, told, ids) or self._says(row, told):
                self._goes(row, told)
        return len(gone) > before

    def _belongs(self, row: Row, told: Mapping[str, Any], ids: set[str]) -> bool:
        if row.kind == "passage":
            return row.id in self._states
        if row.kind in BESIDE:
            return row.id.partition("~")[0] in ids if row.kind == "links" else row.id in ids
        if row.kind == "edge":
            return told.get("source") in ids or told.get("target") in ids
        if row.kind == "type-member":
            return told.get("type") in ids
        if row.kind == "method":
            return any(tree in ids for tree in told.get("trees") or ())
        return False

    def _passages(self) -> set[str]:
        """The states of words that were made of what goes, or is worded anew."""
        from runtime.memory.semantic.retrieval.passages import name

        reworded = (("memory", id) for id in self.found.reworded)
        return {name(kind, id) for kind, id in (*self.found.gone, *reworded) if kind in TOLD}

    def _tasks(self) -> set[str]:
        """The tasks of trees that go."""
        return {text for (kind, _), text in self.found.gone.items() if kind == "neuron-tree"}

    def _says(self, row: Row, told: Mapping[str, Any]) -> bool:
        """Whether a row says again what goes. What others said elsewhere in the same words is theirs."""
        if row.kind == "type-member":
            return row.text in self._done
        same = str(told.get("run") or told.get("thread") or "") in self.found.runs
        return (same or row.kind == "edge") and any(map(self.found.texts.within, strings(told)))

    def _mentions(self, told: Mapping[str, Any], ids: set[str]) -> bool:
        return any(
            text in ids or self.found.texts.within(text) or self.wanted.says(text)
            for text in (*strings(told), *_keys(told))
        )


def _keys(told: Mapping[str, Any]) -> Iterator[str]:
    for value in told.values():
        if isinstance(value, Mapping):
            yield from (str(key) for key in value)


def without(value: Any, ids: set[str], texts: Texts, wanted: Wanted) -> Any:
    """A JSON value that mentions none of it: entries of lists and keys of objects go, texts are blanked."""
    if isinstance(value, str):
        if value in ids:
            return ""
        return GONE if texts.within(value) or wanted.says(value) else value
    if isinstance(value, Mapping):
        return {key: without(each, ids, texts, wanted) for key, each in value.items() if str(key) not in ids}
    if isinstance(value, list | tuple):
        return [each for each in value if not _holds(each, ids, texts, wanted)]
    return value


def _holds(value: Any, ids: set[str], texts: Texts, wanted: Wanted) -> bool:
    return any(text in ids or texts.within(text) or wanted.says(text) for text in strings(value))
