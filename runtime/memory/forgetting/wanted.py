"""What is to be forgotten: words, an id, a run, or all before a date; and which rows that means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernel.errors import UsageError
from runtime.store.record import Row

SHORTEST_ID = 4
TELLING = 12
"""Characters from which on a forgotten text is looked for inside of others; a shorter one is compared."""
DATES = ("at", "created", "since")
"""Fields of a row that say when what it tells was said, the first that there is."""
ASKED = ("observation", "memory", "goal", "experience", "decision", "neuron-tree", "edge", "method")
"""Kinds that a person can name; the rest follows them."""


@dataclass(frozen=True)
class Wanted:
    """What a person asked to be forgotten; one of the four is given."""

    words: str = ""  # all of them in one row, or between quotes as they stand
    id: str = ""
    run: str = ""
    before: str = ""  # ISO 8601

    def __post_init__(self) -> None:
        given = [name for name in ("words", "id", "run", "before") if getattr(self, name)]
        if len(given) != 1:
            raise UsageError(
                "say what is to be forgotten: words, an id, --run RUN or --before DATE, one of them"
            )
        if self.words and not self._patterns:
            raise UsageError(f"{self.words!r} has no word in it to look for")
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
        """Whether a text is one of those that are to be forgotten by their words."""
        return bool(self.words) and all(each.search(text) for each in self._patterns)

    def means(self, row: Row, told: Mapping[str, Any]) -> bool:
        """Whether a row itself was asked for; `told` are its fields."""
        if self.words:
            return self.says("\n".join(strings(told)))
        if self.id:
            return row.kind in ASKED and row.id.startswith(self.id)
        if self.run:
            return told.get("run") == self.run or told.get("thread") == self.run
        when = next((str(told[name]) for name in DATES if told.get(name)), "")
        return row.kind in ASKED and bool(when) and when < self.before


def fields(row: Row) -> dict[str, Any]:
    """What a row tells; nothing of one that cannot be read."""
    try:
        told = json.loads(row.body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


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
    """Texts that are gone, to be found inside of others: the time does not grow with how many they are."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._whole: set[str] = set()
        self._heads: dict[str, set[int]] = {}  # how long those are that begin so
        self.add(texts)

    def __bool__(self) -> bool:
        return bool(self._whole)

    def add(self, texts: Iterable[str]) -> None:
        """Some more."""
        for text in map(_plain, texts):
            if text and text not in self._whole:
                self._whole.add(text)
                if len(text) >= TELLING:
                    self._heads.setdefault(text[:TELLING], set()).add(len(text))

    def within(self, text: str) -> bool:
        """Whether one of them stands in a text, or is it."""
        plain = _plain(text)
        if plain in self._whole:
            return True
        for at in range(len(plain) - TELLING + 1):
            for length in self._heads.get(plain[at : at + TELLING], ()):
                if plain[at : at + length] in self._whole:
                    return True
        return False


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
