"""What a dream changes is kept here first, as it was: rows and files, one file a dream, only added to.

A line tells how a thing was before, and by a hash how it was left. Lines count only where the store says that
their part was committed: what a killed process has left besides is passed over, and harms nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import StorageError
from runtime.places import DEFAULT, space_of, state_of
from runtime.store.record import Row
from runtime.store.shelf import Keeper

FOLDER = "archive"
FILES = ("methods", "patterns")
"""Folders of markdown beside the store that stages may write to."""
LARGEST = 4_000_000
"""Bytes of a file that is looked after; no method and no pattern has as many."""


@dataclass(frozen=True)
class Kept:
    """A row or a file as it was before a part of a dream, and what it was left as ("": not there)."""

    part: str
    before: Row | bytes | None
    after: str
    kind: str = ""  # of a row
    id: str = ""
    file: str = ""  # relative to the memory's folder

    @property
    def was(self) -> str:
        """The hash of what it was."""
        return mark(self.before)

    @property
    def name(self) -> str:
        """For people."""
        return self.file or f"{self.kind} {self.id}"


def mark(thing: Row | bytes | None) -> str:
    """A hash of a row or of a file; "" where there is none."""
    if thing is None:
        return ""
    if isinstance(thing, bytes):
        return hashlib.sha256(thing).hexdigest()[:32]
    whole = hashlib.sha256(_plain(thing.body).encode("utf-8", "surrogatepass"))
    for name, raw in sorted(thing.vectors.items()):
        whole.update(b"\0" + name.encode("utf-8", "surrogatepass") + b"\0" + raw)
    return whole.hexdigest()[:32]


def _plain(body: str) -> str:
    """The same for every store: those of files write JSON their own way."""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except (ValueError, RecursionError):
        return body


class Noting:
    """A keeper that notes how rows were before they are written or erased; it stands before the real one."""

    def __init__(self, inner: Keeper) -> None:
        self.inner = inner
        self.place = inner.place
        self.before: dict[tuple[str, str], Row | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, rows: Sequence[Row]) -> None:
        """Note, then write."""
        for kind in dict.fromkeys(row.kind for row in rows):
            self._note(kind, [row.id for row in rows if row.kind == kind])
        self.inner.write(rows)

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Note, then erase."""
        self._note(kind, ids)
        return self.inner.erase(kind, ids)

    def _note(self, kind: str, ids: Sequence[str]) -> None:
        new = [id for id in dict.fromkeys(ids) if (kind, id) not in self.before]
        there = self.inner.read(kind, new) if new else {}
        for id in new:
            self.before[kind, id] = there.get(id)

    def changed(self, part: str) -> list[Kept]:
        """The rows that are not as they were."""
        found: list[Kept] = []
        for kind in dict.fromkeys(kind for kind, _ in self.before):
            ids = [id for of, id in self.before if of == kind]
            now = self.inner.read(kind, ids)
            for id in ids:
                kept = Kept(part, self.before[kind, id], mark(now.get(id)), kind, id)
                if kept.was != kept.after:
                    found.append(kept)
        return found


class Archive:
    """The files of one memory's dreams: `archive/DREAM.jsonl`."""

    def __init__(self, memory: Path, *, fsync: bool = True) -> None:
        self.memory, self.folder, self._fsync = memory, memory / FOLDER, fsync

    def path(self, dream: str) -> Path:
        """Where a dream's lines lie."""
        return self.folder / f"{dream}.jsonl"

    def add(self, dream: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines, durably; what a torn line of a killed process left is ended first."""
        if not lines:
            return
        path = self.path(dream)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with disk.of_the_state(path):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                disk.put(path, b"", mode=0o600, fsync=self._fsync)
            start = "" if _ends_whole(path) else "\n"
            disk.append(path, (start + text).encode(), fsync=self._fsync)

    def lines(self, dream: str) -> Iterator[dict[str, Any]]:
        """The lines that are whole."""
        try:
            with self.path(dream).open("rb") as file:
                for raw in file:
                    try:
                        line = json.loads(raw)
                    except ValueError:
                        continue
                    if isinstance(line, dict):
                        yield line
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def kept(self, dream: str, parts: Sequence[str]) -> list[Kept]:
        """What was kept by these parts, in the order in which it was changed."""
        wanted = set(parts)
        return [
            from_line(line) for line in self.lines(dream) if line.get("part") in wanted and "after" in line
        ]

    def dreams(self) -> list[str]:
        """The dreams that have an archive."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl")) if self.folder.is_dir() else []

    # ---- files -------------------------------------------------------------------------------------------

    def roots(self) -> list[Path]:
        """The folders that stages may write to: its own, and for what holds for all the default space's."""
        everybodys = space_of(state_of(self.memory), DEFAULT)
        others = [] if everybodys == self.memory else [everybodys / "patterns"]
        return [*(self.memory / name for name in FILES), *others]

    def seen(self) -> dict[str, bytes]:
        """The markdown files that stages may write to, as they are now."""
        found: dict[str, bytes] = {}
        for root in self.roots():
            for path in sorted(root.rglob("*.md")) if root.is_dir() else ():
                try:
                    if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                        name = Path(os.path.relpath(path, self.memory)).as_posix()
                        found[name] = path.read_bytes()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise StorageError(
                        f"{path}: cannot be read: {error.strerror}; mend that first"
                    ) from error
        return found

    def read(self, file: str) -> bytes | None:
        """One of them, None where it is not there."""
        try:
            return (self.memory / file).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def write(self, name: str, raw: bytes) -> None:
        """A file of the archive itself, whole or not at all."""
        with disk.of_the_state(self.folder / name):
            disk.put(self.folder / name, raw, mode=0o600, fsync=self._fsync)

    def remove(self, name: str) -> None:
        """One of those away."""
        with disk.of_the_state(self.folder / name):
            disk.remove(self.folder / name)

    def put_back(self, file: str, raw: bytes | None) -> None:
        """Make a file what it was."""
        path = self.memory / file
        with disk.of_the_state(path):
            if raw is None:
                disk.remove(path)
            else:
                disk.put(path, raw, fsync=self._fsync)


def to_line(kept: Kept) -> dict[str, Any]:
    """As JSON has it."""
    told: dict[str, Any] = {"part": kept.part, "after": kept.after}
    if kept.file:
        assert not isinstance(kept.before, Row)
        raw = None if kept.before is None else b64encode(kept.before).decode()
        return {**told, "file": kept.file, "before": raw}
    told |= {"kind": kept.kind, "id": kept.id, "before": None}
    if isinstance(kept.before, Row):
        vectors = {name: b64encode(raw).decode() for name, raw in kept.before.vectors.items()}
        told["before"] = {"body": kept.before.body, "text": kept.before.text, "vectors": vectors}
    return told


def from_line(line: Mapping[str, Any]) -> Kept:
    """The same back."""
    before: Any = line.get("before")
    part, after = str(line["part"]), str(line["after"])
    if "file" in line:
        return Kept(part, None if before is None else b64decode(before), after, file=str(line["file"]))
    kind, id = str(line["kind"]), str(line["id"])
    if before is not None:
        vectors = {name: b64decode(raw) for name, raw in before["vectors"].items()}
        before = Row(kind, id, before["body"], before["text"], vectors)
    return Kept(part, before, after, kind, id)


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
