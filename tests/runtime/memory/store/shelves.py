"""Records for tests of the shelf, and a program that writes to one until it is stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from runtime.memory.store import Record, Shelf, open_shelf, pack


class Note(Record):
    KIND: ClassVar[str] = "note"

    stage: str = "new"
    uses: int = 0
    weight: float = 0.0
    sure: bool = False
    more: dict[str, Any] = Field(default_factory=dict)


class Other(Record):
    KIND: ClassVar[str] = "an-other"


def unit(*numbers: float) -> Any:
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector)


def note(id: str, *numbers: float, by: str = "lexical-1", **more: Any) -> Note:
    vectors = {by: pack(unit(*numbers))} if numbers else {}
    return Note(id=id, vectors=vectors, **more)


def write_for_ever(shelf: Shelf, name: str, pairs: int = 10**9) -> None:
    """Pairs of records in one transaction each, and after each a line that says so."""
    for number in range(pairs):
        with shelf.transaction():
            shelf.put(note(f"{name}-{number:05}-a", 1, number, text=f"{name} left {number}", uses=number))
            shelf.put(note(f"{name}-{number:05}-b", number + 1, 1, text=f"{name} right", uses=number))
        print(number, flush=True)


if __name__ == "__main__":
    _, store, folder, name, *rest = sys.argv
    write_for_ever(open_shelf(store, Path(folder)), name, int(rest[0]) if rest else 10**9)
