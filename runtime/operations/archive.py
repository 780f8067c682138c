"""The operation archive: creates, lists and extracts zip and tar files within limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from kernel import disk
from kernel.errors import OperationFailed, raised_as
from kernel.tools.operations import Result, Touch
from runtime.operations.texts import counted, os_errors, regular, relative
from runtime.operations.walking import Deadline, Entry, files_below
from runtime.sandbox.context import OperationContext, operation
from runtime.text.shown import shown_name

SUFFIXES = {".zip": "zip", ".tar.gz": "gz", ".tgz": "gz", ".tar.bz2": "bz2", ".tar.xz": "xz", ".tar": ""}
_OPENERS: dict[str, Callable[[Any], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_RATIO = 1_000
"""Largest ratio of unpacked to packed size beyond ten megabytes; text rarely reaches 100."""
MOST_MEMBERS = 10_000
MOST_BYTES = 500_000_000
"""Most bytes that are extracted; `settings["archive"]["max_bytes"]` overrides it."""


@dataclass(frozen=True)
class Member:
    """One file or folder in an archive; `open` reads it while the archive is open."""

    name: str
    size: int
    folder: bool
    open: Callable[[], Any]


def form(name: str) -> str:
    """The kind of archive by name: zip, or the compression of a tar."""
    for suffix, kind in SUFFIXES.items():
        if name.lower().endswith(suffix):
            return kind
    raise OperationFailed(f"{name}: name it .zip, .tar.gz or {', '.join(s for s in SUFFIXES if s != '.zip')}")


@dataclass(frozen=True)
class Packed:
    """An archive that is read; `shown` is its name in messages."""

    path: Path
    shown: str
    limit: int
    deadline: Deadline

    def bomb(self) -> OperationFailed:
        """The error for an archive that unpacks to too many bytes."""
        return OperationFailed(f"{self.shown}: holds more than may be unpacked; it looks like a bomb")

    def members(self) -> list[Member]:
        """The members; raises for names that lead outside, links, devices, and too much data."""
        found: dict[str, Member] = {}
        total = 0
        for member in self.opened_members():
            if not member.folder and member.name in found:
                raise OperationFailed(f"{self.shown}: holds {member.name} twice")
            found[member.name] = member
            total += member.size
            if len(found) > MOST_MEMBERS:
                raise OperationFailed(f"{self.shown}: holds more than {MOST_MEMBERS:,} files")
            if total > self.limit or total > max(10_000_000, self.path.stat().st_size * _RATIO):
                raise self.bomb()
        return list(found.values())

    def opened_members(self) -> Iterator[Member]:
        """The members in order, each open until the next."""
        kind = form(self.shown)
        if kind == "zip":
            with zipfile.ZipFile(self.path) as packed:
                for info in packed.infolist():
                    plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
                    if name := self._safe(info.filename, plain):
                        yield Member(name, info.file_size, info.is_dir(), partial(packed.open, info))
            return
        with disk.opened(self.path) as raw:
            stream: Any = _Limited(_OPENERS[kind](raw) if kind else raw, self)
            with tarfile.open(fileobj=stream, mode="r|") as packed:
                for info in packed:
                    if name := self._safe(info.name, info.isfile() or info.isdir()):
                        yield Member(name, info.size, info.isdir(), partial(packed.extractfile, info))

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
        """Write the members of these names below an empty folder; both libraries stop at the stated size."""
        for member in self.opened_members():
            self.deadline.check()
            target = folder / member.name
            if member.name not in names:
                continue
            if member.folder:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with member.open() as source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())


class _Limited:
    """The unpacked stream of a tar; raises after the limit, so that headers cannot be a bomb either."""

    def __init__(self, inner: IO[bytes], packed: Packed) -> None:
        self._inner, self._packed = inner, packed
        self._left = packed.limit + MOST_MEMBERS * 2_048  # headers and padding come on top of the files

    def read(self, size: int) -> bytes:
        self._packed.deadline.check()
        data = self._inner.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise self._packed.bomb()
        return data


def pack(target: Path, name: str, files: Sequence[tuple[Path, str]], deadline: Deadline) -> None:
    """Write an archive of files under their names; the same files give the same bytes."""
    kind = form(name)
    with ExitStack() as opened:
        if kind == "zip":
            zipped = zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, strict_timestamps=False)
            add: Callable[[Path, str], object] = opened.enter_context(zipped).write
        else:
            raw: Any = opened.enter_context(target.open("xb"))
            if kind == "gz":  # without the time that tarfile would write
                raw = opened.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
            mode: Any = f"w:{kind.replace('gz', '')}"
            # a second name of a file is stored as a file, not as a link
            tar = opened.enter_context(
                tarfile.open(fileobj=raw, mode=mode, format=tarfile.PAX_FORMAT, dereference=True)
            )
            add = partial(tar.add, recursive=False, filter=_anonymous)
        for path, inner in files:
            deadline.check()
            add(path, inner)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime, info.uid, info.gid, info.uname, info.gname = int(info.mtime), 0, 0, "", ""
    return info


def _prepare(
    ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = ""
) -> tuple[Touch, ...]:
    if action == "create":
        return (Touch(ctx.writable(path)),)
    if action == "extract":
        with _opened(ctx, path) as packed:
            goal = _destination(ctx, to)
            return tuple(Touch(goal / member.name) for member in _select(packed, files) if not member.folder)
    return ()


@operation(_prepare, folders=True)
def archive(ctx: OperationContext, action: str, path: str, files: Sequence[str] = (), to: str = "") -> Result:
    """Create an archive of files, extract one into a folder, or list what is in it."""
    if action != "extract" and to:
        raise OperationFailed("to: goes with action: extract, and names the folder to extract into")
    with os_errors(path):
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
    root = ctx.folder.resolve()
    paths = {entry.path for name in files or ["."] for entry in _matching_files(ctx, name, deadline)}
    if not paths:
        raise OperationFailed("there are no files to put into the archive")
    if len(paths) > MOST_MEMBERS:
        raise OperationFailed(f"more than {MOST_MEMBERS:,} files; name a smaller folder")
    named = [(each, each.relative_to(root).as_posix()) for each in sorted(paths - {target})]
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = disk.temporary_path(target)
    try:
        pack(temporary, path, named, deadline)
        with disk.committing():
            temporary.replace(target)
        disk.sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
    size, name = target.stat().st_size, relative(ctx, target)
    text = f"wrote {name} with {counted(len(named), 'file')}, {size} bytes"
    return Result(text, evidence={"path": name, "files": len(named), "bytes": size})


def _matching_files(ctx: OperationContext, name: str, deadline: Deadline) -> list[Entry]:
    """The files that a path or a glob names, without links."""
    literal = not set(name) & set("*?[{") or (ctx.folder / name).exists()
    found = files_below(ctx, name, "**", deadline) if literal else files_below(ctx, ".", name, deadline)
    if not found and not literal:
        raise OperationFailed(f"{name}: no file matches")
    return [entry for entry in found if not entry.link]


def _select(packed: Packed, files: Sequence[str]) -> list[Member]:
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
    members = _select(packed, files)
    lines = [
        f"{shown_name(member.name)}/" if member.folder else f"{shown_name(member.name)}  {member.size} bytes"
        for member in sorted(members, key=lambda member: member.name.split("/"))
    ]
    total = sum(member.size for member in members)
    evidence = {"files": sum(not member.folder for member in members), "bytes": total}
    return Result("\n".join(lines) or "the archive is empty", evidence=evidence)


def _destination(ctx: OperationContext, to: str) -> Path:
    """The folder to extract into."""
    if to in ("", ".", "./"):
        return ctx.folder.resolve()
    goal = ctx.writable(to)
    if goal.exists() and not goal.is_dir():
        raise OperationFailed(f"{to}: this is a file; name a folder to extract into")
    return goal


def _extract(ctx: OperationContext, packed: Packed, files: Sequence[str], to: str) -> Result:
    goal, root = _destination(ctx, to), ctx.folder.resolve()
    members = _select(packed, files)
    for member in members:
        place = goal / member.name
        ctx.writable(str(place.relative_to(root)))  # refuses what is protected, or leads out through a link
        if (place.exists() or place.is_symlink()) and not (member.folder and place.is_dir()):
            raise OperationFailed(f"{relative(ctx, place)}: exists already; extract into an empty folder")
    aside = disk.temporary_path(root / "unpacked")
    aside.mkdir()
    try:
        packed.unpack(frozenset(member.name for member in members), aside)
        with disk.committing():
            goal.mkdir(parents=True, exist_ok=True)
            for member in members:  # all are complete on disk now
                _move(aside / member.name, goal / member.name, member.folder)
    finally:
        with suppress(OSError):
            disk.remove_all(aside)
    count, name = sum(not member.folder for member in members), relative(ctx, goal)
    text = f"extracted {counted(count, 'file')} from {packed.shown} into {name}"
    return Result(text, evidence={"files": count, "to": name})


def _move(source: Path, place: Path, folder: bool) -> None:
    (place if folder else place.parent).mkdir(parents=True, exist_ok=True)
    if not folder:
        source.rename(place)
