"""Before-images of what a dream changes: rows and files, one JSON-lines file for each dream, append-only.

A line holds what a thing was before, and a hash of what it became. Lines count only if the store says that
their part was committed; what a killed process left besides is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import StorageError
from runtime.memory.brain import Brain
from runtime.memory.dream.stage import Dreamt
from runtime.memory.store.record import Row
from runtime.memory.store.shelf import Keeper
from runtime.memory.tasks.types import Stamp
from runtime.workspace.workspace import DEFAULT, space_of, state_of

FOLDER = "archive"
FILES = ("methods", "patterns")
"""Folders of markdown beside the store that stages may write to."""
LARGEST = 4_000_000
"""Bytes of a file that is archived; methods and patterns are smaller."""
BEGUN = "begun.json"
"""The stage in progress, and the files as they were when it began."""
UNDOING = "undoing.json"
"""The undo in progress: what each file is, and what it should become."""


@dataclass(frozen=True)
class Kept:
    """A row or a file before a part of a dream, and the hash of what it became ("": deleted)."""

    part: str
    before: Row | bytes | None
    after: str
    kind: str = ""  # of a row
    id: str = ""
    file: str = ""  # relative to the memory's folder

    @property
    def was(self) -> str:
        """The hash of `before`."""
        return mark(self.before)

    @property
    def name(self) -> str:
        """For people."""
        return self.file or f"{self.kind} {self.id}"


def mark(thing: Row | bytes | None) -> str:
    """A hash of a row or of a file; "" for none."""
    if thing is None:
        return ""
    if isinstance(thing, bytes):
        return hashlib.sha256(thing).hexdigest()[:32]
    try:  # stores of files write JSON their own way
        body = json.dumps(json.loads(thing.body), sort_keys=True)
    except (ValueError, RecursionError):
        body = thing.body
    whole = hashlib.sha256(body.encode("utf-8", "surrogatepass"))
    for name, raw in sorted(thing.vectors.items()):
        whole.update(b"\0" + name.encode("utf-8", "surrogatepass") + b"\0" + raw)
    return whole.hexdigest()[:32]


class Noting:
    """A keeper in front of the real one that remembers rows before they are written or erased."""

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
        self.before.update(((kind, id), there.get(id)) for id in new)

    def changed(self, part: str) -> list[Kept]:
        """The rows that differ from what they were."""
        now = marks(self.inner, self.before)
        found = (Kept(part, row, now[key], *key) for key, row in self.before.items())
        return [each for each in found if each.was != each.after]


def marks(keeper: Keeper, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By kind and id, the hashes of rows as they are now."""
    of: dict[str, list[str]] = {}
    for kind, id in keys:
        of.setdefault(kind, []).append(id)
    rows = {kind: keeper.read(kind, ids) for kind, ids in of.items()}
    return {(kind, id): mark(rows[kind].get(id)) for kind, ids in of.items() for id in ids}


class Archive:
    """The before-images of one memory's dreams, `archive/DREAM.jsonl`, and its files of markdown."""

    def __init__(self, memory: Path, *, fsync: bool = True) -> None:
        self.memory, self.folder, self._fsync = memory, memory / FOLDER, fsync

    def path(self, dream: str) -> Path:
        """The file of a dream."""
        return self.folder / f"{dream}.jsonl"

    def add(self, dream: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append lines, durably; a torn line of a killed process is ended first."""
        if not lines:
            return
        path = self.path(dream)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with disk.of_the_state(path):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                disk.put(path, b"", mode=0o600, fsync=self._fsync)
            if _torn(path):
                text = f"\n{text}"
            disk.append(path, text.encode(), fsync=self._fsync)

    def keep(self, dream: str, changed: Sequence[Kept]) -> None:
        """Append before-images."""
        self.add(dream, [_to_line(each) for each in changed])

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

    def kept(self, dream: Dreamt) -> list[Kept]:
        """The before-images of its committed parts, the latest first."""
        parts = {each.part for each in dream.stages.values()}
        lines = (line for line in self.lines(dream.id) if line.get("part") in parts and "after" in line)
        return [_from_line(line) for line in lines][::-1]

    # ---- files -------------------------------------------------------------------------------------------

    def seen(self) -> dict[str, bytes]:
        """The markdown files that stages may write to, as they are: its own, and patterns shared by all."""
        shared = space_of(state_of(self.memory), DEFAULT)
        others = [] if shared == self.memory else [shared / "patterns"]
        found: dict[str, bytes] = {}
        for root in (*(self.memory / name for name in FILES), *others):
            for path in sorted(root.rglob("*.md")) if root.is_dir() else ():
                try:
                    if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                        name = Path(os.path.relpath(path, self.memory)).as_posix()
                        found[name] = path.read_bytes()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    message = f"{path}: cannot be read: {error.strerror}; fix the cause and retry"
                    raise StorageError(message) from error
        return found

    def read(self, file: str) -> bytes | None:
        """One of them; None if it does not exist."""
        try:
            return (self.memory / file).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def put_back(self, file: str, raw: bytes | None) -> None:
        """Restore a file; None removes it."""
        path = self.memory / file
        with disk.of_the_state(path):
            if raw is None:
                disk.remove(path)
            else:
                disk.put(path, raw, fsync=self._fsync)

    # ---- a stage that may be killed ----------------------------------------------------------------------

    def begin(self, dream: str, part: str, files: Mapping[str, bytes]) -> None:
        """Before a stage begins: store the files that it might change, each content once a dream."""
        held = {line["held"] for line in self.lines(dream) if "held" in line} if files else set[str]()
        new = {mark(raw): raw for raw in files.values()}
        self.add(dream, [_held(raw) for sha, raw in new.items() if sha not in held])
        self._write(
            BEGUN, {"dream": dream, "part": part, "files": {name: mark(raw) for name, raw in files.items()}}
        )

    def end(self) -> None:
        """The stage was committed, or everything that it did was undone."""
        self._remove(BEGUN)

    def recover(self, brain: Brain) -> list[str]:
        """Restore files that a killed process changed in an uncommitted stage; returns their names."""
        begun = self._read(BEGUN)
        if begun is None:
            return []
        known = brain.shelf.get(Dreamt, begun["dream"])
        restored: list[str] = []
        if begun["part"] not in {each.part for each in (known.stages if known else {}).values()}:
            held = {
                line["held"]: b64decode(line["raw"]) for line in self.lines(begun["dream"]) if "held" in line
            }
            files = {name: held[sha] for name, sha in begun["files"].items() if sha in held}
            restored = self.restore(begun["dream"], files)
        self.end()
        return restored

    def restore(self, dream: str, files: Mapping[str, bytes]) -> list[str]:
        """Make the files what they were; what they are now is archived, too. Returns what differed."""
        now = self.seen()
        wrong = [name for name in sorted({*now, *files}) if now.get(name) != files.get(name)]
        self.add(dream, [{**_held(now[name]), "aside": name} for name in wrong if name in now])
        for name in wrong:
            self.put_back(name, files.get(name))
        return wrong

    def changed_files(self, part: str, before: Mapping[str, bytes]) -> list[Kept]:
        """Before-images of the files that differ now."""
        now = self.seen()
        names = [name for name in sorted({*now, *before}) if now.get(name) != before.get(name)]
        return [Kept(part, before.get(name), mark(now.get(name)), file=name) for name in names]

    def _write(self, name: str, told: Any) -> None:
        path = self.folder / name
        with disk.of_the_state(path):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            disk.put(path, json.dumps(told).encode(), mode=0o600, fsync=self._fsync)

    def _remove(self, name: str) -> None:
        with disk.of_the_state(self.folder / name):
            disk.remove(self.folder / name)

    def _read(self, name: str) -> Any:
        try:
            return json.loads(self.read(f"{FOLDER}/{name}") or b"null")
        except ValueError:
            return None

    # ---- undo --------------------------------------------------------------------------------------------

    def take_back(self, brain: Brain, dream: Dreamt) -> Undone:
        """Restore what a dream changed, but for what others changed since.

        The plan for files is stored first, so that a killed undo can be finished; all rows are restored in
        one transaction, together with the record of the dream.
        """
        now: dict[str, str] = {}
        goal: dict[str, bytes | None] = {}
        left: list[str] = []
        for each in self.kept(dream):
            if each.file and each.file not in left:
                assert not isinstance(each.before, Row)
                if now.setdefault(each.file, mark(self.read(each.file))) != each.after:
                    left.append(each.file)
                else:
                    now[each.file], goal[each.file] = each.was, each.before
        files = [[name, mark(self.read(name)), _encoded(raw)] for name, raw in goal.items()]
        self._write(UNDOING, {"dream": dream.id, "files": files, "left": left})
        undone = self.finish_undo(brain)
        assert undone is not None
        return undone

    def finish_undo(self, brain: Brain) -> Undone | None:
        """Finish an undo that was begun; None if there is none."""
        plan = self._read(UNDOING)
        if plan is None:
            return None
        try:
            count, left = 0, list(plan["left"])
            for name, expected, raw in plan["files"]:
                goal = None if raw is None else b64decode(raw)
                now = mark(self.read(name))
                if now not in (expected, mark(goal)):
                    left.append(name)
                    continue
                if now == expected:
                    self.put_back(name, goal)
                count += 1
            known, rows = brain.shelf.get(Dreamt, plan["dream"]), 0
            if known:
                rows, more = self._put_rows(brain, known)
                left += more
            self._remove(UNDOING)
            return Undone(plan["dream"], rows, count, tuple(left))
        finally:
            brain.refresh()

    def _put_rows(self, brain: Brain, dream: Dreamt) -> tuple[int, list[str]]:
        shelf, left = brain.shelf, list[str]()
        done: set[tuple[str, str]] = set()
        with shelf.transaction():
            kept = [each for each in self.kept(dream) if each.kind]
            now = marks(shelf.keeper, dict.fromkeys((each.kind, each.id) for each in kept))
            goal: dict[tuple[str, str], Row | None] = {}
            for each in kept:
                key = each.kind, each.id
                if now[key] == each.after:
                    assert not isinstance(each.before, bytes)
                    now[key], goal[key] = each.was, each.before
                    done.add(key)
                elif now[key] != each.was:  # else it is restored already
                    left.append(each.name)
            shelf.keeper.write([row for row in goal.values() if row is not None])
            for kind in dict.fromkeys(kind for kind, _ in goal):
                shelf.keeper.erase(kind, [id for (of, id), row in goal.items() if of == kind and row is None])
            shelf.delete(Dreamt, dream.id)
            if f"{Stamp.KIND} types" in left:  # tell other processes to read the types again
                left.remove(f"{Stamp.KIND} types")
                shelf.put(Stamp.another())
        return len(done), list(dict.fromkeys(left))


@dataclass(frozen=True)
class Undone:
    """What was restored, and what was left because others had changed it."""

    dream: str
    rows: int
    files: int
    left: tuple[str, ...] = ()


# ---- lines -----------------------------------------------------------------------------------------------


def _torn(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _encoded(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def _held(raw: bytes) -> dict[str, Any]:
    return {"held": mark(raw), "raw": _encoded(raw)}


def _to_line(kept: Kept) -> dict[str, Any]:
    place = {"file": kept.file} if kept.file else {"kind": kept.kind, "id": kept.id}
    told = {"part": kept.part, "after": kept.after, **place}
    if not isinstance(kept.before, Row):
        return {**told, "before": _encoded(kept.before)}
    vectors = {name: _encoded(raw) for name, raw in kept.before.vectors.items()}
    return {**told, "before": {"body": kept.before.body, "text": kept.before.text, "vectors": vectors}}


def _from_line(line: Mapping[str, Any]) -> Kept:
    before: Any = line.get("before")
    part, after = str(line["part"]), str(line["after"])
    if "file" in line:
        return Kept(part, None if before is None else b64decode(before), after, file=str(line["file"]))
    kind, id = str(line["kind"]), str(line["id"])
    if before is not None:
        vectors = {name: b64decode(raw) for name, raw in before["vectors"].items()}
        before = Row(kind, id, before["body"], before["text"], vectors)
    return Kept(part, before, after, kind, id)
