"""The journal of the system: every change below the workspace's own `system/`, by the machine or a person.

`state/system/journal.jsonl` has a line for each change, `blobs/` what the files held, `known.json` how the
system's files looked when they were last seen. The order of a change is: contents, then its line, then the
files; whoever opens the journal next finishes what a dead process has begun. One process at a time is at it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel import disk, turns
from kernel.drafts import unit_of
from kernel.errors import ConfigurationError, RunLocked
from kernel.events import now
from kernel.workspace import Workspace
from runtime import trust
from runtime.building.contents import KEPT_BYTES, STARTABLE, Blobs, File, Seen, bare, look, mark_of, read

PATIENCE = 20.0
"""Seconds that another process is waited for: a change of the system takes milliseconds."""
PERSON, MACHINE = "person", "fractal"
LAST = "pattern.md"
"""Written last and removed first: a tool whose other files are not all there yet is not found."""


@dataclass(frozen=True)
class Change:
    """One file of an entry: what stood there before and after, as marks; "" where there was none."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    id: int
    time: str
    kind: str  # found, edited, added, admitted, adopted, proposed, quarantined, restored, retired, rollback
    unit: str
    author: str  # person, fractal, or `run RUN`
    reason: str = ""
    files: tuple[Change, ...] = ()
    run: str = ""
    step: str = ""
    model: str = ""
    proposal: str = ""
    draft: str = ""  # the hash of the run's draft that it came from
    of: int = 0  # the entry that a rollback takes back

    def as_dict(self) -> dict[str, Any]:
        """As it stands in the journal: what is empty is left out."""
        return {name: value for name, value in asdict(self).items() if value or name in ("id", "unit")}

    @staticmethod
    def read(line: bytes) -> Entry | None:
        """The entry of a line; None when it is none."""
        try:
            told = json.loads(line)
            files = tuple(Change(**each) for each in told.pop("files", ()))
            known = {name: value for name, value in told.items() if name in Entry.__dataclass_fields__}
            return Entry(**known, files=files)
        except (ValueError, TypeError, AttributeError):
            return None


@dataclass
class _Known:
    """How the system looked when it was last seen: by which entry, at which size of the journal."""

    upto: int = 0
    size: int = 0
    files: dict[str, Seen] = field(default_factory=dict[str, Seen])


class Journal:
    """The history of one workspace's own `system/`. Cheap to make: nothing is read before it is needed."""

    def __init__(
        self, workspace: Workspace, *, fsync: bool = True, told: Callable[[Entry], None] = lambda _: None
    ) -> None:
        self.system = workspace.root / "system"
        self.folder = workspace.state / "system"
        self.path = self.folder / "journal.jsonl"
        self.blobs = Blobs(self.folder / "blobs", fsync=fsync)
        self.shipped = workspace.shipped
        self._workspace = workspace
        self._fsync = fsync
        self._told = told

    # ---- reading ----

    def entries(self) -> list[Entry]:
        """All entries, oldest first; what a dead process left of a line is no entry."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return []
        found = (Entry.read(line) for line in raw.split(b"\n")[:-1] if line.strip())
        return [entry for entry in found if entry]

    # ---- writing ----

    def notice(self) -> list[Entry]:
        """Finish what a dead process has begun, and write down what a person has changed since the last look.

        Where there is neither a system of the workspace's own nor a history of one, nothing is made.
        """
        if not self.system.is_dir() and not self.folder.exists():
            return []
        with self.held():
            return self._caught_up(self._known())[1]

    def change(
        self,
        kind: str,
        unit: str,
        files: Mapping[str, File | None],
        author: str,
        reason: str = "",
        **more: Any,
    ) -> Entry | None:
        """Make a change: what each file is to hold (None: it is to be gone). None when all is so already.

        An entry without files tells of something else, such as a proposal. Raises `StorageError` with
        nothing changed, or with a change that the next opening finishes.
        """
        with self.held():
            known, _ = self._caught_up(self._known())
            marks = {name: file.mark if file else "" for name, file in files.items()}
            before = {name: known.files[name].mark if name in known.files else "" for name in files}
            changes = tuple(
                Change(name, before[name], mark) for name, mark in marks.items() if mark != before[name]
            )
            if files and not changes:
                return None
            with disk.of_the_state(self.blobs.folder):
                for change in changes:
                    if file := files[change.path]:
                        self.blobs.keep(file)
            entry = self._append(known, Entry(0, now(), kind, unit, author, reason, changes, **more))
            self._apply(entry)
            self._made(known, entry)
            self._save(known)
            marks_of = {each.path: (bare(each.before), bare(each.after)) for each in changes}
            with suppress(ConfigurationError):  # where it cannot be kept, the person is asked again
                trust.changed(self._workspace, marks_of)
            return entry

    @contextmanager
    def held(self) -> Generator[None]:
        """Nobody else reads or changes the history meanwhile; the lock dies with its process."""
        self._workspace.make()
        busy = RunLocked(
            f"{self.folder}: another process has held the history of the system for {PATIENCE:g} s; "
            "try again when it has ended"
        )
        with turns.alone(self.folder / "lock", PATIENCE, lambda: busy):
            yield

    def _append(self, known: _Known, entry: Entry) -> Entry:
        entry = replace(entry, id=known.upto + 1)
        line = json.dumps(entry.as_dict()).encode() + b"\n"
        with disk.of_the_state(self.path):
            if not self.path.exists():
                self._save(known)  # by this it is told whether what the first line says was done
                disk.put(self.path, b"", mode=0o600, fsync=self._fsync)
            known.size = disk.append(self.path, line, fsync=self._fsync)[1]
        known.upto = entry.id
        self._told(entry)
        return entry

    def _apply(self, entry: Entry) -> None:
        """Make the files what the entry says; one that a person has changed meanwhile stays theirs."""
        order = sorted(
            entry.files, key=lambda each: (each.path.endswith(LAST), each.path), reverse=not _adds(entry)
        )
        for change in order:
            path = self.system / change.path

            def refuse(path: Path = path, before: str = change.before) -> None:
                if mark_of(path) != before:
                    raise disk.Changed(path)

            disk.sweep(path.parent, path.name)
            with suppress(disk.Changed), disk.of_the_state(path):
                if bare(mark_of(path)) == bare(change.after) != "":  # written, and not yet made startable
                    disk.allow(path, change.after.endswith(STARTABLE))
                    continue
                refuse()
                self._put(path, self.blobs.file(change.after), refuse)

    def _put(self, path: Path, file: File | None, guard: Callable[[], None]) -> None:
        if file is None:
            disk.remove(path)
            for folder in path.parents:
                if folder == self.system:
                    break
                with suppress(OSError):
                    folder.rmdir()  # only one that is empty
            return
        for folder in path.parents:  # what stands where a folder has to be
            if folder == self.system:
                break
            if folder.is_file():
                disk.remove(folder)
        mode = 0o777 if file.executable else 0o666
        disk.put(path, file.raw, mode=mode, fsync=self._fsync, guard=guard)
        disk.allow(path, file.executable)

    # ---- what was seen ----

    def _known(self) -> _Known:
        """What was seen last; from the journal where that was lost. A torn last line is cut off."""
        disk.sweep(self.folder)
        disk.sweep(self.blobs.folder)
        size = _whole(self.path)
        known = self._stored()
        if known and known.size == size:
            return known
        entries = self.entries()
        last = entries[-1].id if entries else 0
        if known is None:
            known = _Known(last, size)
            for entry in entries:
                self._made(known, entry)
        for entry in entries:
            if entry.id > known.upto:  # its process died before it had made the change, or was done with it
                self._apply(entry)
                self._made(known, entry)
        known.upto, known.size = last, size
        return known

    def _made(self, known: _Known, entry: Entry) -> None:
        """What an entry has left in the files; what a person has put there meanwhile is noticed later."""
        for change in entry.files:
            if change.after:
                known.files[change.path] = Seen(change.after)
            else:
                known.files.pop(change.path, None)

    def _stored(self) -> _Known | None:
        try:
            told = json.loads((self.folder / "known.json").read_bytes())
            files = {name: Seen(*each) for name, each in told["files"].items()}
            return _Known(int(told["upto"]), int(told["size"]), files)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def _caught_up(self, known: _Known) -> tuple[_Known, list[Entry]]:
        """With what a person has changed: an entry for each unit, the very first time one for all."""
        found = look(self.system, known.files)
        if found == known.files:
            return known, []
        changes = (self._kept(name, known, found) for name in sorted(known.files | found))
        changed = [change for change in changes if change]
        entries: list[Entry] = []
        if changed and known.upto == 0:
            entries = [Entry(0, now(), "found", "", MACHINE, "the system as it was found", tuple(changed))]
        elif changed:
            units = _by_unit(changed, found).items()
            entries = [Entry(0, now(), "edited", unit, PERSON, "", files) for unit, files in units]
        written = [self._append(known, entry) for entry in entries]
        known.files = found
        self._save(known)
        return known, written

    def _kept(self, name: str, known: _Known, found: dict[str, Seen]) -> Change | None:
        """How a file differs from what is known of it, its new content kept."""
        before = known.files[name].mark if name in known.files else ""
        after = found[name].mark if name in found else ""
        if before == after:
            return None
        path = self.system / name
        if after and (file := read(path, KEPT_BYTES)):
            if file.mark != after:  # changed again between two looks
                after = file.mark
                found[name] = Seen(after)
            with disk.of_the_state(self.blobs.folder):
                self.blobs.keep(file, fsync=known.upto > 0)  # at first there are many, and all stand there
        return Change(name, before, after)

    def _save(self, known: _Known) -> None:
        files = {name: [s.mark, s.size, s.modified, s.changed] for name, s in known.files.items()}
        raw = json.dumps({"upto": known.upto, "size": known.size, "files": files}).encode()
        with disk.of_the_state(self.folder / "known.json"):
            disk.put(self.folder / "known.json", raw, mode=0o600, fsync=self._fsync)


def _adds(entry: Entry) -> bool:
    return any(change.after for change in entry.files)


def _by_unit(changes: Sequence[Change], found: Mapping[str, Seen]) -> dict[str, tuple[Change, ...]]:
    units: dict[str, tuple[Change, ...]] = {}
    for change in changes:
        unit = unit_named(change.path, found)
        units[unit] = (*units.get(unit, ()), change)
    return units


def unit_named(path: str, names: Mapping[str, Any]) -> str:
    """What is changed as a whole: a tool's folder; an operation's file with the program beside it; a file."""
    unit = unit_of(path)
    folder, _, name = unit.partition("/")
    beside = f"{folder}/{name.rpartition('.')[0]}.md"
    return beside if folder in ("operations", "kernel") and beside in names else unit


def _whole(path: Path) -> int:
    """The size of the journal without a line that was never finished, which is cut off."""
    try:
        raw = path.read_bytes() if not _ends(path) else None
    except FileNotFoundError:
        return 0
    if raw is None:
        return path.stat().st_size
    size = raw.rfind(b"\n") + 1
    with disk.of_the_state(path):
        disk.cut(path, size)
    return size


def _ends(path: Path) -> bool:
    """Whether the last line is finished."""
    with path.open("rb") as handle:
        if handle.seek(0, os.SEEK_END) == 0:
            return True
        handle.seek(-1, os.SEEK_END)
        return handle.read(1) == b"\n"
