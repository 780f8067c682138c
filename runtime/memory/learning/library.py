"""The learned patterns of a space: a folder of markdown files, and those of wider scope from elsewhere.

Every change is small: a file that is added, some of its lines, or a file that is taken away.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel import disk, turns
from kernel.errors import StorageError, UsageError
from kernel.text import fingerprint
from runtime.memory.learning.conflicts import advice_of, settled, worth
from runtime.memory.learning.patterns import (
    DEFAULT,
    GENERAL,
    WORDS,
    Pattern,
    PatternError,
    changed,
    parse,
    read,
    write,
)
from runtime.places import state_of

SHOWN = 500
"""Tokens of patterns that a context shows at most."""
KNOWN = ".known"
"""Names of files that were written here: one that is gone was deleted by a person, and does not come back."""
SURE = 0.3
"""The confidence below which a pattern that no person wrote is not shown."""
PATIENCE = 5.0
"""Seconds to wait for another process that changes the library."""


class Library:
    """The patterns that one agent of one space goes by. Cheap to make: files are read when asked for.

    `above` are folders of wider scope: of what lies there, only patterns of scope `all` count. `systems` are
    folders of instructions, for the words of advice; `state` is what links to runs are relative to.
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
        self._read: dict[Path, tuple[tuple[int, int], Pattern]] = {}

    # ---- reading -----------------------------------------------------------------------------------------

    def all(self) -> list[Pattern]:
        """Every pattern of this folder, whoever's it is, by name; what cannot be read is told in `faults`."""
        return self._of(self.folder)

    def patterns(self) -> list[Pattern]:
        """Those that this agent goes by: its own, its space's, and those for all; off ones left out."""
        mine = [each for each in self.all() if each.scope != "agent" or each.agent == self.agent]
        wider = [each for place in self.above for each in self._of(place) if each.scope == "all"]
        names = {each.name for each in mine}
        return [each for each in (*mine, *(e for e in wider if e.name not in names)) if each.active]

    def get(self, name: str) -> Pattern | None:
        """One pattern of this folder; None where there is none, or none that can be read."""
        return next((each for each in self.all() if each.name == name), None)

    def relevant(self, types: Iterable[str], tokens: int = SHOWN) -> list[Pattern]:
        """What is to be shown for tasks of these types, the surest first, within so many tokens.

        Of two that contradict each other the more specific one stays: the agent's before the space's before
        everybody's, then the surer one. A pattern of the type `general` is for every task, after the others.
        """
        wanted = set(types)
        fitting = [each for each in self.patterns() if {GENERAL, *wanted} & {*each.types}]
        fitting = [each for each in fitting if each.fixed or each.confidence >= SURE]
        fitting = settled(fitting, advice_of(self.systems))
        fitting.sort(key=lambda each: (not wanted & {*each.types}, *worth(each)))
        found: list[Pattern] = []
        left = tokens
        for each in fitting:
            if each.tokens <= left:
                found.append(each)
                left -= each.tokens
        return found

    def told(self, types: Iterable[str], tokens: int = SHOWN) -> str:
        """The same as a prompt has it, a line each with where it came from; "" where there is none."""
        return "\n".join(each.shown() for each in self.relevant(types, tokens))

    def _of(self, folder: Path) -> list[Pattern]:
        found: list[Pattern] = []
        self.faults = {path: fault for path, fault in self.faults.items() if path.parent != folder}
        for path in sorted(folder.glob("*.md")):
            try:
                found.append(self._kept(path))
            except PatternError as fault:
                self.faults[path] = fault
        return found

    def _kept(self, path: Path) -> Pattern:
        with suppress(OSError):
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size)
            known = self._read.get(path)
            if known and known[0] == mark:
                return known[1]
            pattern = read(path)
            self._read[path] = (mark, pattern)
            return pattern
        return read(path)  # which says what is wrong

    # ---- writing -----------------------------------------------------------------------------------------

    def add(self, pattern: Pattern) -> Pattern | None:
        """A new file; returns the pattern under the name that it got.

        None: a person deleted what says the same, so it is not learned again. What a person adds is.
        """
        with self._held():
            gone = self._deleted()
            if not pattern.fixed and {pattern.name, _mark(pattern)} & gone:
                return None
            number = 1
            while True:
                name = pattern.name if number == 1 else f"{pattern.name[:56]}-{number}"
                number += 1
                added = replace(pattern, name=name, path=self.folder / f"{name}.md", edited=False)
                assert added.path
                if name in gone and not pattern.fixed:
                    continue
                if (there := _said_in(added.path)) is not None and _mark(there) == _mark(pattern):
                    return there  # another process was quicker
                text = write(added, self._up)
                parse(text, added.path)  # what could not be read again is not written
                with disk.of_the_state(added.path), suppress(FileExistsError):
                    disk.create(added.path, text.encode("utf-8"))
                    added.path.chmod(0o644)
                    self._note({name: _mark(pattern)})
                    return added

    def update(self, name: str, *, person: bool = False, **changes: Any) -> Pattern:
        """Change fields of a pattern; only the lines concerned are written. Returns it as it is then.

        The words of one that a person wrote or corrected change only where a `person` says so.
        """
        return self._update(name, lambda _: changes, person=person)

    def _update(
        self, name: str, change: Callable[[Pattern], Mapping[str, Any]], *, person: bool = False
    ) -> Pattern:
        with self._held():
            path = self._path(name)
            text = _text(path)
            before = parse(text, path)
            changes = change(before)
            if before.fixed and not person:
                changes = {key: value for key, value in changes.items() if key not in WORDS[:3]}
            after = replace(before, **changes)
            if after == before:
                return before
            new = changed(text, before, after, self._up)
            parse(new, path)
            with disk.of_the_state(path):
                disk.put(path, new.encode("utf-8"), fsync=self.fsync)
            return after

    def delete(self, name: str, *, person: bool = False) -> Pattern | None:
        """Take a pattern away; returns what it was. When a `person` does, it is not learned again."""
        with self._held():
            path = self._path(name)
            with suppress(PatternError):
                found = read(path)
                self._note({name: _mark(found) if person else None})
                disk.remove(path)
                return found
            self._note({name: "" if person else None})
            with disk.of_the_state(path):
                disk.remove(path)
            return None

    def used(self, name: str, at: str, helped: bool | None = None, *, instead_of: bool | None = None) -> None:
        """Count that a pattern was shown at a time, and whether it helped: None where nobody can tell.

        `instead_of` is what was counted for the same attempt before.
        """

        def count(found: Pattern) -> Mapping[str, Any]:
            changes: dict[str, Any] = {"last_used": max(at, found.last_used)}
            for field, word in (("helpful", True), ("harmful", False)):
                more = (helped is word) - (instead_of is word)
                changes[field] = max(getattr(found, field) + more, 0)
            if helped:
                changes["agents"] = tuple(sorted({*found.agents, self.agent}))
            return changes

        self._update(name, count)

    @property
    def _up(self) -> str:
        return os.path.relpath(self.state, self.folder).replace(os.sep, "/") + "/"

    def _path(self, name: str) -> Path:
        path = self.folder / f"{name}.md"
        if path.parent != self.folder or not path.is_file():
            there = ", ".join(each.stem for each in sorted(self.folder.glob("*.md"))[:8]) or "none yet"
            raise UsageError(f"there is no pattern {name}; there are: {there}")
        return path

    @contextmanager
    def _held(self) -> Generator[None]:
        """No other process changes the library meanwhile; the lock dies with its process."""
        busy = StorageError(
            f"{self.folder}: another process has been changing the patterns for {PATIENCE:.0f} seconds; "
            "try again"
        )
        with turns.alone(self.folder / ".lock", PATIENCE, lambda: busy):
            yield

    def _written(self) -> dict[str, str]:
        """The names that were written here, each with the mark of what it said."""
        try:
            lines = (self.folder / KNOWN).read_text("utf-8", "replace").splitlines()
        except OSError:
            return {}
        return {name: mark for name, _, mark in (line.partition(" ") for line in lines) if name}

    def _deleted(self) -> set[str]:
        """Names and marks of files that a person took away."""
        gone = {n: m for n, m in self._written().items() if not (self.folder / f"{n}.md").exists()}
        return {*gone, *gone.values()} - {""}

    def _note(self, marks: dict[str, str | None]) -> None:
        """Note names that were written, or (with None) that are no longer known."""
        known = {name: mark for name, mark in {**self._written(), **marks}.items() if mark is not None}
        text = "".join(f"{name} {mark}\n" for name, mark in sorted(known.items()))
        path = self.folder / KNOWN
        with disk.of_the_state(path):
            disk.put(path, text.encode("utf-8"), fsync=self.fsync)


def _said_in(path: Path) -> Pattern | None:
    with suppress(PatternError):
        return read(path)
    return None


def _mark(pattern: Pattern) -> str:
    """What a pattern says, for telling that another says the same."""
    return fingerprint(pattern.rule or " ".join(pattern.guidance.lower().split()))


def _text(path: Path) -> str:
    read(path)  # says what is wrong with it
    return path.read_text("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
