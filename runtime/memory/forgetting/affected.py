"""Finds the rows that forgetting removes or changes. Writes nothing.

Matching rows are removed, with the rows derived from them alone and the rows that repeat their words.
Memories with other evidence are reworded from that evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.memory.forgetting.request import ASKED, Request, Texts, fields, strings
from runtime.memory.store import Shelf
from runtime.memory.store.record import Row

Key = tuple[str, str]
"""Kind and id."""
TOLD = ("observation", "memory")
"""Kinds whose words must be removed everywhere else too."""
BESIDE = ("outline", "untaken", "links", "waiting", "unembedded", "merged-tree", "passage")
"""Kinds that extend another row with the same id."""
GO = frozenset(
    (*ASKED, "type-member", "problem-type", "tried", "insight", *BESIDE),
)
"""Kinds whose rows are removed; in rows of other kinds only the mentions are blanked."""
SURE = 12
"""Length from which an id in a text field is unambiguous."""
GONE = "[forgotten]"


@dataclass
class Found:
    """What forgetting would do to rows."""

    wanted: Request
    gone: dict[Key, str] = field(default_factory=dict[Key, str])  # removed rows, with their text
    reworded: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    # memories, with the remaining evidence of each
    taken_out: set[Key] = field(default_factory=set[Key])  # rows that only mention it
    texts: Texts = field(default_factory=Texts)
    runs: dict[str, None] = field(default_factory=dict[str, None])  # whose documents contain it
    marks: set[str] = field(default_factory=set[str])  # keep documents from being indexed again

    def tells(self, text: str) -> bool:
        """Whether a text contains what to forget."""
        return self.texts.within(text) or self.wanted.says(text)

    @property
    def ids(self) -> set[str]:
        """The ids of removed rows."""
        return {id for _, id in self.gone if len(id) >= SURE}


class AffectedRows:
    """Searches all rows for what a request affects."""

    def __init__(self, shelf: Shelf, wanted: Request) -> None:
        self.shelf, self.wanted = shelf, wanted
        self.found = Found(wanted)
        self._memories: dict[str, Mapping[str, Any]] = {}
        self._drawn: dict[str, list[str]] = {}  # abstractions, with their source memories
        self._asked: set[str] = set()  # memories that match the request
        self._spoken: set[str] = set()  # removed observations
        self._states: set[str] = set()  # ids of removed passages, as of this pass
        self._done: set[str] = set()  # tasks of removed trees, as of this pass

    def find(self) -> Found:
        """Every affected row."""
        for row in self._rows():
            told = fields(row)
            if row.kind == "memory":
                self._memories[row.id] = told
            if row.kind == "edge" and told.get("relation") == "derived":
                self._drawn.setdefault(str(told.get("source")), []).append(str(told.get("target")))
            # the evidence of a memory decides, not its date
            by_evidence = self.wanted.before and row.kind == "memory" and told.get("evidence")
            if self.wanted.means(row, told) and not by_evidence:
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
            if kind not in ("forgotten", "before-image"):
                yield from self.shelf.rows(kind)

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
        """Decide on memories by their remaining evidence, until nothing changes."""
        more = True
        while more:
            more = False
            for id, told in self._memories.items():
                if ("memory", id) not in self.found.gone:
                    more |= self._memory_goes(id, told)

    def _memory_goes(self, id: str, told: Mapping[str, Any]) -> bool:
        """Remove or reword one memory if needed; returns whether the plan for it changed."""
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
        """Remove rows about removed rows, edges to them, and rows that repeat their words."""
        gone, ids, before = self.found.gone, self.found.ids, len(self.found.gone)
        self._states = self._passages()
        self._done = {text for (kind, _), text in gone.items() if kind == "neuron-tree"}
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
        """Passage states of removed and reworded rows."""
        from runtime.memory.facts.retrieval.passages import name

        reworded = (("memory", id) for id in self.found.reworded)
        return {name(kind, id) for kind, id in (*self.found.gone, *reworded) if kind in TOLD}

    def _says(self, row: Row, told: Mapping[str, Any]) -> bool:
        """Whether a row repeats removed words. The same words in other runs stay."""
        if row.kind == "type-member":
            return row.text in self._done
        same = str(told.get("run") or told.get("thread") or "") in self.found.runs
        return (same or row.kind == "edge") and any(map(self.found.texts.within, strings(told)))

    def _mentions(self, told: Mapping[str, Any], ids: set[str]) -> bool:
        return any(text in ids or self.found.tells(text) for text in (*strings(told), *_keys(told)))


def _keys(told: Mapping[str, Any]) -> Iterator[str]:
    for value in told.values():
        if isinstance(value, Mapping):
            yield from (str(key) for key in value)


def without(value: Any, ids: set[str], found: Found) -> Any:
    """A JSON value without mentions: list entries and object keys are dropped, texts are blanked."""
    if isinstance(value, str):
        if value in ids:
            return ""
        return GONE if found.tells(value) else value
    if isinstance(value, Mapping):
        return {key: without(each, ids, found) for key, each in value.items() if str(key) not in ids}
    if isinstance(value, list | tuple):
        return [each for each in value if not any(text in ids or found.tells(text) for text in strings(each))]
    return value
