"""The history of the workspace's own `system/`: every change by a person or a run, and how to undo it.

`state/system/journal.jsonl` has one line per change, `blobs/` the contents of files, `known.json` the last
entry whose files are written and the marks of all files after it. A change is written in the order contents,
line, files; the next process that opens the journal finishes what a dead process began. A lock admits one
process at a time.
"""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import ConfigurationError, FractalError, RunLocked, UsageError
from kernel.events import now
from runtime import locks
from runtime.evolution.files import (
    EXECUTABLE,
    KEPT_BYTES,
    Blobs,
    File,
    content_of,
    mark_of,
    read,
    scan,
    unit_of,
)
from runtime.workspace import trust
from runtime.workspace.workspace import Workspace

PATIENCE = 20.0
"""Seconds to wait for another process; a change of the system takes milliseconds."""
SHOWN_BYTES = 1_000_000
"""A larger file is not compared line by line."""
PERSON, MACHINE = "person", "fractal"
LAST = "pattern.md"
"""Written last and removed first, so that a tool is found only while all its files are there."""
BUILDS = ("tools", "operations")
"""The unit of a proposal to build something."""
VERBS = {
    "edited": "changed",
    "admitted": "added",
    "restored": "made active again",
    "dropped": "dropped the proposal for",
    "rollback": "rolled back",
}
"""The kinds of entries whose verb is another word; its object is the unit."""
GRANTS = {"granted": ("to", "revoke"), "revoked": ("from", "grant")}
"""The kinds of entries about the tools that an agent knows, and the command that undoes each."""


@dataclass(frozen=True)
class Change:
    """One file of an entry: its marks before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    id: int
    time: str
    kind: str  # found, added, adopted, proposed, quarantined, retired, or one of VERBS
    unit: str  # what changed as a whole: a tool's folder, an operation's file, another file
    author: str  # person, fractal, or `run RUN`
    reason: str = ""
    files: tuple[Change, ...] = ()
    run: str = ""
    step: str = ""
    model: str = ""
    proposal: str = ""
    draft: str = ""  # the hash of the run's draft that it came from
    of: int = 0  # the entry that a rollback undoes
    agent: str = ""  # who built it, or whom a tool is granted to
    via: str = ""  # of a grant: teaching, escalation, design, person
    message: str = ""  # of a grant or revocation: the message that it records

    def as_dict(self) -> dict[str, Any]:
        """The entry as it is written, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value or name in ("id", "unit")}

    @staticmethod
    def read(line: bytes) -> Entry | None:
        """The entry of a line; None if the line is invalid."""
        try:
            values = json.loads(line)
            changes = tuple(Change(**each) for each in values.pop("files", ()))
            fields = {name: value for name, value in values.items() if name in Entry.__dataclass_fields__}
            return Entry(**fields, files=changes)
        except (ValueError, TypeError, AttributeError):
            return None

    def sentence(self) -> str:
        """The entry in a line, with the command that undoes it."""
        if self.kind == "proposed":
            does = f"builds a new {self.unit.removesuffix('s')}" if self.unit in BUILDS else "adopts it"
            return f"{self.reason}; `fractal system adopt {self.proposal}` {does}"
        if self.kind in GRANTS:
            word, back = GRANTS[self.kind]
            tool = self.unit.partition("/")[2]
            return (
                f"{self.kind} {tool} {word} agent {self.agent}; undo it: `fractal {back} {self.agent} {tool}`"
            )
        verb = VERBS.get(self.kind, self.kind)
        if self.unit in BUILDS:
            return f"{verb} {self.proposal}: {self.reason}"
        folder, _, name = self.unit.partition("/")
        unit = self.unit or "the system"
        if folder == "tools":
            unit = f"tool {name}"
        elif folder in ("operations", "kernel"):
            unit = f"operation {Path(name).stem}"
        why = f" ({self.reason})" if self.reason and self.author == MACHINE else ""
        return f"{verb} {unit}{why}; `fractal system rollback {self.id}` takes it back"


def marks_after(entries: Iterable[Entry]) -> dict[str, str]:
    """The marks of all files after these entries."""
    marks = {change.path: change.after for entry in entries for change in entry.files}
    return {name: mark for name, mark in marks.items() if mark}


class Journal:
    """The history of one workspace's own `system/`. Cheap to make: nothing is read before it is needed."""

    def __init__(
        self, workspace: Workspace, *, fsync: bool = True, on_entry: Callable[[Entry], None] = lambda _: None
    ) -> None:
        self.system = workspace.root / "system"
        self.folder = workspace.state / "system"
        self.path = self.folder / "journal.jsonl"
        self._cache_file = self.folder / "known.json"
        self.blobs = Blobs(self.folder / "blobs", fsync=fsync)
        self.shipped = workspace.shipped
        self._workspace = workspace
        self._fsync = fsync
        self._on_entry = on_entry

    def entries(self) -> list[Entry]:
        """All entries, oldest first; invalid and unfinished lines are skipped."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return []
        parsed = (Entry.read(line) for line in raw.split(b"\n")[:-1] if line.strip())
        return [entry for entry in parsed if entry]

    def entry(self, number: int) -> Entry:
        """The entry of that number. Raises `UsageError`."""
        entries = self.entries()
        if match := next((entry for entry in entries if entry.id == number), None):
            return match
        last = f"1 to {entries[-1].id}" if entries else "none yet"
        raise UsageError(f"the history of the system has no entry {number}; there are {last}")

    def about(self, name: str) -> list[Entry]:
        """The entries about a unit such as `tools/web` or `web`, each with only the unit's files."""

        def means(unit: str) -> bool:
            return name in (unit, unit.rpartition("/")[2], Path(unit).stem)

        matches: list[Entry] = []
        for entry in self.entries():
            parts = tuple(each for each in entry.files if means(each.path) or means(unit_of(each.path)))
            if parts or means(entry.unit):
                matches.append(entry if means(entry.unit) else replace(entry, files=parts))
        if not matches:
            raise UsageError(f"the history of the system has nothing about {name}; see `fractal system log`")
        return matches

    def diff(self, entry: Entry) -> str:
        """What an entry changed, as a unified diff."""
        texts: list[str] = []
        for change in entry.files:
            try:
                before, after = self.blobs.file(change.before), self.blobs.file(change.after)
                texts.append(difference(change.path, before, after))
            except FractalError as error:
                texts.append(f"--- {change.path}\n({error})")
        return "\n".join(texts)

    def notice(self) -> list[Entry]:
        """Finish what a dead process began, then record what a person has changed since the last look.

        Creates nothing if the workspace has neither a system of its own nor a history.
        """
        if not self.system.is_dir() and not self.folder.exists():
            return []
        with self.locked():
            return self._record_edits(self._finished())

    def change(
        self,
        kind: str,
        unit: str,
        files: Mapping[str, File | None],
        author: str,
        reason: str = "",
        **more: Any,
    ) -> Entry | None:
        """Write these files (None removes one); returns None if all of them have that content already.

        An entry without files records something else, such as a proposal. After a `StorageError` either
        nothing has changed, or the next opening finishes the change.
        """
        with self.locked():
            entries = self._finished()
            entries += self._record_edits(entries)
            marks = marks_after(entries)
            compared = [
                Change(name, marks.get(name, ""), file.mark if file else "") for name, file in files.items()
            ]
            changes = tuple(part for part in compared if part.before != part.after)
            if files and not changes:
                return None
            with disk.writing_state(self.blobs.folder):
                for part in changes:
                    if file := files[part.path]:
                        self.blobs.keep(file)
            entry = self._append(entries, Entry(0, now(), kind, unit, author, reason, changes, **more))
            self._apply(entry)
            self._save([*entries, entry])
            contents = {part.path: (content_of(part.before), content_of(part.after)) for part in changes}
            with suppress(ConfigurationError):  # if trust cannot be saved, the person is asked again
                trust.changed(self._workspace, contents)
            return entry

    def rollback(self, number: int, *, force: bool = False) -> Entry:
        """Restore the files as they were before an entry.

        Raises `UsageError` if later entries changed the same files, unless `force` is given.
        """
        self.notice()
        entry, entries = self.entry(number), self.entries()
        if entry.kind == "found":
            raise UsageError(f"entry {number} tells how the system was found; before it there was no history")
        if not entry.files:
            raise UsageError(f"entry {number} ({entry.kind}) changed no file")
        present = marks_after(entries)
        differing = [c.path for c in entry.files if present.get(c.path, "") != c.after]
        undone = all(present.get(c.path, "") == c.before for c in entry.files)
        if differing and not force and not undone:
            later = [
                f"entry {each.id} ({each.kind} by {each.author})"
                for each in entries
                if each.id > number and any(c.path in differing for c in each.files)
            ]
            raise UsageError(
                f"{', '.join(differing)} changed again after entry {number}: {', '.join(later)}; "
                f"roll these back first, or use --force to restore the files from before entry {number}"
            )
        back = {c.path: self.blobs.file(c.before) for c in entry.files}
        reverted = self.change("rollback", entry.unit, back, PERSON, f"entry {number} taken back", of=number)
        if reverted is None:
            raise UsageError(f"the files are already as they were before entry {number}")
        return reverted

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep other processes from reading or changing the history; the lock ends with its process."""
        self._workspace.make()
        busy = RunLocked(
            f"{self.folder}: another process has held the history of the system for {PATIENCE:g} s; "
            "try again when it has ended"
        )
        with locks.lock(self.folder / "lock", PATIENCE, lambda: busy):
            yield

    def _append(self, entries: Sequence[Entry], entry: Entry) -> Entry:
        """Write a line after those of `entries`."""
        entry = replace(entry, id=entries[-1].id + 1 if entries else 1)
        line = json.dumps(entry.as_dict()).encode() + b"\n"
        with disk.writing_state(self.path):
            if not self.path.exists():
                self._save(entries)  # after a crash it shows that the first line was not carried out
                disk.put(self.path, b"", mode=0o600, fsync=self._fsync)
            disk.append(self.path, line, fsync=self._fsync)
        self._on_entry(entry)
        return entry

    def _apply(self, entry: Entry) -> None:
        """Write the files of an entry; a file that a person has changed since stays as it is."""
        adds = any(change.after for change in entry.files)
        order = sorted(entry.files, key=lambda c: (c.path.endswith(LAST), c.path), reverse=not adds)
        for change in order:
            path = self.system / change.path

            def refuse(path: Path = path, before: str = change.before) -> None:
                if mark_of(path) != before:
                    raise disk.Changed(path)

            disk.sweep(path.parent, path.name)
            with suppress(disk.Changed), disk.writing_state(path):
                if content_of(mark_of(path)) == content_of(change.after) != "":  # written, the mode is not
                    _set_executable(path, change.after.endswith(EXECUTABLE))
                    continue
                refuse()
                self._put(path, self.blobs.file(change.after), refuse)

    def _put(self, path: Path, file: File | None, guard: Callable[[], None]) -> None:
        above = [folder for folder in path.parents if self.system in folder.parents]
        if file is None:
            disk.remove(path)
            for folder in above:
                with suppress(OSError):
                    folder.rmdir()  # only if it is empty
            return
        for folder in above:
            if folder.is_file():  # a file where a folder has to be
                disk.remove(folder)
        mode = 0o777 if file.executable else 0o666
        disk.put(path, file.raw, mode=mode, fsync=self._fsync, guard=guard)
        _set_executable(path, file.executable)

    def _record_edits(self, entries: Sequence[Entry]) -> list[Entry]:
        """Record what a person has changed: an entry per unit, the very first time one for all files."""
        marks = marks_after(entries)
        current = scan(self.system, marks)
        changed = sorted(name for name in marks | current if marks.get(name) != current.get(name))
        units: dict[str, list[Change]] = {}
        for name in changed:
            if name in current and (file := read(self.system / name, KEPT_BYTES)):
                current[name] = file.mark  # it may have changed again since the scan
                with disk.writing_state(self.blobs.folder):
                    self.blobs.keep(file, fsync=bool(entries))  # many at first, and all of them are in place
            unit = unit_of(name, current) if entries else ""
            units.setdefault(unit, []).append(Change(name, marks.get(name, ""), current.get(name, "")))
        kind, author, reason = "edited", PERSON, ""
        if not entries:
            kind, author, reason = "found", MACHINE, "the system as it was found"
        recorded: list[Entry] = []
        for unit, changes in units.items():
            entry = Entry(0, now(), kind, unit, author, reason, tuple(changes))
            recorded.append(self._append([*entries, *recorded], entry))
        if recorded:
            self._save([*entries, *recorded])
        return recorded

    def _finished(self) -> list[Entry]:
        """All entries, after what a dead process began is finished."""
        disk.sweep(self.folder)
        disk.sweep(self.blobs.folder)
        raw = self.path.read_bytes() if self.path.exists() else b""
        if raw and not raw.endswith(b"\n"):  # an unfinished last line
            with disk.writing_state(self.path):
                disk.cut(self.path, raw.rfind(b"\n") + 1)
        entries = self.entries()
        unfinished = [entry for entry in entries if entry.id > self._finished_id(entries)]
        for entry in unfinished:
            self._apply(entry)
        if unfinished:
            self._save(entries)
        return entries

    def _finished_id(self, entries: Sequence[Entry]) -> int:
        """The last entry whose files are written; if that is unknown, all are."""
        try:
            return int(json.loads(self._cache_file.read_bytes())["upto"])
        except (OSError, ValueError, TypeError, KeyError):
            return entries[-1].id if entries else 0

    def _save(self, entries: Sequence[Entry]) -> None:
        """Record that the files of these entries are written."""
        values = {"upto": entries[-1].id if entries else 0, "marks": marks_after(entries)}
        with disk.writing_state(self._cache_file):
            disk.put(self._cache_file, json.dumps(values).encode(), mode=0o600, fsync=self._fsync)


def difference(name: str, before: File | None, after: File | None) -> str:
    """Two contents of a file as a unified diff; "" if they are equal."""
    if before == after:
        return ""
    names = [name if each else "/dev/null" for each in (before, after)]
    head = f"--- {names[0]}\n+++ {names[1]}"
    try:
        old, new = (_lines(each) for each in (before, after))
    except ValueError:
        return f"--- {name}\n+++ {name}\n(not text, or too large to compare)"
    text = "\n".join(difflib.unified_diff(old, new, names[0], names[1], lineterm="")) or head
    if before and after and before.executable != after.executable:
        return f"{name}: is {'' if after.executable else 'not '}executable now\n{text}"
    return text


def _lines(file: File | None) -> list[str]:
    if file and len(file.raw) > SHOWN_BYTES:
        raise ValueError("too large to compare")
    return file.raw.decode("utf-8").splitlines() if file else []


def counts(diff: str) -> tuple[int, int]:
    """Lines that a unified diff adds and removes."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _set_executable(path: Path, executable: bool) -> None:
    """Make a file executable for everyone who may read it, or for nobody; durably."""
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
    if wanted != mode:
        os.chmod(path, wanted)  # noqa: PTH101
        disk.sync(path)
