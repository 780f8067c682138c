"""Before-images of the rows and files that a dream changes, and undo.

A before-image is a record of the store, written in the transaction of its stage: it exists if and only if the
stage was committed. Files do not belong to a transaction. Their contents are recorded before a stage begins,
so that the next process restores them after a crash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import Field

from kernel import disk
from kernel.errors import StorageError, UsageError
from runtime.memory.brain import Brain
from runtime.memory.dream.reverting import became, release, reverted
from runtime.memory.dream.stages import DreamRecord
from runtime.memory.facts.records import Memory
from runtime.memory.store import Record, Shelf
from runtime.memory.store.record import Row
from runtime.memory.store.sqlite import SqliteKeeper
from runtime.memory.tasks.types import Stamp
from runtime.workspace.workspace import DEFAULT, space_of, state_of

FILES = ("methods", "patterns")
"""Folders of markdown beside the store that stages may write to."""
REPLACED = "archive"
"""The folder for files that were restored after a crash, as they were before that."""
LARGEST = 4_000_000
"""Bytes of a file that is archived; methods and patterns are smaller."""

Key = tuple[str, str]
"""Kind and id of a row; "" and the path of a file relative to the memory's folder."""
Change = tuple[Key, Row | str | None, Row | str | None]
"""What was changed, what it was, and what it became; None: it did not exist."""


class BeforeImage(Record):
    """A row or a file before a stage changed it. `vectors` are those of the row."""

    KIND: ClassVar[str] = "before-image"

    dream: str
    kind_of: str = ""
    name: str
    body: str | None = None  # of a row, or the content of a file; None: it did not exist
    after: str = ""  # the hash of what it became; "" if deleted
    became: str = ""  # the fields of a row that changed, as they became

    @property
    def key(self) -> Key:
        """What this is an image of."""
        return self.kind_of, self.name

    @property
    def before(self) -> Row | str | None:
        """The row, or the content of the file."""
        if self.body is None or not self.kind_of:
            return self.body
        return Row(*self.key, self.body, None, self.vectors)

    @property
    def hash_before(self) -> str:
        """The hash of what it was."""
        return hash_of(self.before)


class StageFiles(Record):
    """The files as they were when the stage in progress began; one record for each workspace."""

    KIND: ClassVar[str] = "dream-begun"

    files: dict[str, str] = Field(default_factory=dict[str, str])


@dataclass(frozen=True)
class UndoResult:
    """What was restored, and what was left because others had changed it."""

    dream: str
    rows: int
    files: int
    left: tuple[str, ...] = ()


def hash_of(content: Row | str | None) -> str:
    """A hash of a row or a file; "" for none."""
    if content is None:
        return ""
    if isinstance(content, str):
        return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:  # stores of files write JSON their own way
        body = json.dumps(json.loads(content.body), sort_keys=True)
    except (ValueError, RecursionError):
        body = content.body
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass"))
    for name, raw in sorted(content.vectors.items()):
        digest.update(b"\0" + name.encode("utf-8", "surrogatepass") + b"\0" + raw)
    return digest.hexdigest()[:32]


class RecordingKeeper:
    """A keeper in front of the real one that remembers rows before they are written or erased."""

    def __init__(self, inner: SqliteKeeper) -> None:
        self.inner = inner
        self.place = inner.place
        self.before: dict[Key, Row | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, rows: Sequence[Row]) -> None:
        """Note, then write."""
        self._note((row.kind, row.id) for row in rows)
        self.inner.write(rows)

    def erase(self, kind: str, ids: Sequence[str]) -> int:
        """Note, then erase."""
        self._note((kind, id) for id in ids)
        return self.inner.erase(kind, ids)

    def _note(self, keys: Iterable[Key]) -> None:
        self.before.update(_read(self.inner, [key for key in keys if key not in self.before]))

    def changed(self) -> list[Change]:
        """The rows that differ now."""
        now = _read(self.inner, self.before)
        changes = ((key, row, now[key]) for key, row in self.before.items())
        return [each for each in changes if hash_of(each[1]) != hash_of(each[2])]


@contextmanager
def recording(shelf: Shelf) -> Generator[RecordingKeeper]:
    """Note the rows that change inside; after an error the shelf has its own keeper again, too."""
    recorder = RecordingKeeper(shelf.keeper)
    shelf.keeper = cast(SqliteKeeper, recorder)
    try:
        yield recorder
    finally:
        shelf.keeper = recorder.inner


def _read(keeper: SqliteKeeper, keys: Iterable[Key]) -> dict[Key, Row | None]:
    """Rows as they are now; None for those that do not exist."""
    ids: dict[str, list[str]] = {}
    for kind, id in keys:
        ids.setdefault(kind, []).append(id)
    by_kind = {kind: keeper.read(kind, kind_ids) for kind, kind_ids in ids.items()}
    return {(kind, id): by_kind[kind].get(id) for kind, kind_ids in ids.items() for id in kind_ids}


class Archive:
    """The before-images in a brain's store, and the files of markdown in its folder."""

    def __init__(self, brain: Brain) -> None:
        self.brain, self.memory, self._fsync = brain, brain.settings.folder, brain.config.fsync

    @property
    def _stage(self) -> str:
        """The id of the record of files: those of another workspace are not restored here."""
        return "stage" + self.brain.shelf.keeper.here

    def files(self) -> dict[str, str]:
        """The markdown files that stages may write to: its own, and patterns shared by all."""
        shared = space_of(state_of(self.memory), DEFAULT)
        others = [] if shared == self.memory else [shared / "patterns"]
        contents: dict[str, str] = {}
        for root in (*(self.memory / name for name in FILES), *others):
            for path in sorted(root.rglob("*.md")):
                name = Path(os.path.relpath(path, self.memory)).as_posix()
                if not path.is_symlink() and (content := _content(path)) is not None:
                    contents[name] = content
        return contents

    def restore(self, files: Mapping[str, str]) -> list[str]:
        """Restore the files that differ, and copy what they are now; returns their names."""
        now = self.files()
        wrong = [name for name in sorted({*now, *files}) if now.get(name) != files.get(name)]
        for name in wrong:
            if name in now:
                copy = f"{Path(name).stem}-{hash_of(now[name])[:8]}.md"
                self._put(f"{REPLACED}/{copy}", now[name])
            self._put(name, files.get(name))
        return wrong

    def changed_files(self, before: Mapping[str, str]) -> list[Change]:
        """The files that differ now."""
        now = self.files()
        changes = ((("", name), before.get(name), now.get(name)) for name in sorted({*now, *before}))
        return [each for each in changes if each[1] != each[2]]

    def _put(self, name: str, content: str | None) -> None:
        """Write a file; None removes it."""
        path = self.memory / name
        with disk.writing_state(path):
            if content is None:
                disk.remove(path)
            else:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                disk.put(path, content.encode("utf-8", "surrogateescape"), fsync=self._fsync)

    def begin(self) -> Mapping[str, str]:
        """Before a stage: record the files, and return them."""
        files = self.files()
        self.brain.shelf.put(StageFiles(id=self._stage, files=files))
        return files

    def keep(self, dream: DreamRecord, changes: Sequence[Change]) -> None:
        """At the end of a stage, in its transaction: store its before-images."""
        prefix = f"{dream.id}/{len(dream.stages):03}"
        self.brain.shelf.put(
            *(
                BeforeImage(
                    id=f"{prefix}/{place:06}",
                    dream=dream.id,
                    kind_of=kind,
                    name=name,
                    body=before.body if isinstance(before, Row) else before,
                    vectors=dict(before.vectors) if isinstance(before, Row) else {},
                    after=hash_of(after),
                    became="" if isinstance(before, str) or isinstance(after, str) else became(before, after),
                )
                for place, ((kind, name), before, after) in enumerate(changes)
            )
        )
        self.end()

    def end(self) -> None:
        """The stage was committed, or everything that it did was undone."""
        self.brain.shelf.delete(StageFiles, self._stage)

    def recover(self) -> list[str]:
        """Restore files that a killed process changed in an uncommitted stage; returns their names."""
        begun = self.brain.shelf.get(StageFiles, self._stage)
        if begun is None:
            return []
        restored = self.restore(begun.files)
        self.end()
        return restored

    def undo(self, dream: DreamRecord) -> UndoResult:
        """Take back what a dream changed; what others have changed in the same rows since stays.

        If the process is killed, `finish_undo` does it again: files that are restored already stay. Raises
        `UsageError` if there are no before-images.
        """
        shelf = self.brain.shelf
        images = list(shelf.scan(BeforeImage, {"dream": dream.id}))
        if not images and any(done.changed for done in dream.stages.values()):
            raise UsageError(
                f"dream {dream.id} cannot be undone: the store has no before-images of it; they were "
                "forgotten, or an earlier version made them"
            )
        shelf.put(dream.model_copy(update={"undoing": True}))
        images.reverse()  # the latest first
        files, left = self._restore_files([image for image in images if not image.kind_of])
        rows, left_rows = self._restore_rows(dream, images)
        self.brain.refresh()
        return UndoResult(dream.id, rows, files, (*left, *left_rows))

    def _restore_files(self, images: Sequence[BeforeImage]) -> tuple[int, list[str]]:
        """Restore files, except those that others have changed; returns how many, and the others."""
        goals: dict[str, tuple[str, BeforeImage]] = {}  # the hash after the dream, the image before it
        left: dict[str, None] = {}
        for image in images:
            after, later = goals.setdefault(image.name, (image.after, image))
            if image is later or image.after == later.hash_before:
                goals[image.name] = after, image
            else:
                left[image.name] = None  # others changed it between two stages
        count = 0
        for name, (after, image) in goals.items():
            now = hash_of(_content(self.memory / name))
            if now == after:
                self._put(name, image.body)
            if now in (after, image.hash_before):
                count += 1
            else:
                left[name] = None
        return count, list(left)

    def _restore_rows(self, dream: DreamRecord, images: Sequence[BeforeImage]) -> tuple[int, list[str]]:
        """Restore rows and delete the dream with its images, in one transaction.

        Returns how many rows were restored, and those that others have deleted or made since.
        """
        shelf = self.brain.shelf
        left: dict[str, None] = {}
        with shelf.transaction():
            there = _read(shelf.keeper, dict.fromkeys(image.key for image in images if image.kind_of))
            rows = dict(there)
            for image in (image for image in images if image.kind_of):
                now = rows[image.key]
                rows[image.key] = row = _without(image, now)
                if row is now and hash_of(now) != image.hash_before:
                    left[_name(image.key)] = None
            shelf.keeper.write([row for row in rows.values() if row is not None])
            for kind, id in (key for key, row in rows.items() if row is None and there[key] is not None):
                shelf.keeper.erase(kind, [id])
            release(shelf, {id for (kind, id), row in rows.items() if kind == Memory.KIND and row is None})
            shelf.delete(BeforeImage, *(image.id for image in images))
            shelf.delete(DreamRecord, dream.id)
            if left.pop(f"{Stamp.KIND} types", 0) is None:  # tell other processes to read the types again
                shelf.put(Stamp.another())
        return len(rows) - len(left), list(left)

    def finish_undo(self) -> UndoResult | None:
        """Finish an undo that was begun; None if there is none."""
        dream = next(self.brain.shelf.scan(DreamRecord, {"undoing": True}), None)
        return None if dream is None else self.undo(dream)


def _without(image: BeforeImage, now: Row | None) -> Row | None:
    """A row without what a stage did to it; as it is if others have deleted it, or made it again."""
    before = image.before if isinstance(image.before, Row) else None
    if hash_of(now) == image.after:
        return before
    return reverted(before, image.became, now) if now and image.after else now


def _name(key: Key) -> str:
    return " ".join(key).strip()


def _content(path: Path) -> str | None:
    """The content of a file; None if it does not exist, is too large or is no file."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}; fix the cause and retry") from error
