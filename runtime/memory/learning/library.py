"""The learned patterns of a space: a folder of markdown files, and which of them are shown for a task.

If two patterns contradict each other, the more specific one is shown, then the more confident one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.document.escaping import fingerprint
from kernel.errors import StorageError, UsageError
from runtime import found_files, locks
from runtime.memory.learning.patterns import (
    DEFAULT,
    GENERAL,
    WORDS,
    Pattern,
    PatternError,
    changed,
    parse,
    read,
    text_of,
    write,
)
from runtime.text.sections import sections
from runtime.workspace.workspace import state_of

ALIKE = 0.75
"""The word overlap (Jaccard) from which two texts have the same subject."""
_SPECIFIC = {"agent": 2, "space": 1, "all": 0}
_WORD = re.compile(r"[a-z0-9']+")


@dataclass(frozen=True)
class Advice:
    """Words that negate advice or carry no meaning, from `system/memory/advice.md`."""

    negations: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()

    def words(self, text: str) -> tuple[frozenset[str], bool]:
        """The meaningful words of a text, and whether it is negated."""
        words = frozenset(_WORD.findall(text.lower().replace("\u2019", "'")))
        return words - self.negations - self.empty, bool(self.negations & words)

    def statements(self, pattern: Pattern) -> Sequence[tuple[frozenset[str], bool]]:
        """What a pattern says to do and to avoid, each as words and whether it is negated."""
        return self.words(pattern.guidance), (self.words(pattern.avoid)[0], True)


@cache
def advice_of(systems: tuple[Path, ...]) -> Advice:
    """The `Advice` of these folders. Without the file only rules can contradict each other."""
    words_by_heading: dict[str, set[str]] = {"not to": set(), "carrying nothing": set()}
    for heading, words in sections(systems, "advice.md"):
        words_by_heading.get(heading, set()).update(words.lower().split())
    return Advice(frozenset(words_by_heading["not to"]), frozenset(words_by_heading["carrying nothing"]))


def contradict(one: Pattern, other: Pattern, advice: Advice) -> bool:
    """Whether two patterns cannot both be followed: opposite rules, or one says what the other denies."""
    if one.rule and other.rule:
        return one.rule == f"not {other.rule}" or other.rule == f"not {one.rule}"
    return any(
        refused != refuses and len(first & second) >= ALIKE * max(len(first | second), 1)
        for first, refused in advice.statements(one)
        for second, refuses in advice.statements(other)
    )


def without_contradictions(patterns: Iterable[Pattern], advice: Advice) -> list[Pattern]:
    """The patterns without those that a more specific or more confident one contradicts."""
    chosen: list[Pattern] = []
    for pattern in sorted(patterns, key=rank_key):
        if not any(contradict(pattern, other, advice) for other in chosen):
            chosen.append(pattern)
    return chosen


def rank_key(pattern: Pattern) -> tuple[float, float, float, str]:
    """A sort key: the more specific first, then the more confident."""
    return (-_SPECIFIC[pattern.scope], -pattern.confidence, -pattern.success_rate, pattern.name)


SHOWN = 500
"""Tokens of patterns in a context, at most."""
KNOWN = ".known"
"""The list of written files. A listed file that is missing was deleted by a person: do not learn it again."""
SURE = 0.3
"""The least confidence of a shown pattern, unless a person wrote it."""
PATIENCE = 5.0
"""Seconds to wait for another process that changes the library."""


class Library:
    """The patterns of one agent in one space. Files are read on demand.

    `above` are folders of wider scope, of which only patterns of scope `all` count. `systems` are the folders
    with `memory/advice.md`; links to runs are relative to `state`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agent: str = DEFAULT,
        above: Sequence[Path] = (),
        systems: Sequence[Path] = (),
        state: Path | None = None,
        fsync: bool = True,
    ) -> None:
        self.folder, self.agent, self.above, self.fsync = folder, agent, tuple(above), fsync
        self.systems = tuple(systems)
        self.state = state or state_of(folder.parent)
        self.faults: dict[Path, PatternError] = {}

    def all(self) -> list[Pattern]:
        """Every pattern of this folder, of any agent, by name; unreadable files are in `faults`."""
        return self._of(self.folder)

    def patterns(self) -> list[Pattern]:
        """The active patterns for this agent: its own, its space's, and those for all."""
        mine = [each for each in self.all() if each.scope != "agent" or each.agent == self.agent]
        wider = [each for place in self.above for each in self._of(place) if each.scope == "all"]
        names = {each.name for each in mine}
        return [each for each in (*mine, *(e for e in wider if e.name not in names)) if each.active]

    def get(self, name: str) -> Pattern | None:
        """One pattern of this folder; None if it is missing or unreadable."""
        return next((each for each in self.all() if each.name == name), None)

    def relevant(self, types: Iterable[str], tokens: int = SHOWN) -> list[Pattern]:
        """The patterns to show for these task types, best first, within a number of tokens.

        Patterns of the type `general` fit every task and come last. Contradictions are left out.
        """
        wanted = set(types)
        fitting = [each for each in self.patterns() if {GENERAL, *wanted} & {*each.types}]
        fitting = [each for each in fitting if each.fixed or each.confidence >= SURE]
        fitting = without_contradictions(fitting, advice_of(self.systems))
        fitting.sort(key=lambda each: (not wanted & {*each.types}, *rank_key(each)))
        shown: list[Pattern] = []
        left = tokens
        for pattern in fitting:
            if pattern.tokens <= left:
                shown.append(pattern)
                left -= pattern.tokens
        return shown

    def _of(self, folder: Path) -> list[Pattern]:
        patterns: list[Pattern] = []
        self.faults = {path: fault for path, fault in self.faults.items() if path.parent != folder}
        for path in sorted(folder.glob("*.md")):
            try:
                patterns.append(_read(path, found_files.version(path)))
            except PatternError as fault:
                self.faults[path] = fault
        return patterns

    def add(self, pattern: Pattern) -> Pattern | None:
        """Write a new file; returns the pattern with its final name.

        Returns None if a person deleted an equal pattern, unless a person adds it again.
        """
        with self._lock():
            deleted = self._deleted()
            if not pattern.fixed and {pattern.name, _mark(pattern)} & deleted:
                return None
            number = 0
            while True:
                number += 1
                name = pattern.name if number == 1 else f"{pattern.name[:56]}-{number}"
                path = self.folder / f"{name}.md"
                if name in deleted and not pattern.fixed:
                    continue
                if (existing := _read_or_none(path)) is not None and _mark(existing) == _mark(pattern):
                    return existing  # another process wrote it first
                added = replace(pattern, name=name, path=path, edited=False)
                text = write(added, self._up)
                parse(text, path)  # write only what can be read again
                with disk.writing_state(path), suppress(FileExistsError):
                    disk.create(path, text.encode("utf-8"))
                    path.chmod(0o644)
                    self._note({name: _mark(pattern)})
                    return added

    def update(self, name: str, *, person: bool = False, **changes: Any) -> Pattern:
        """Change fields of a pattern, keeping the other lines of its file; returns the result.

        The words of a pattern that a person wrote or corrected change only with `person`.
        """
        with self._lock():
            return self._update(name, changes, person)

    def _update(self, name: str, changes: Mapping[str, Any], person: bool = False) -> Pattern:
        path = self._path(name)
        text = text_of(path)
        before = parse(text, path)
        if before.fixed and not person:
            changes = {key: value for key, value in changes.items() if key not in WORDS[:3]}
        after = replace(before, **changes)
        if after != before:
            new = changed(text, before, after, self._up)
            parse(new, path)
            self._put(path, new)
        return after

    def delete(self, name: str, *, person: bool = False) -> Pattern | None:
        """Delete a pattern; returns it, or None if unreadable. With `person`, it is not learned again."""
        with self._lock():
            path = self._path(name)
            pattern = _read_or_none(path)
            self._note({name: (_mark(pattern) if pattern else "") if person else None})
            with disk.writing_state(path):
                disk.remove(path)
            return pattern

    def used(self, name: str, at: str, helped: bool | None = None, *, instead_of: bool | None = None) -> None:
        """Count one use of a pattern; `helped` is None if unknown.

        `instead_of` is the earlier count for the same attempt, which is replaced.
        """

        with self._lock():
            pattern = read(self._path(name))
            changes: dict[str, Any] = {"last_used": max(at, pattern.last_used)}
            for field, word in (("helpful", True), ("harmful", False)):
                more = (helped is word) - (instead_of is word)
                changes[field] = max(getattr(pattern, field) + more, 0)
            if helped:
                changes["agents"] = tuple(sorted({*pattern.agents, self.agent}))
            self._update(name, changes)

    @property
    def _up(self) -> str:
        return os.path.relpath(self.state, self.folder).replace(os.sep, "/") + "/"

    def _path(self, name: str) -> Path:
        path = self.folder / f"{name}.md"
        if path.parent != self.folder or not path.is_file():
            available = ", ".join(each.stem for each in sorted(self.folder.glob("*.md"))[:8]) or "none yet"
            raise UsageError(f"there is no pattern {name}; available: {available}")
        return path

    def _lock(self) -> AbstractContextManager[None]:
        """Lock the library against other processes."""
        busy = StorageError(
            f"{self.folder}: another process has been changing the patterns for {PATIENCE:.0f} seconds; "
            "try again"
        )
        return locks.lock(self.folder / ".lock", PATIENCE, lambda: busy)

    def _written(self) -> dict[str, str]:
        """The names of written files, each with the fingerprint of its advice."""
        try:
            lines = (self.folder / KNOWN).read_text("utf-8", "replace").splitlines()
        except OSError:
            return {}
        return {name: mark for name, _, mark in (line.partition(" ") for line in lines) if name}

    def _deleted(self) -> set[str]:
        """Names and fingerprints of files that a person deleted."""
        missing = {n: m for n, m in self._written().items() if not (self.folder / f"{n}.md").exists()}
        return {*missing, *missing.values()} - {""}

    def _note(self, marks: dict[str, str | None]) -> None:
        """Add names to the list of written files, or remove them (None)."""
        written = {name: mark for name, mark in {**self._written(), **marks}.items() if mark is not None}
        text = "".join(f"{name} {mark}\n" for name, mark in sorted(written.items()))
        self._put(self.folder / KNOWN, text)

    def _put(self, path: Path, text: str) -> None:
        with disk.writing_state(path):
            disk.put(path, text.encode("utf-8"), fsync=self.fsync)


@lru_cache(1_000)
def _read(path: Path, version: tuple[int, int] | None) -> Pattern:
    return read(path)


def _read_or_none(path: Path) -> Pattern | None:
    with suppress(PatternError):
        return read(path)
    return None


def _mark(pattern: Pattern) -> str:
    """The fingerprint of a pattern's rule or guidance."""
    return fingerprint(pattern.rule or " ".join(pattern.guidance.lower().split()))
