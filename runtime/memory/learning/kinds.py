"""Classifies tasks by their words. Patterns are shown for tasks of the type that they were learned from.

The types, their words and examples are in `memory/task-types.md` of the system folders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from runtime.memory.embed import Embedder
from runtime.memory.learning.patterns import GENERAL, NAMES
from runtime.text.inflection import stem
from runtime.text.sections import having, sections

LIKE = {"lexical": 0.30}
"""The least cosine to an example of a type, by embedder."""
LIKE_OTHERS = 0.45
LOOKED_AT = 600
"""Characters of a task that are read."""
SECOND = 0.75
"""The share of the best score from which a second type is returned too."""
_WORD = re.compile(r"[a-z][a-z-]*[a-z]|[a-z]")
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|'[^'\s][^']*'(?!\w)")
_PATH = re.compile(r"\S*/\S*|\b[\w-]+\.([a-z]{1,5})\b")
TYPES = "task-types.md"
"""The file with the types of a system folder."""
_PART = re.compile(r"[.;:,!?]\s+|\b(?:and|then|please|you|to)\b")


@dataclass
class Type:
    """The words and examples of one task type."""

    verbs: set[str] = field(default_factory=set[str])
    things: set[str] = field(default_factory=set[str])
    examples: list[str] = field(default_factory=list[str])


class Kinds:
    """Finds the types of tasks, by an embedder if the words do not decide."""

    def __init__(self, systems: Sequence[Path], embedder: Embedder | None = None) -> None:
        self.types = types_of(tuple(systems))
        self.embedder = embedder
        self._cached = lru_cache(10_000)(self._of)

    def of(self, task: str) -> tuple[str, ...]:
        """The types of a task, best first; `general` if none fits."""
        return self._cached(task[:LOOKED_AT])

    def _of(self, task: str) -> tuple[str, ...]:
        scores = self.scores(task)
        best = max(scores.values(), default=0)
        if best >= 2:
            ordered = sorted(scores, key=lambda name: -scores[name])
            return tuple(name for name in ordered if scores[name] >= SECOND * best)[:2]
        if self.embedder is not None and (near := self._nearest(task)):
            return (near,)
        return (max(scores, key=lambda name: scores[name]),) if best else (GENERAL,)

    def scores(self, task: str) -> Mapping[str, int]:
        """The weighted number of words of each type in a task, without zeros."""
        plain = _QUOTED.sub(" ", task.lower())
        suffixes = {hit[1] for hit in _PATH.finditer(plain) if hit[1]}
        plain = _PATH.sub(" ", plain)
        scores: dict[str, int] = {}
        words = {stem(word) for word in _WORD.findall(plain)}
        leading = {stem(part[0]) for part in map(_WORD.findall, _PART.split(plain)) if part}
        for name, type in self.types.items():
            verbs = type.verbs & words
            score = 2 * len(verbs) + len(verbs & leading) + len(type.things & (words | suffixes))
            if score:
                scores[name] = score
        return scores

    def _nearest(self, task: str) -> str:
        assert self.embedder is not None
        names, rows = self._examples
        if not names:
            return ""
        scores = rows @ self.embedder.embed([task])[0]
        best = int(scores.argmax())
        return names[best] if scores[best] >= LIKE.get(self.embedder.name[:7], LIKE_OTHERS) else ""

    @cached_property
    def _examples(self) -> tuple[list[str], Any]:
        assert self.embedder is not None
        pairs = [(name, text) for name, type in self.types.items() for text in type.examples]
        return [name for name, _ in pairs], self.embedder.embed([text for _, text in pairs])


def kinds_of(systems: tuple[Path, ...], embedder: Embedder | None) -> Kinds:
    """`Kinds` of these folders, one object for all runs of a process."""
    return _kinds_of(having(systems, TYPES), embedder)


@lru_cache(maxsize=8)
def _kinds_of(systems: tuple[Path, ...], embedder: Embedder | None) -> Kinds:
    return Kinds(systems, embedder)


@cache
def types_of(systems: tuple[Path, ...]) -> Mapping[str, Type]:
    """The types that these folders define; a folder without the file adds nothing."""
    types: dict[str, Type] = {}
    for name, body in sections(systems, TYPES):
        if not NAMES.fullmatch(name):
            continue
        type = types.setdefault(name, Type())
        for key, words in (("verbs", type.verbs), ("things", type.things)):
            if listed := re.search(rf"(?m)^{key}:(.*(?:\n[ \t]+.*)*)", body):
                words.update(stem(word) for word in listed[1].lower().split())
        type.examples += [line[2:].strip() for line in body.splitlines() if line.startswith("- ")]
    return types
