"""The operation archive: creates, lists and extracts zip and tar files within limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kernel import disk
from kernel.document.redaction import shown_name
from kernel.errors import OperationFailed, raised_as
from kernel.tools.operations import OperationContext, Result, Touch, operation
from runtime.operations.texts import counted, regular, relative, reported
from runtime.operations.walking import Deadline, Entry, files_below

SUFFIXES = {".zip": "zip", ".tar": "", ".tar.gz": "gz", ".tgz": "gz", ".tar.bz2": "bz2", ".tar.xz": "xz"}
_OPENERS: Mapping[str, Callable[[Any], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_BLOCK = 1 << 18
_RATIO = 1_000
"""Largest ratio of unpacked to packed size beyond ten megabytes; text rarely reaches 100."""


@dataclass(frozen=True)
class Member:
    """One file or folder in an archive; `open` reads it while the archive is open."""

    name: str
    size: int
    folder: bool
    open: Callable[[], Any]


def form(name: str) -> str:
    """The kind of archive by name: zip, or the compression of a tar."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return SUFFIXES[suffix]
    raise OperationFailed(f"{name}: name it .zip, .tar.gz or {', '.join(s for s in SUFFIXES if s != '.zip')}")


class _Limited:
    """A stream that raises after a number of bytes."""

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
    """An archive that is read."""

    def __init__(self, path: Path, shown: str, limit: int, deadline: Deadline) -> None:
        self.shown = shown
        self._path, self._limit, self._deadline = path, limit, deadline

    def members(self) -> list[Member]:
        """The members; raises for names that lead outside, links, devices, and too much data."""
        found: list[Member] = []
        names: set[str] = set()
        total = 0
        for member in self._each():
            if not member.folder and member.name in names:
                raise OperationFailed(f"{self.shown}: holds {member.name} twice")
            names.add(member.name)
            total += member.size
            found.append(member)
            if len(found) > MOST_MEMBERS:
                raise OperationFailed(f"{self.shown}: holds more than {MOST_MEMBERS:,} files")
            if total > self._limit or total > max(10_000_000, self._path.stat().st_size * _RATIO):
                raise OperationFailed(f"{self.shown}: holds more than may be unpacked; it looks like a bomb")
        return found

    def _each(self) -> Iterator[Member]:
        """The members in order, each open until the next."""
        if form(self.shown) == "zip":
            with zipfile.ZipFile(self._path) as opened:
                for info in opened.infolist():
                    kind = stat.S_IFMT(info.external_attr >> 16)
                    name = self._safe(info.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
                    if name:
                        yield Member(name, info.file_size, info.is_dir(), partial(opened.open, info))
            return
        with self._tar() as opened:
            for info in opened:
                name = self._safe(info.name, info.isfile() or info.isdir())
                if name:
                    yield Member(name, info.size, info.isdir(), partial(opened.extractfile, info))

    @contextmanager
    def _tar(self) -> Iterator[tarfile.TarFile]:
        compression = form(self.shown)
        with disk.opened(self._path) as raw:
            plain: Any = _OPENERS[compression](raw) if compression else raw
            # headers and padding come on top of what the files weigh
            limit = self._limit + MOST_MEMBERS * 2_048
            limited: Any = _Limited(plain, limit, self.shown, self._deadline)
            with tarfile.open(fileobj=limited, mode="r|") as opened:
                yield opened

    def _safe(self, name: str, plain: bool) -> str:
        """The path of a member below the folder, "" for the folder itself."""
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        rooted = name.startswith(("/", "\\")) or (len(name) > 1 and name[1] == ":")
        if not plain:
            raise OperationFailed(f"{self.shown}: {name} is a link or a device; not unpacked")
        if not name or rooted or ".." in parts or "\0" in name or len(name) > 1_000:
            raise OperationFailed(f"{self.shown}: {name[:80]!r} leads outside the folder; not unpacked")
        return "/".join(parts)

    def unpack(self, names: frozenset[str], folder: Path) -> None:
        """Write the members of these names below an empty folder; the actual bytes are counted."""
        left = self._limit
        for member in self._each():
            target = folder / member.name
            if member.name in names and member.folder:
                target.mkdir(parents=True, exist_ok=True)
            elif member.name in names:
                target.parent.mkdir(parents=True, exist_ok=True)
                left -= self._write(member, target, left)

    def _write(self, member: Member, target: Path, left: int) -> int:
        written = 0
        with member.open() as source, target.open("xb") as file:
            while block := source.read(_BLOCK):
                self._deadline.check()
                written += len(block)
                if written > left or written > member.size:
                    raise OperationFailed(f"{self.shown}: {member.name} is larger than it says; not unpacked")
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        return written


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
                _pack_tar(packed, "w", files, deadline)
        else:
            _pack_tar(raw, f"w:{compression}", files, deadline)


def _pack_zip(opened: zipfile.ZipFile, path: Path, inner: str, deadline: Deadline) -> None:
    info = zipfile.ZipInfo.from_file(path, inner, strict_timestamps=False)
    info.compress_type = zipfile.ZIP_DEFLATED
    with disk.opened(path) as source, opened.open(info, "w") as place:
        while block := source.read(_BLOCK):
            deadline.check()
            place.write(block)


def _pack_tar(raw: Any, mode: Any, files: Sequence[tuple[Path, str]], deadline: Deadline) -> None:
    with tarfile.open(fileobj=raw, mode=mode, format=tarfile.PAX_FORMAT) as opened:
        for path, inner in files:
            deadline.check()
            facts = path.stat()
            info = tarfile.TarInfo(inner)
            info.size, info.mode, info.mtime = facts.st_size, stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
            with disk.opened(path) as source:
                opened.addfile(info, source)


MOST_MEMBERS = 10_000
MOST_BYTES = 500_000_000
"""Most bytes that are extracted; `settings["archive"]["max_bytes"]` overrides it."""


def _prepare(
    ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = ""
) -> tuple[Touch, ...]:
    if action == "create":
        return (Touch(ctx.writable(path)),)
    if action == "extract":
        with _opened(ctx, path) as packed:
            goal = _goal(ctx, to)
            return tuple(Touch(goal / member.name) for member in _wanted(packed, files) if not member.folder)
    return ()


@operation(_prepare, folders=True)
def archive(ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = "") -> Result:
    """Create an archive of files, extract one into a folder, or list what is in it."""
    if action != "extract" and to:
        raise OperationFailed("to: goes with action: extract, and names the folder to extract into")
    with reported(path):
        if action == "create":
            return _create(ctx, path, files)
        with _opened(ctx, path) as packed:
            return _extract(ctx, packed, files, to) if action == "extract" else _list(packed, files)


@contextmanager
def _opened(ctx: OperationContext, path: str) -> Generator[Packed]:
    """Open an archive; any error of the libraries becomes `OperationFailed`."""
    target = regular(ctx, path)
    limit = int(ctx.settings.get("archive", {}).get("max_bytes", MOST_BYTES))
    with raised_as(OperationFailed, f"{path}: the archive cannot be read"):
        yield Packed(target, path, limit, Deadline(ctx.timeout))


def _create(ctx: OperationContext, path: str, files: Sequence[str]) -> Result:
    target = ctx.writable(path)
    if target.exists():
        raise OperationFailed(f"{path}: exists already; remove it first, or choose another name")
    deadline = Deadline(ctx.timeout)
    chosen: dict[Path, Entry] = {}
    for each in files or ["."]:
        for entry in _chosen(ctx, each, deadline):
            chosen.setdefault(entry.path, entry)
    entries = sorted(chosen.values(), key=lambda entry: entry.path)
    if not entries:
        raise OperationFailed("there are no files to put into the archive")
    if len(entries) > MOST_MEMBERS:
        raise OperationFailed(f"more than {MOST_MEMBERS:,} files; name a smaller folder")
    root = ctx.folder.resolve()
    named = [
        (entry.path, entry.path.relative_to(root).as_posix()) for entry in entries if entry.path != target
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = disk.beside(target)
    try:
        pack(temporary, path, named, deadline)
        with disk.committing():
            temporary.replace(target)
        disk.settle(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    size, name = target.stat().st_size, relative(ctx, target)
    text = f"wrote {name} with {counted(len(named), 'file')}, {size} bytes"
    return Result(text, evidence={"path": name, "files": len(named), "bytes": size})


def _chosen(ctx: OperationContext, each: str, deadline: Deadline) -> list[Entry]:
    """The files that a path or a glob names, without links."""
    literal = not set(each) & set("*?[{") or (ctx.folder / each).exists()
    found = files_below(ctx, each, "**", deadline) if literal else files_below(ctx, ".", each, deadline)
    if not found and not literal:
        raise OperationFailed(f"{each}: no file matches")
    return [entry for entry in found if not entry.link]


def _wanted(packed: Packed, files: Sequence[str]) -> list[Member]:
    """The members by name or folder; all without a choice."""
    members = packed.members()
    if not files:
        return members
    names = [PurePosixPath(each).as_posix() for each in files]
    for name in names:
        if not any(_under(member, name) for member in members):
            raise OperationFailed(f"{name}: is not in {packed.shown}; see action: list")
    return [member for member in members if any(_under(member, name) for name in names)]


def _under(member: Member, name: str) -> bool:
    return member.name == name or member.name.startswith(f"{name}/")


def _list(packed: Packed, files: Sequence[str]) -> Result:
    members = _wanted(packed, files)
    lines = [
        f"{shown_name(member.name)}/" if member.folder else f"{shown_name(member.name)}  {member.size} bytes"
        for member in sorted(members, key=lambda member: member.name.split("/"))
    ]
    total = sum(member.size for member in members)
    evidence = {"files": sum(not member.folder for member in members), "bytes": total}
    return Result("\n".join(lines) or "the archive is empty", evidence=evidence)


def _goal(ctx: OperationContext, to: str) -> Path:
    """The folder to extract into."""
    if to in ("", ".", "./"):
        return ctx.folder.resolve()
    goal = ctx.writable(to)
    if goal.exists() and not goal.is_dir():
        raise OperationFailed(f"{to}: this is a file; name a folder to extract into")
    return goal


def _extract(ctx: OperationContext, packed: Packed, files: Sequence[str], to: str) -> Result:
    goal, root = _goal(ctx, to), ctx.folder.resolve()
    members = _wanted(packed, files)
    for member in members:
        place = goal / member.name
        ctx.writable(str(place.relative_to(root)))  # refuses what is protected, or leads out through a link
        if (place.exists() or place.is_symlink()) and not (member.folder and place.is_dir()):
            raise OperationFailed(f"{relative(ctx, place)}: exists already; extract into an empty folder")
    aside = disk.beside(root / "unpacked")
    aside.mkdir()
    try:
        packed.unpack(frozenset(member.name for member in members), aside)
        with disk.committing():
            count = _move_in(aside, goal)
    finally:
        with suppress(OSError):
            disk.remove_all(aside)
    name = relative(ctx, goal)
    text = f"extracted {counted(count, 'file')} from {packed.shown} into {name}"
    return Result(text, evidence={"files": count, "to": name})


def _move_in(aside: Path, goal: Path) -> int:
    """Move the extracted files to their place; all are complete on disk before."""
    count = 0
    goal.mkdir(parents=True, exist_ok=True)
    for folder, folders, names in os.walk(aside):
        place = goal / Path(folder).relative_to(aside)
        for each in sorted(folders):
            (place / each).mkdir(exist_ok=True)
        for each in sorted(names):
            Path(folder, each).rename(place / each)
            count += 1
    return count
