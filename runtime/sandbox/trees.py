"""Contents of snapshots, and differences between two."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field

from kernel.errors import OperationFailed
from runtime.sandbox.repository import Shadow, names

LARGEST = 20_000_000
"""Bytes of the largest file that is stored."""
FOLDER, LINK = stat.S_IFDIR, stat.S_IFLNK
_MODES = ("100644", "100755", "120000")
"""What git's trees say of a file, a program and a link."""
NOTES_KEPT = 8
"""Snapshots whose notes are kept in memory."""
FEW = 500
"""Most paths that git is asked for by name; for more, the whole tree is listed."""


class NotKept(OperationFailed):
    """The folder cannot be stored."""


@dataclass(frozen=True)
class State:
    """The state of a path: its mode from `stat`, and the id of its bytes."""

    mode: int
    oid: str = ""  # a git blob; "" of a folder; "size time" of files that are not stored

    @property
    def kept(self) -> bool:
        """Whether it can be restored."""
        return stat.S_ISDIR(self.mode) or len(self.oid) == 40


def is_folder(state: State | None) -> bool:
    """Whether there is a folder at a path with this state."""
    return state is not None and stat.S_ISDIR(state.mode)


Moved = tuple[State | None, State | None]
"""What was at a path before, and what is there after."""


@dataclass
class Notes:
    """What git's trees cannot record."""

    base: int = 0o644  # of a file that is not listed in `modes`; with the bits to execute: of a program
    modes: dict[str, int] = field(default_factory=dict[str, int])
    folders: dict[str, int] = field(default_factory=dict[str, int])
    large: dict[str, list[int]] = field(default_factory=dict[str, list[int]])  # mode, size, time in ns
    young: list[str] = field(default_factory=list[str])  # changed so lately that git may miss a mode

    def mode(self, path: str, program: bool) -> int:
        """The mode of a file."""
        usual = self.base | (self.base & 0o444) >> 2 if program else self.base
        return stat.S_IFREG | self.modes.get(path, usual)

    def as_json(self) -> bytes:
        """The stored form."""
        return json.dumps({**vars(self), "young": []}, sort_keys=True).encode()

    def has(self, path: str, mode: int) -> bool:
        """Whether this is the recorded mode of a file."""
        return stat.S_IFREG | mode == self.mode(path, bool(mode & 0o100))


class Trees:
    """The snapshots in a repository: git's trees, or lists where there is no git.

    What git has told of an object once is kept: an object never changes.
    """

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self._notes: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._compared: dict[tuple[str, str], dict[str, Moved]] = {}  # the last two snapshots

    def store(self, files: str, notes: bytes) -> str:
        """Store a snapshot of a tree of files and its notes; returns its id."""
        note = bytes.fromhex(self.shadow.store("blob", notes))
        entries = b"40000 files\0" + bytes.fromhex(files) + b"100644 notes\0" + note
        tree = self.shadow.store("tree", entries)
        self._keep_notes(tree, notes)
        return tree

    def _keep_notes(self, tree: str, notes: bytes) -> None:
        self._notes[tree] = notes
        for old in list(self._notes)[:-NOTES_KEPT]:
            self._notes.pop(old, None)

    def changes(self, before: str, after: str) -> dict[str, Moved]:
        """Differences between two snapshots, by path. Raises `NotKept` if one is deleted."""
        if before == after:
            return {}
        if (before, after) not in self._compared:
            self._compared = {(before, after): self._changes(before, after)}
        return dict(self._compared[before, after])

    def _changes(self, before: str, after: str) -> dict[str, Moved]:
        was, now = self.notes(before), self.notes(after)
        old, new = _noted(was), _noted(now)
        paths = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        stored: list[str] = []
        if not _listed(before):
            words = ("diff-tree", "-r", "-z", "--no-renames", *(f"{tree}:files" for tree in (before, after)))
            try:
                told = names(self.shadow.run(*words))
            except subprocess.SubprocessError:
                raise self._lost() from None
            for facts, path in zip(told[::2], told[1::2], strict=True):
                mode, mode_now, oid, oid_now, _ = facts.removeprefix(":").split(" ")
                stored.append(path)
                for states, notes, kind, each in ((old, was, mode, oid), (new, now, mode_now, oid_now)):
                    if kind in _MODES:
                        states[path] = _stored(path, notes, kind, each)
        moded = {path for path in {**was.modes, **now.modes} if was.modes.get(path) != now.modes.get(path)}
        if alike := moded.difference(stored):  # the same bytes with another mode
            old.update(self._states(before, was, alike))
            new.update(self._states(after, now, alike))
        return {
            path: (old.get(path), new.get(path)) for path in dict.fromkeys([*stored, *sorted(alike), *paths])
        }

    def states(self, tree: str, paths: Collection[str] | None = None) -> dict[str, State]:
        """States of these paths (None: all) in a snapshot; absent paths are omitted."""
        found = self._states(tree, self.notes(tree), paths)
        return found if paths is None else {path: found[path] for path in paths if path in found}

    def _states(self, tree: str, notes: Notes, paths: Collection[str] | None) -> dict[str, State]:
        """States of at least these paths."""
        if paths is not None and not paths:
            return {}
        found = _noted(notes)
        if _listed(tree):
            return found
        few = paths if paths and len(paths) <= FEW else ()
        listed = self.shadow.run("ls-tree", "-z", *([] if few else ["-r"]), f"{tree}:files", "--", *few)
        for line in names(listed):
            facts, _, path = line.partition("\t")
            mode, kind, oid = facts.split(" ")
            if kind == "blob":
                found[path] = _stored(path, notes, mode, oid)
        return found

    def bytes_of(self, oids: Collection[str], largest: int = LARGEST) -> dict[str, bytes]:
        """The stored bytes of objects up to the size `largest`."""
        small = [oid for oid, size in self.sizes(oids).items() if size <= largest]
        if not small:
            return {}
        raw = self.shadow.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in small).encode())
        found: dict[str, bytes] = {}
        at = 0
        while at < len(raw):
            end = raw.index(b"\n", at)
            oid, _, size = raw[at:end].decode().split(" ")
            at = end + 1 + int(size) + 1
            found[oid] = raw[end + 1 : at - 1]
        return found

    def sizes(self, oids: Collection[str]) -> dict[str, int]:
        """The size in bytes of each stored object."""
        asked = dict.fromkeys(oids)
        if request := "".join(f"{oid}\n" for oid in asked if oid not in self._sizes).encode():
            sizes = self.shadow.run("cat-file", "--batch-check", stdin=request).decode().splitlines()
            lines = [line.split(" ") for line in sizes]
            self._sizes |= {line[0]: int(line[2]) for line in lines if line[1] == "blob"}
        return {oid: self._sizes[oid] for oid in asked if oid in self._sizes}

    def notes(self, tree: str) -> Notes:
        """What git's tree of a snapshot cannot record. Raises `NotKept` if it is deleted."""
        try:
            if _listed(tree):
                return Notes(large=json.loads((self.shadow.home / f"{tree}.json").read_bytes()))
            raw = self._notes.get(tree)
            if raw is None:
                raw = self.shadow.run("cat-file", "blob", f"{tree}:notes")
                self._keep_notes(tree, raw)
            return Notes(**json.loads(raw))
        except (OSError, subprocess.SubprocessError, ValueError, TypeError):
            raise self._lost() from None

    def _lost(self) -> NotKept:
        folder = self.shadow.folder
        return NotKept(f"what {folder} held then is not kept any more (`fractal gc` lets go of old runs)")


def _noted(notes: Notes) -> dict[str, State]:
    """The states that git's trees cannot record, by path."""
    found = {path: State(FOLDER | mode) for path, mode in notes.folders.items()}
    for path, (mode, size, time) in notes.large.items():
        found[path] = State(mode) if stat.S_ISDIR(mode) else State(mode, f"{size} {time}")
    return found


def _stored(path: str, notes: Notes, mode: str, oid: str) -> State:
    """The state of a file or link with the mode that git's tree has."""
    return State(LINK if mode == "120000" else notes.mode(path, mode == "100755"), oid)


def _listed(tree: str) -> bool:
    """Whether a snapshot was taken without git: a list of modes, sizes and times."""
    return tree.startswith("list-")
