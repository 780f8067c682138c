"""The store as JSON files, a folder per kind and a file per record: to read, to compare, to keep in git.

A database in memory caches all rows; a file is read again when its time or size changes. One process reads
or writes at a time. A transaction of several files is first written to `.staged/`; then the file
`pending.json` commits it, and the next process to open the folder finishes an interrupted one. A file that
cannot be read is skipped and reported; `rebuild` moves it to `quarantine/`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kernel import disk
from kernel.errors import StorageError
from runtime import locks
from runtime.memory.store.record import FORMAT, KINDS, Fault, Row, from_json, refuse_newer, to_json
from runtime.memory.store.sqlite import BUSY, SqliteKeeper

_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
ABOUT = "shelf.json"
STAGED, PENDING = ".staged", "pending.json"
QUARANTINE = "quarantine"


class FilesKeeper(SqliteKeeper):
    """Rows in files, cached in a database in memory. No file is open between two calls."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        super().__init__()
        self.folder = folder
        self.place = str(folder)
        self._fsync = fsync
        self._seen: dict[Path, tuple[tuple[int, int, int], tuple[str, str] | None]] = {}
        self._broken: dict[Path, str] = {}
        self._writing: ExitStack | None = None  # holds the lock of the open transaction
        self._begun: Any = None  # the mark at which the open transaction began
        self._format_begun = FORMAT  # the format at that time
        with self._locked():
            self._check_format()
            disk.sweep(folder)
            with suppress(FileNotFoundError):
                disk.remove_all(folder / STAGED)
            for kind in self._folders():
                disk.sweep(folder / kind)

    def _check_format(self) -> None:
        about = self.folder / ABOUT
        if not about.exists():
            with disk.writing_state(about):
                disk.put(about, _about(FORMAT).encode(), mode=0o600)
            return
        try:
            number = int(json.loads(about.read_bytes())["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{about}: cannot be read: {error}; it should hold {{'format': {FORMAT}}}"
            ) from None
        refuse_newer(about, number)
        super().set_version(number)

    def version(self) -> int:
        """As another process may have set it."""
        if self._writing is None:
            with self._locked():
                self._check_format()
        return self._version()

    def back_up(self, target: Path) -> None:
        """Copy every file to a new folder."""
        with self._locked(), disk.writing_state(target):
            for path in (self.folder / ABOUT, *sorted(self.folder.glob("*/*.json"))):
                copy = target / path.relative_to(self.folder)
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                disk.create(copy, path.read_bytes())

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Alone with the folder, and with no interrupted transaction left."""
        busy = StorageError(f"{self.folder}: another process holds it; retry when that is done")
        with locks.lock(self.folder / ".lock", BUSY, lambda: busy):
            self._finish()
            yield

    def _finish(self) -> None:
        """Finish a transaction that was committed when its process died."""
        pending = self.folder / PENDING
        if pending.exists():
            with disk.writing_state(pending):
                self._apply(json.loads(pending.read_bytes()))

    def _stage(self, changes: Mapping[str, str | None]) -> dict[str, str | None]:
        """Write everything, so that the rest needs no disk space; returns the source of each target."""
        staged: dict[str, str | None] = {}
        for number, (name, text) in enumerate(changes.items()):
            staged[name] = None if text is None else f"{STAGED}/{number}"
            if text is not None:
                disk.put(self.folder / STAGED / str(number), text.encode(), mode=0o600, fsync=self._fsync)
        disk.put(self.folder / PENDING, json.dumps(staged).encode(), mode=0o600, fsync=self._fsync)
        return staged

    def _apply(self, staged: Mapping[str, str | None]) -> None:
        """Move each file into place; those that an interrupted attempt moved are gone from `.staged/`."""
        for name, source in staged.items():
            if source is None:
                (self.folder / name).unlink(missing_ok=True)
            elif (self.folder / source).exists():
                os.replace(self.folder / source, self.folder / name)  # noqa: PTH105
        for kind in {name.partition("/")[0] for name in staged}:
            if (self.folder / kind).is_dir():
                disk.sync(self.folder / kind)
        _remove(self.folder / PENDING)
        with suppress(OSError):
            (self.folder / STAGED).rmdir()

    def _make(self, kind: str) -> None:
        if not (self.folder / kind).is_dir():
            (self.folder / kind).mkdir(mode=0o700)
            disk.sync(self.folder)

    def _folders(self) -> list[str]:
        with os.scandir(self.folder) as entries:
            return sorted(
                each.name for each in entries if each.is_dir() and each.name not in (QUARANTINE, STAGED)
            )

    def _refresh(self, kind: str) -> None:
        """Read new and changed files, forget deleted ones."""
        folder = self.folder / kind
        found: set[Path] = set()
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    path = folder / entry.name
                    found.add(path)
                    info = entry.stat()
                    signature = (info.st_mtime_ns, info.st_size, info.st_ino)
                    if path not in self._seen or self._seen[path][0] != signature:
                        self._take(path, kind, signature)
        for path in [path for path in self._seen if path.parent == folder and path not in found]:
            self._forget(path)

    def _take(self, path: Path, kind: str, signature: tuple[int, int, int]) -> None:
        self._forget(path)
        self._seen[path] = (signature, None)
        try:
            row = from_json(path.read_bytes())
            if row.kind != kind:
                raise ValueError(f"its kind is {row.kind}, but it is in {kind}/")
            if path.name != name_of(row.id):
                raise ValueError(f"the file of {row.id!r} must be named {name_of(row.id)}")
        except FileNotFoundError:
            del self._seen[path]
        except (OSError, ValueError) as error:
            self._broken[path] = str(error)
        else:
            self._seen[path] = (signature, (kind, row.id))
            self.write([row])

    def _forget(self, path: Path) -> None:
        self._broken.pop(path, None)
        _, known = self._seen.pop(path, (None, None))
        if known:
            self.erase(known[0], [known[1]])

    def refresh(self, kind: str = "") -> None:
        """Read what others changed; in a transaction nobody else can write."""
        if self._writing is None:
            with self._locked():
                for each in [kind] if kind else self._folders():
                    self._refresh(each)

    def begin(self) -> None:
        """Lock out all other readers and writers."""
        with ExitStack() as stack:
            stack.enter_context(self._locked())
            self._check_format()
            for kind in self._folders():
                self._refresh(kind)
            self._format_begun = self._version()
            super().begin()
            self._writing = stack.pop_all()
        self._begun = self.mark()

    def commit(self) -> None:
        """Put a single file in place; stage several first."""
        keys = self.since(self._begun) or []
        kinds = {kind for kind, _ in keys}
        rows = {kind: self.read(kind, [id for of, id in keys if of == kind]) for kind in kinds}
        touched = {(kind, id): rows[kind].get(id) for kind, id in keys}
        version = self._version()
        changes = {
            f"{kind}/{name_of(id)}": None if row is None else to_json(row, version, indent=1) + "\n"
            for (kind, id), row in touched.items()
        }
        if version != self._format_begun:
            changes[ABOUT] = _about(version)
        with disk.writing_state(self.folder):
            for kind in {kind for (kind, _), row in touched.items() if row}:
                self._make(kind)
            if len(changes) > 1:
                self._apply(self._stage(changes))
            else:
                for name, text in changes.items():
                    if text is not None:
                        disk.put(self.folder / name, text.encode(), mode=0o600, fsync=self._fsync)
                    elif (self.folder / name).exists():
                        _remove(self.folder / name)
        super().commit()
        for (kind, id), row in touched.items():
            self._note(self.folder / kind / name_of(id), kind, id, row)
        self._release()

    def _note(self, path: Path, kind: str, id: str, row: Row | None) -> None:
        """Remember what was just written, so that it is not read again."""
        self._broken.pop(path, None)
        self._seen.pop(path, None)
        with suppress(FileNotFoundError):
            if row is not None:
                self._seen[path] = (disk.signature(path), (kind, id))

    def rollback(self) -> None:
        """Restore the cache; a transaction that is already committed is finished by the next caller."""
        super().rollback()
        if not (self.folder / PENDING).exists():
            with suppress(OSError):
                disk.remove_all(self.folder / STAGED)
        self._release()

    def _release(self) -> None:
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    def faults(self) -> list[Fault]:
        """Every file that cannot be read, and every folder without a valid kind as its name."""
        for path in list(self._seen):
            self._forget(path)
        self.refresh()
        strange = [name for name in self._folders() if not KINDS.fullmatch(name)]
        return [
            *(Fault(str(path), what) for path, what in sorted(self._broken.items())),
            *(Fault(str(self.folder / name), "a folder whose name is not a kind") for name in strange),
        ]

    def rebuild(self) -> list[Fault]:
        """Move files that cannot be read to `quarantine/`; there is no index on disk."""
        faults = self.faults()
        moved: list[Fault] = []
        with self._locked(), disk.writing_state(self.folder):
            for path in sorted(self._broken):
                aside = self.folder / QUARANTINE / path.parent.name / path.name
                disk.move(path, aside)
                moved.append(Fault(str(path), f"{self._broken[path]}; moved to {QUARANTINE}/"))
        return moved + [fault for fault in faults if fault.where not in {each.where for each in moved}]

    def close(self) -> None:
        """Release the lock of a transaction, and drop the cache."""
        self._release()
        super().close()


def name_of(id: str) -> str:
    """The file name of an id: the id itself if it is plain, else its plain part and a digest."""
    if _PLAIN.fullmatch(id):
        return f"{id}.json"
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    plain = re.sub(r"[^a-z0-9]+", "-", id.lower()).strip("-")[:60]
    return f"{plain or 'record'}~{digest}.json"


def _about(version: int) -> str:
    return json.dumps({"format": version}) + "\n"


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    disk.sync(path.parent)
