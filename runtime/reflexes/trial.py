"""Tries a method before it is written: a task as a phrasing, and what a file plans for a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from runtime.catalogue.pattern import Fault
from runtime.reflexes.matching import match
from runtime.reflexes.phrasing import PhrasingError
from runtime.reflexes.planning import draft
from runtime.reflexes.procedure import METHODS, Procedure, Reflexes, Shelf, read
from runtime.reflexes.templates import Unbound
from runtime.text.chunks import chunks

_SIGNS = re.compile(r"[\[\](){}<>|]")
_ENDS = ",.;:!?…"
_HOLE = "\ue000"
"""Stands for a slot while a task is divided into words."""

Steps = tuple[Mapping[str, Any], ...]


@lru_cache(maxsize=256)
def _words(task: str) -> frozenset[str]:
    return frozenset(token.word for token in chunks(task) or ())


class Trial:
    """Implements `runtime.memory.tasks.method_births.Files` over a workspace's system folders."""

    def __init__(self, systems: Sequence[Path]) -> None:
        self._systems = tuple(systems)
        self._procedure = lru_cache(256)(self._read)

    @cached_property
    def _shelf(self) -> Shelf:
        return Reflexes(self._systems).shelf

    def names(self) -> frozenset[str]:
        """The names that a method must not have."""
        return frozenset(each.path.stem for each in self._shelf.procedures) | {"language"}

    def wording(self, task: str, start: int, end: int, holes: Sequence[tuple[int, int, str]]) -> str | None:
        """A task as a phrasing, `holes` being its slots; None where the format has no way to write it."""
        if any(first < start or last > end for first, last, _ in holes):
            return None
        text, at = "", start
        for first, last, _ in sorted(holes):
            text += task[at:first] + _HOLE
            at = last
        slots = iter([slot for *_, slot in sorted(holes)])
        words: list[str] = []
        for chunk in chunks(text + task[at:end]) or ():
            if chunk.text == _HOLE and not chunk.quoted:
                words.append(next(slots))
            elif chunk.quoted or chunk.text == "\n" or _HOLE in chunk.text or _SIGNS.search(chunk.text):
                return None
            else:
                words.append(chunk.word)
        while words and words[-1] in _ENDS:
            words.pop()
        return " ".join(words) or None

    def fault(self, text: str) -> str:
        """What is wrong with a file; "" when nothing is."""
        procedure = self._procedure(text)
        return procedure if isinstance(procedure, str) else ""

    def status(self, text: str) -> str:
        """Its status, `active` when it does not say; "" when it cannot be read."""
        procedure = self._procedure(text)
        return "" if isinstance(procedure, str) else procedure.status

    def plan(self, text: str, task: str) -> Steps | None:
        """The steps that a file alone would plan for a task; None when it does not match."""
        procedure = self._procedure(text)
        if isinstance(procedure, str):
            return None
        if not any(phrasing.needed <= _words(task) for phrasing in procedure.phrasings):
            return None
        return self._planned((procedure,), task, only=procedure)

    def planned(self, task: str, texts: Sequence[str] = ()) -> Steps | None:
        """The steps that the reflexes of the system, and these files, plan for a task."""
        more = [each for each in map(self._procedure, texts) if isinstance(each, Procedure)]
        return self._planned((*more, *self._shelf.procedures), task)

    def _planned(
        self, procedures: tuple[Procedure, ...], task: str, only: Procedure | None = None
    ) -> Steps | None:
        found = match(task, replace(self._shelf, procedures=procedures))
        if found is None or (only is not None and found.procedure is not only):
            return None
        try:
            return draft(found, 0).steps
        except (Unbound, ValueError):
            return None

    def _read(self, text: str) -> Procedure | str:
        """The reflex of a file, or what is wrong with it."""
        path = Path(METHODS) / "method.md"
        found = read(path, text, self._shelf)
        if isinstance(found, Fault):
            return f"line {found.line}: {found.message}"
        try:
            for phrasing in found.phrasings:
                _ = phrasing.graph
        except PhrasingError as error:
            return str(error)
        return found
