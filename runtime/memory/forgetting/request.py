"""A request to forget words, an id, a run, a model, or everything before a date; and which rows match."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernel.errors import UsageError
from runtime.memory.store.record import Row, parsed

SHORTEST_ID = 4
CONTAINED_FROM = 12
"""Length from which a forgotten text is also searched inside other texts."""
DATES = ("at", "created", "since")
"""Fields with the time of a row's content; the first that is set counts."""
MATCHED_KINDS = (
    "observation",
    "memory",
    "goal",
    "experience",
    "decision",
    "neuron-tree",
    "edge",
    "method",
    "staged",
)
"""Kinds that a request can match by id or date; others depend on them."""


@dataclass(frozen=True)
class Request:
    """What a person asked to forget; exactly one field is set."""

    words: str = ""  # all in one row; in quotes, the exact phrase
    id: str = ""
    run: str = ""
    before: str = ""  # ISO 8601
    model: str = ""  # what it made: the name of its rung, or of the settings

    def __post_init__(self) -> None:
        criteria = [name for name in ("words", "id", "run", "before", "model") if getattr(self, name)]
        if len(criteria) != 1:
            raise UsageError(
                "say what to forget with one of: words, an id, --run RUN, --before DATE or --model NAME"
            )
        if self.words and not self._patterns:
            raise UsageError(f"{self.words!r} contains no word to search for")
        if self.id and len(self.id) < SHORTEST_ID:
            raise UsageError(f"{self.id!r} is too short for an id; {SHORTEST_ID} characters are needed")

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        phrase = " ".join(self.words.split())
        if len(phrase) > 2 and phrase[0] in "\"“'" and phrase[-1] in "\"”'":
            inside = r"\s+".join(map(re.escape, phrase[1:-1].split()))
            return (re.compile(rf"(?i)(?<!\w){inside}(?!\w)"),) if inside else ()
        words = dict.fromkeys(re.findall(r"\w+", phrase.casefold()))
        return tuple(re.compile(rf"(?i)(?<!\w){re.escape(word)}(?:['’]?s|es)?(?!\w)") for word in words)

    def matches_text(self, text: str) -> bool:
        """Whether a text matches the words."""
        return bool(self.words) and all(each.search(text) for each in self._patterns)

    def matches(self, row: Row, values: Mapping[str, Any]) -> bool:
        """Whether a row itself matches; `values` are its fields."""
        if self.words:
            return self.matches_text("\n".join(strings(values)))
        if self.id:
            return row.kind in MATCHED_KINDS and row.id.startswith(self.id)
        if self.run:
            source = str(values.get("source") or "").removeprefix("run:")
            # the tool `remember` gives a source alone
            return self.run in (values.get("run"), values.get("thread"), source)
        if self.model:
            return self.made_by(row, values, (self.model,))
        when = next((str(values[name]) for name in DATES if values.get(name)), "")
        return row.kind in MATCHED_KINDS and bool(when) and when < self.before

    def made_by(self, row: Row, values: Mapping[str, Any], names: Collection[str]) -> bool:
        """Whether a row is a procedure or an experience that one of these models made."""
        if row.kind == "experience":
            return any(each in names for each in strings(values.get("rungs")))
        maker = str(values.get("maker") or "")
        of_it = (str(values.get("rung") or ""), maker, maker.partition(" at ")[0])
        return row.kind == "neuron-tree" and not set(names).isdisjoint(of_it)


def fields(row: Row) -> dict[str, Any]:
    """The fields of a row; none if it cannot be read."""
    return parsed(row.body) or {}


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from strings(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from strings(entry)


class Texts:
    """Forgotten texts, indexed so that the search time does not grow with their number."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: set[str] = set()
        self._heads: dict[str, set[int]] = {}  # lengths of the texts with this beginning
        self.add(texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, texts: Iterable[str]) -> None:
        """Add texts."""
        for text in map(_plain, texts):
            if text and text not in self._texts:
                self._texts.add(text)
                if len(text) >= CONTAINED_FROM:
                    self._heads.setdefault(text[:CONTAINED_FROM], set()).add(len(text))

    def within(self, text: str) -> bool:
        """Whether a text is or contains one of them."""
        plain = _plain(text)
        return plain in self._texts or any(
            plain[at : at + length] in self._texts
            for at in range(len(plain) - CONTAINED_FROM + 1)
            for length in self._heads.get(plain[at : at + CONTAINED_FROM], ())
        )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
