"""Finds the rows that forgetting removes or changes. Writes nothing.

Matching rows are removed, with the rows derived from them alone and the rows that repeat their words.
Memories with other evidence are reworded from that evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.memory.facts.records import PERSON
from runtime.memory.forgetting.request import MATCHED_KINDS, Request, Texts, fields, strings
from runtime.memory.store import Shelf
from runtime.memory.store.record import Row

Key = tuple[str, str]
"""Kind and id."""
TEXT_KINDS = ("observation", "memory")
"""Kinds whose words must be removed everywhere else too."""
EXTENSION_KINDS = ("outline", "untaken", "links", "waiting", "unembedded", "merged-tree", "passage")
"""Kinds that extend another row with the same id."""
REMOVED_KINDS = frozenset(
    (*MATCHED_KINDS, "type-member", "problem-type", "tried", "insight", "refused", *EXTENSION_KINDS),
)
"""Kinds whose rows are removed; in rows of other kinds only the mentions are blanked."""
UNAMBIGUOUS = 12
"""Length from which an id in a text field is unambiguous."""
PLACEHOLDER = "[forgotten]"


@dataclass
class Affected:
    """What forgetting would do to rows."""

    request: Request
    removed: dict[Key, str] = field(default_factory=dict[Key, str])  # removed rows, with their text
    reworded: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    # memories, with the remaining evidence of each
    mentioning: set[Key] = field(default_factory=set[Key])  # rows that only mention it
    texts: Texts = field(default_factory=Texts)
    runs: dict[str, None] = field(default_factory=dict[str, None])  # whose documents contain it
    marks: set[str] = field(default_factory=set[str])  # keep documents from being indexed again

    def contains(self, text: str) -> bool:
        """Whether a text contains what to forget."""
        return self.texts.within(text) or self.request.matches_text(text)

    @property
    def ids(self) -> set[str]:
        """The ids of removed rows."""
        return {id for _, id in self.removed if len(id) >= UNAMBIGUOUS}


class AffectedRows:
    """Searches all rows for what a request affects."""

    def __init__(self, shelf: Shelf, request: Request) -> None:
        self.shelf, self.request = shelf, request
        self.affected = Affected(request)
        self._memories: dict[str, Mapping[str, Any]] = {}
        self._sources: dict[str, list[str]] = {}  # abstractions, with their source memories
        self._requested: set[str] = set()  # memories that match the request
        self._observations: set[str] = set()  # removed observations
        self._removed_passages: set[str] = set()  # ids of removed passages, as of this pass
        self._removed_tasks: set[str] = set()  # tasks of removed trees, as of this pass

    def find(self) -> Affected:
        """Every affected row."""
        names, runs = self._of_model() if self.request.model else ((), set[str]())
        for row in self._rows():
            values = fields(row)
            if row.kind == "memory":
                self._memories[row.id] = values
            if row.kind == "edge" and values.get("relation") == "derived":
                self._sources.setdefault(str(values.get("source")), []).append(str(values.get("target")))
            # the evidence of a memory decides, not its date
            by_evidence = self.request.before and row.kind == "memory" and values.get("evidence")
            # a rung's name has no address: it stands for the model where nothing else does, in an experience
            by_rung = row.kind == "experience" and self.request.made_by(row, values, names)
            made = bool(names) and (by_rung or _extracted(row, values, runs))
            if (made or self.request.matches(row, values)) and not by_evidence:
                if row.kind == "memory":
                    self._requested.add(row.id)
                elif row.kind in REMOVED_KINDS:
                    self._remove(row, values)
                else:
                    self.affected.mentioning.add((row.kind, row.id))
        self._decide_memories()
        while self._remove_dependents():
            self._decide_memories()
        ids = self.affected.ids
        for row in self._rows():
            key = (row.kind, row.id)
            if key not in self.affected.removed and self._mentions(fields(row), ids):
                self.affected.mentioning.add(key)
        self.affected.mentioning -= {("memory", id) for id in self.affected.reworded}
        return self.affected

    def _of_model(self) -> tuple[set[str], set[str]]:
        """The names of a model's rungs, and the runs in which it answered."""
        rows = [(row, fields(row)) for row in self.shelf.rows("neuron-tree", vectors=False)]
        trees = [values for row, values in rows if self.request.matches(row, values)]
        names = {self.request.model, *(str(values.get("rung")) for values in trees)}
        loops = [(row, fields(row)) for row in self.shelf.rows("experience", vectors=False)]
        answered = [values for row, values in loops if self.request.made_by(row, values, names)]
        return names, {str(values.get("run")) for values in (*trees, *answered)}

    def _rows(self) -> Iterator[Row]:
        for kind in self.shelf.kinds():
            if kind not in ("forgotten", "before-image"):
                yield from self.shelf.rows(kind)

    def _remove(self, row: Row, values: Mapping[str, Any]) -> None:
        affected = self.affected
        affected.removed[row.kind, row.id] = row.text
        run = str(values.get("run") or "")
        if row.kind == "observation":
            self._observations.add(row.id)
            run = str(values.get("thread") or "") if str(values.get("source", "")).startswith("run:") else ""
            if run:
                affected.marks.add(f"said {run}#{values.get('turn', 0)}")
        if row.kind == "experience":
            affected.marks.add(f"experience {row.id}")
        if run:
            affected.runs[run] = None
        if row.kind in TEXT_KINDS:
            affected.texts.add([row.text])

    def _decide_memories(self) -> None:
        """Decide on memories by their remaining evidence, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for id, values in self._memories.items():
                if ("memory", id) not in self.affected.removed:
                    changed |= self._decide_memory(id, values)

    def _decide_memory(self, id: str, values: Mapping[str, Any]) -> bool:
        """Remove or reword one memory if needed; returns whether the plan for it changed."""
        affected, requested = self.affected, id in self._requested
        evidence = tuple(str(each) for each in values.get("evidence") or ())
        by_id = bool(self.request.id) and requested
        if by_id:
            self._remove_evidence(evidence)
        left = tuple(each for each in evidence if each not in self._observations)
        unsupported = values.get("held") == "abstraction" and any(
            ("memory", each) in affected.removed or each in affected.reworded
            for each in self._sources.get(id, ())
        )
        if not (requested or unsupported or len(left) < len(evidence)) or (
            left and affected.reworded.get(id) == left
        ):
            return False
        affected.texts.add([str(values.get("text", ""))])
        if left and not unsupported and not by_id:
            affected.reworded[id] = left
        else:
            affected.reworded.pop(id, None)
            affected.removed["memory", id] = str(values.get("text", ""))
        return True

    def _remove_evidence(self, evidence: tuple[str, ...]) -> None:
        rows = self.shelf.keeper.read(
            "observation", [each for each in evidence if each not in self._observations]
        )
        for row in rows.values():
            self._remove(row, fields(row))

    def _remove_dependents(self) -> bool:
        """Remove rows about removed rows, edges to them, and rows that repeat their words."""
        removed, ids, before = self.affected.removed, self.affected.ids, len(self.affected.removed)
        self._removed_passages = self._passages()
        self._removed_tasks = {text for (kind, _), text in removed.items() if kind == "neuron-tree"}
        for row in self._rows():
            if (row.kind, row.id) in removed or row.kind not in REMOVED_KINDS or row.kind == "memory":
                continue
            values = fields(row)
            if self._depends(row, values, ids) or self._repeats(row, values):
                self._remove(row, values)
        return len(removed) > before

    def _depends(self, row: Row, values: Mapping[str, Any], ids: set[str]) -> bool:
        if row.kind == "passage":
            return row.id in self._removed_passages
        if row.kind in EXTENSION_KINDS:
            return row.id.partition("~")[0] in ids if row.kind == "links" else row.id in ids
        if row.kind == "edge":
            return values.get("source") in ids or values.get("target") in ids
        if row.kind == "type-member":
            return values.get("type") in ids
        if row.kind == "method":
            return any(tree in ids for tree in values.get("trees") or ())
        return False

    def _passages(self) -> set[str]:
        """Passage states of removed and reworded rows."""
        from runtime.memory.facts.retrieval.passages import name

        reworded = (("memory", id) for id in self.affected.reworded)
        return {name(kind, id) for kind, id in (*self.affected.removed, *reworded) if kind in TEXT_KINDS}

    def _repeats(self, row: Row, values: Mapping[str, Any]) -> bool:
        """Whether a row repeats removed words. The same words in other runs stay."""
        if row.kind in ("type-member", "problem-type"):
            return row.text in self._removed_tasks
        same = str(values.get("run") or values.get("thread") or "") in self.affected.runs
        return (same or row.kind == "edge") and any(map(self.affected.texts.within, strings(values)))

    def _mentions(self, values: Mapping[str, Any], ids: set[str]) -> bool:
        return any(text in ids or self.affected.contains(text) for text in (*strings(values), *_keys(values)))


def _extracted(row: Row, values: Mapping[str, Any], runs: set[str]) -> bool:
    """Whether an observation is from what one of these runs wrote, and no word of a person."""
    source = str(values.get("source", ""))
    from_run = source.startswith("run:") and bool({str(values.get("thread")), source[4:]} & runs)
    return row.kind == "observation" and from_run and values.get("who") != PERSON


def _keys(values: Mapping[str, Any]) -> Iterator[str]:
    for value in values.values():
        if isinstance(value, Mapping):
            yield from (str(key) for key in value)


def without(value: Any, ids: set[str], affected: Affected) -> Any:
    """A JSON value without mentions: list entries and object keys are dropped, texts are blanked."""
    if isinstance(value, str):
        if value in ids:
            return ""
        return PLACEHOLDER if affected.contains(value) else value
    if isinstance(value, Mapping):
        return {key: without(each, ids, affected) for key, each in value.items() if str(key) not in ids}
    if isinstance(value, list | tuple):
        return [
            each
            for each in value
            if not any(text in ids or affected.contains(text) for text in strings(each))
        ]
    return value
