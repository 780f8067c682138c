"""A person's refusals: what they called bad is not done again, for that task and its variations.

A refusal holds until the person accepts another way, and then for all ways but that one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

from runtime.memory.store import Record, Shelf, pack
from runtime.memory.tasks.alignment import Alignment
from runtime.memory.tasks.clauses import compare
from runtime.memory.tasks.fingerprint import NAME, shape
from runtime.memory.tasks.merging import tree_by
from runtime.memory.tasks.reading import Reading
from runtime.memory.tasks.words import Words

NEAREST = 8
"""Refused tasks that a task is compared with."""
READINGS = 64
"""Readings of refused tasks that are cached."""


class Refused(Record):
    """A task whose solution a person refused; `text` is the task."""

    KIND: ClassVar[str] = "refused"

    run: str = ""
    at: str = ""  # ISO 8601
    why: str = ""
    accepted: tuple[str, ...] = ()  # ids of runs and trees that the person accepted for it since

    @property
    def said(self) -> str:
        """The refusal in a sentence."""
        return f"a person refused it in run {self.run}{f': {self.why}' if self.why else ''}"


class Refusals:
    """The refusals on one shelf."""

    def __init__(self, shelf: Shelf, words: Words) -> None:
        self.shelf, self.words = shelf, words
        self._read = lru_cache(READINGS)(lambda task: Reading.read(task, words))

    def refuse(self, tasks: Iterable[str], run: str, why: str, at: str) -> None:
        """Record that a person refused how these tasks were solved in a run."""
        for task in dict.fromkeys(tasks):
            id = hashlib.sha256(f"{run} {task}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
            vectors = {NAME: pack(shape(self._read(task), self.words))}
            self.shelf.put(Refused(id=id, text=task, vectors=vectors, run=run, why=why, at=at))

    def accept(self, tasks: Iterable[str], run: str, trees: Iterable[str]) -> None:
        """Record that a person accepted how a run solved these tasks; takes back what they refused of it."""
        self.shelf.delete(Refused, *(each.id for each in self.shelf.scan(Refused, {"run": run})))
        for each in {each.id: each for task in tasks for each in self.of(task)}.values():
            accepted = (*each.accepted, run, *trees)
            self.shelf.put(each.model_copy(update={"accepted": tuple(dict.fromkeys(accepted))}))

    def of(self, task: str) -> list[Refused]:
        """The refusals of this task and of variations of it."""
        if not self.shelf.count(Refused):
            return []
        read = Reading.read(task, self.words)
        hits = self.shelf.nearest(Refused, NAME, shape(read, self.words), NEAREST)
        near = self.shelf.pick(Refused, [hit.id for hit in hits])
        return [each for each in near if each.text == task or self._alike(self._read(each.text), read)]

    def against(self, way: str, *tasks: str) -> Refused | None:
        """The refusal for which a way (the id of a tree or a run) is not used for these tasks."""
        for each in (each for task in tasks for each in self.of(task)):
            if way not in each.accepted and way not in self._merged(each.accepted):
                return each
        return None

    def _merged(self, ids: Iterable[str]) -> set[str]:
        """The ids of the trees that these are part of now."""
        return {tree.id for tree in (tree_by(self.shelf, id) for id in ids) if tree}

    @staticmethod
    def _alike(one: Reading, other: Reading) -> bool:
        """Whether one is a variation of the other."""
        return isinstance(compare(one, other), Alignment) or isinstance(compare(other, one), Alignment)
