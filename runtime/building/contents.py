"""What the files of the system hold, by hash: looked at in the folder, kept in `state/system/blobs/`.

A mark tells a file's content and whether it can be started: its SHA-256, with `+x` behind it. "" is no file.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel import disk
from kernel.errors import FractalError

KEPT_BYTES = 20_000_000
"""A larger file is told by its hash alone: it cannot be put back."""
SETTLED_NS = 50_000_000
"""A file that was changed within this time before we looked may change again without a new time."""
STARTABLE = "+x"


@dataclass(frozen=True)
class File:
    """What a file holds, and whether it can be started."""

    raw: bytes
    executable: bool = False

    @property
    def mark(self) -> str:
        """The mark of this content."""
        return hashlib.sha256(self.raw).hexdigest() + (STARTABLE if self.executable else "")


@dataclass(frozen=True)
class Seen:
    """A file as it was last looked at: its mark, and what would differ had somebody changed it since."""

    mark: str
    size: int = -1
    modified: int = 0
    changed: int = 0


def read(path: Path, limit: float = float("inf")) -> File | None:
    """What a file holds; None when there is none, or one with more bytes than the limit."""
    try:
        stat = path.stat()
        return File(disk.read(path), _executable(stat.st_mode)) if stat.st_size <= limit else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def mark_of(path: Path) -> str:
    """The mark of what stands there now, whatever its size; "" when there is no file."""
    try:
        with disk.opened(path) as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
            return digest + (STARTABLE if _executable(os.fstat(handle.fileno()).st_mode) else "")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def bare(mark: str) -> str:
    """The content alone of a mark, whether it can be started or not."""
    return mark.removesuffix(STARTABLE)


def look(folder: Path, known: Mapping[str, Seen]) -> dict[str, Seen]:
    """Every file below the folder; only those that changed since they were `known` are read."""
    now = time.time_ns()
    found: dict[str, Seen] = {}
    for path in files(folder):
        name = path.relative_to(folder).as_posix()
        before = known.get(name)
        try:
            stat = path.stat()
            stamps = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if before and (before.size, before.modified, before.changed) == stamps:
                found[name] = before
                continue
            mark = mark_of(path)
        except OSError:  # such as one that nobody may read: what it held is not forgotten
            if before:
                found[name] = before
            continue
        if mark:
            young = stat.st_ctime_ns > now - SETTLED_NS
            found[name] = Seen(mark) if young else Seen(mark, *stamps)
    return found


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder that are part of the system: none of editors, interpreters and crashes."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        for name in sorted(names):
            if name[0] != "." and not name.endswith(("~", ".tmp", ".pyc")):
                yield Path(where, name)


def _executable(mode: int) -> bool:
    return bool(mode & 0o111)


class Blobs:
    """Contents by hash, compressed; written once, never changed."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self.folder = folder
        self._fsync = fsync

    def keep(self, file: File, *, fsync: bool = True) -> None:
        """Keep a content, before anything depends on it."""
        path = self._path(file.mark)
        if len(file.raw) <= KEPT_BYTES and not path.exists():
            disk.put(path, zlib.compress(file.raw), mode=0o600, fsync=self._fsync and fsync)

    def file(self, mark: str) -> File | None:
        """The content of a mark; None for "". Raises `FractalError` where it was not kept."""
        if not mark:
            return None
        path = self._path(mark)
        try:
            raw = zlib.decompress(path.read_bytes())
        except FileNotFoundError:
            raise FractalError(
                f"{path}: this content is not there: files above {KEPT_BYTES // 1_000_000} MB are not kept"
            ) from None
        except (OSError, zlib.error) as error:
            raise FractalError(f"{path}: cannot be read: {error}; restore it from a backup") from None
        if hashlib.sha256(raw).hexdigest() != path.name:
            raise FractalError(f"{path}: does not hold what its name says; restore it from a backup")
        return File(raw, mark.endswith(STARTABLE))

    def _path(self, mark: str) -> Path:
        return self.folder / bare(mark)
