"""Zip and tar files as one thing: members with checked names, taken out within limits."""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from kernel import disk
from kernel.errors import OperationFailed
from runtime.operations.walking import Deadline

SUFFIXES = {".zip": "zip", ".tar": "", ".tar.gz": "gz", ".tgz": "gz", ".tar.bz2": "bz2", ".tar.xz": "xz"}
_BLOCK = 1 << 18
_RATIO = 1_000
"""A file that grows more than this in unpacking, beyond ten megabytes, is a bomb; text seldom reaches 100."""
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # zip knows no time before


@dataclass(frozen=True)
class Member:
    """One file or folder in an archive; `inner` is what the archive calls it."""

    name: str
    size: int
    folder: bool
    inner: Any


def form(name: str) -> str:
    """Which kind of archive a name says: zip, or the compression of a tar."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return SUFFIXES[suffix]
    raise OperationFailed(f"{name}: name it .zip, .tar.gz or {', '.join(s for s in SUFFIXES if s != '.zip')}")


class _Limited:
    """A stream that refuses to give more than its limit, headers and all."""

    def __init__(self, inner: IO[bytes], limit: int, name: str, deadline: Deadline) -> None:
        self._inner, self._left, self._name, self._deadline = inner, limit, name, deadline

    def read(self, size: int = -1) -> bytes:
        self._deadline.check()
        wanted = min(size, self._left + 1) if size >= 0 else self._left + 1
        data = self._inner.read(wanted)
        self._left -= len(data)
        if self._left < 0:
            raise OperationFailed(f"{self._name}: holds more than may be unpacked; it looks like a bomb")
        return data


class Packed:
    """An archive opened for reading."""

    def __init__(self, path: Path, shown: str, limit: int, most: int, deadline: Deadline) -> None:
        self.shown = shown
        self._path, self._limit, self._most, self._deadline = path, limit, most, deadline
        self._size = path.stat().st_size
        self._zip = zipfile.ZipFile(path) if form(shown) == "zip" else None

    def __enter__(self) -> Packed:
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip:
            self._zip.close()

    def members(self) -> list[Member]:
        """What is in it; raises when a name leads out, a member is a link or a device, or it is too much."""
        found: list[Member] = []
        names: set[str] = set()
        total = 0
        for member in self._zip_members(self._zip) if self._zip else self._tar_members():
            if not member.name:
                continue  # the folder itself
            if not member.folder and member.name in names:
                raise OperationFailed(f"{self.shown}: holds {member.name} twice")
            names.add(member.name)
            total += member.size
            found.append(member)
            if len(found) > self._most:
                raise OperationFailed(f"{self.shown}: holds more than {self._most:,} files")
            if total > self._limit or total > max(10_000_000, self._size * _RATIO):
                raise OperationFailed(f"{self.shown}: holds more than may be unpacked; it looks like a bomb")
        return found

    def _zip_members(self, opened: zipfile.ZipFile) -> Iterator[Member]:
        for info in opened.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise OperationFailed(f"{self.shown}: {info.filename} is a link or a device; not unpacked")
            yield Member(self._safe(info.filename), info.file_size, info.is_dir(), info)

    def _tar_members(self) -> Iterator[Member]:
        with self._tar() as opened:
            for info in opened:
                if not (info.isfile() or info.isdir()):
                    raise OperationFailed(f"{self.shown}: {info.name} is a link or a device; not unpacked")
                yield Member(self._safe(info.name), info.size, info.isdir(), info.name)

    @contextmanager
    def _tar(self) -> Iterator[tarfile.TarFile]:
        compression = form(self.shown)
        with disk.opened(self._path) as raw:
            plain: IO[bytes] = raw
            if compression == "gz":
                plain = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
            elif compression:
                import bz2

                plain = cast(IO[bytes], lzma.LZMAFile(raw) if compression == "xz" else bz2.BZ2File(raw))  # noqa: SIM115
            # headers and padding come on top of what the files weigh
            limit = self._limit + self._most * 2_048
            limited = _Limited(plain, limit, self.shown, self._deadline)
            with tarfile.open(fileobj=cast(IO[bytes], limited), mode="r|") as opened:
                yield opened

    def _safe(self, name: str) -> str:
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        rooted = name.startswith(("/", "\\")) or (len(name) > 1 and name[1] == ":")
        if rooted or ".." in parts or "\0" in name or len(name) > 1_000:
            raise OperationFailed(f"{self.shown}: {name[:80]!r} leads outside the folder; not unpacked")
        return "/".join(parts)

    def unpack(self, members: Sequence[Member], folder: Path) -> None:
        """Write the members below an empty folder; what is read is counted, whatever the headers say."""
        if self._zip:
            left = self._limit
            for member in members:
                if _made(member, folder):
                    continue
                with self._zip.open(member.inner) as source:
                    left -= self._write(cast(IO[bytes], source), folder / member.name, member, left)
            return
        wanted = {member.inner: member for member in members}
        with self._tar() as opened:
            for info in opened:
                member = wanted.get(info.name)
                if member is None or _made(member, folder):
                    continue
                if source := opened.extractfile(info):
                    self._write(source, folder / member.name, member, self._limit)

    def _write(self, source: IO[bytes], target: Path, member: Member, left: int) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with target.open("xb") as file:
            while block := source.read(_BLOCK):
                self._deadline.check()
                written += len(block)
                if written > left or written > member.size:
                    raise OperationFailed(f"{self.shown}: {member.name} is larger than it says; not unpacked")
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        return written


def _made(member: Member, folder: Path) -> bool:
    if member.folder:
        (folder / member.name).mkdir(parents=True, exist_ok=True)
    return member.folder


def pack(target: Path, name: str, files: Sequence[tuple[Path, str]], deadline: Deadline) -> None:
    """Write an archive of files under their names; the same files give the same bytes."""
    compression = form(name)
    if compression == "zip":
        with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as opened:
            for path, inner in files:
                _pack_zip(opened, path, inner, deadline)
        return
    with target.open("xb") as raw:
        if compression == "gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                _pack_tar(cast(IO[bytes], packed), "w", files, deadline)
        else:
            _pack_tar(raw, cast(Literal["w"], f"w:{compression}"), files, deadline)


def _pack_zip(opened: zipfile.ZipFile, path: Path, inner: str, deadline: Deadline) -> None:
    facts = path.stat()
    changed = max(time.gmtime(facts.st_mtime)[:6], _EARLIEST)
    info = zipfile.ZipInfo(inner, changed)
    info.external_attr = (stat.S_IFREG | stat.S_IMODE(facts.st_mode)) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    info.file_size = facts.st_size
    with disk.opened(path) as source, opened.open(info, "w") as place:
        while block := source.read(_BLOCK):
            deadline.check()
            place.write(block)


def _pack_tar(
    raw: IO[bytes], mode: Literal["w"], files: Sequence[tuple[Path, str]], deadline: Deadline
) -> None:
    with tarfile.open(fileobj=raw, mode=mode, format=tarfile.PAX_FORMAT) as opened:
        for path, inner in files:
            deadline.check()
            facts = path.stat()
            info = tarfile.TarInfo(inner)
            info.size, info.mode, info.mtime = facts.st_size, stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
            with disk.opened(path) as source:
                opened.addfile(info, source)
