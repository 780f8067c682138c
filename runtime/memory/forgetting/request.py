"""A request to forget words, an id, a run, or everything before a date; and which rows match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernel.errors import UsageError
from runtime.memory.store.record import Row, parsed

SHORTEST_ID = 4
TELLING = 12
"""Length from which a forgotten text is also searched inside other texts."""
DATES = ("at", "created", "since")
"""Fields with the time of a row's content; the first that is set counts."""
ASKED = ("observation", "memory", "goal", "experience", "decision", "neuron-tree", "edge", "method")
"""Kinds that a request can match by id or date; others depend on them."""


@dataclass(frozen=True)
class Request:
    """What a person asked to forget; exactly one field is set."""

    words: str = ""  # all in one row; in quotes, the exact phrase
    id: str = ""
    run: str = ""
    before: str = ""  # ISO 8601

    def __post_init__(self) -> None:
        given = [name for name in ("words", "id", "run", "before") if getattr(self, name)]
        if len(given) != 1:
            raise UsageError("say what to forget with one of: words, an id, --run RUN or --before DATE")
        if self.words and not self._patterns:
            raise UsageError(f"{self.words!r} contains no word to search for")
        if self.id and len(self.id) < SHORTEST_ID:
            raise UsageError(f"{self.id!r} is too short for an id; {SHORTEST_ID} characters are needed")

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        said = " ".join(self.words.split())
        if len(said) > 2 and said[0] in "\"“'" and said[-1] in "\"”'":
            inside = r"\s+".join(map(re.escape, said[1:-1].split()))
            return (re.compile(rf"(?i)(?<!\w){inside}(?!\w)"),) if inside else ()
        words = dict.fromkeys(re.findall(r"\w+", said.casefold()))
        return tuple(re.compile(rf"(?i)(?<!\w){re.escape(word)}(?:['’]?s|es)?(?!\w)") for word in words)

    def says(self, text: str) -> bool:
        """Whether a text matches the words."""
        return bool(self.words) and all(each.search(text) for each in self._patterns)

    def means(self, row: Row, told: Mapping[str, Any]) -> bool:
        """Whether a row itself matches; `told` are its fields."""
        if self.words:
            return self.says("\n".join(strings(told)))
        if self.id:
            return row.kind in ASKED and row.id.startswith(self.id)
        if self.run:
            return told.get("run") == self.run or told.get("thread") == self.run
        when = next((str(told[name]) for name in DATES if told.get(name)), "")
        return row.kind in ASKED and bool(when) and when < self.before


def fields(row: Row) -> dict[str, Any]:
    """The fields of a row; none if it cannot be read."""
    return parsed(row.body) or {}


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


class Texts:
    """Forgotten texts, indexed so that the search time does not grow with their number."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._whole: set[str] = set()
        self._heads: dict[str, set[int]] = {}  # lengths of the texts with this beginning
        self.add(texts)

    def __bool__(self) -> bool:
        return bool(self._whole)

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        for text in map(_plain, texts):
            if text and text not in self._whole:
                self._whole.add(text)
                if len(text) >= TELLING:
                    self._heads.setdefault(text[:TELLING], set()).add(len(text))

    def within(self, text: str) -> bool:
        """Whether a text is or contains one of them."""
        plain = _plain(text)
        return plain in self._whole or any(
            plain[at : at + length] in self._whole
            for at in range(len(plain) - TELLING + 1)
            for length in self._heads.get(plain[at : at + TELLING], ())
        )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
