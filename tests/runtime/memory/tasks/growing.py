"""Solved tasks for tests of procedural memory, on every kind of shelf that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runtime.api.fractal import shipped_system
from runtime.memory.embed.lexical import Lexical
from runtime.memory.store import Shelf, open_shelf
from runtime.memory.tasks.decisions import Decision
from runtime.memory.tasks.exemplar import Exemplar
from runtime.memory.tasks.segmentation import tree_of
from runtime.memory.tasks.trees import NeuronTree
from runtime.memory.tasks.words import Words, words_of

STORED = "Tom buys 3 boxes of apples for $8 each. How much does Tom pay in total?"
OTHER = "Tom buys 5 boxes of apples for $9 each. How much does Tom pay in total?"


@cache
def words() -> Words:
    return words_of((shipped_system(),))


def solved(task: str = STORED, *expressions: str) -> Exemplar:
    steps: list[dict[str, Any]] = [
        {"tool": "calc", "args": {"expression": each}, "needs": []} for each in expressions or ("3*8",)
    ]
    return Exemplar(task=task, steps=tuple(steps), output=f"{{{{ steps[{len(steps)}].result }}}}")


def tree(task: str = STORED, *expressions: str) -> NeuronTree:
    made = tree_of(solved(task, *expressions), Lexical())
    return made.model_copy(update={"run": "r1", "rung": "model"})


@contextmanager
def shelf_of(kind: str = "memory") -> Iterator[Shelf]:
    with TemporaryDirectory() as folder:
        opened = open_shelf(kind, Path(folder), fsync=False)
        try:
            yield opened
        finally:
            opened.close()


def decided(shelf: Shelf, id: str, of: NeuronTree, task: str = OTHER, **more: Any) -> Decision:
    fields = {"path": "variation", "tree": of.id, "predicted": of.ledger.confidence, **more}
    decision = Decision(id=id, text=task, **fields)
    shelf.put(decision)
    return decision
