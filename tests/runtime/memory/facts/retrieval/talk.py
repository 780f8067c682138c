"""A small store for tests of retrieval."""

from __future__ import annotations

from typing import Any

from runtime.memory.embed import choose
from runtime.memory.facts.graph import enter
from runtime.memory.facts.records import Edge, Memory, Observation
from runtime.memory.facts.retrieval import Retrieval
from runtime.memory.store import Record, Shelf, open_shelf

EMBEDDER = choose("lexical")


def said(id: str, text: str, who: str = "", at: str = "2023-05-08T12:00:00.000Z", **more: Any) -> Observation:
    return Observation(
        id=id, text=text, who=who, at=at, said="turn", salience=more.pop("salience", 0.5), **more
    )


def held(id: str, text: str, **more: Any) -> Memory:
    return Memory(id=id, text=text, **more)


def talk(*lines: str, thread: str = "t", at: str = "2023-05-08T12:00:00.000Z") -> list[Observation]:
    """`Ann: hello` as turns of one thread."""
    found: list[Observation] = []
    for place, line in enumerate(lines):
        who, _, text = line.partition(": ")
        found.append(said(f"{thread}{place}", text, who, at, thread=thread, turn=place))
    return found


def shelf_of(*records: Record) -> Shelf:
    from pathlib import Path

    shelf = open_shelf("memory", Path())
    shelf.put(*records)
    for record in records:
        if isinstance(record, Edge):
            enter(shelf, record)
    return shelf


def retrieval(*records: Record) -> Retrieval:
    return Retrieval(shelf_of(*records), EMBEDDER)


NOISE = [
    said(f"n{n}", text, "Zoe", at="2023-01-02T12:00:00.000Z", thread=f"noise{n}")
    for n, text in enumerate(
        [
            "The kettle boils every morning at six.",
            "My brother repairs old radios in a shed.",
            "We planted beans along the fence.",
            "The library closes early on holidays.",
            "Nobody answered the door at the mill.",
            "Our neighbours keep three grey geese.",
            "The ferry was late because of fog.",
            "I still owe the baker for the rolls.",
        ]
    )
]
