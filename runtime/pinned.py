"""Instructions as they were allowed: while a run works, nothing below its folders of instructions may differ.

What a person has allowed is a digest of each file. `held` keeps these digests for what a run reads and
executes, in whichever task or thread. A file that is new, gone, another kind of file or has other bytes is
not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kernel import disk
from kernel.errors import ConfigurationError
from runtime import user_files

CACHE = "__pycache__"
"""Folders in which Python keeps what it has compiled: nothing is read from these."""
_COMPILED = (".pyc", ".pyo")
LARGEST = 100_000_000
"""Most bytes of a file beside instructions, such as the data of a skill."""
_SETTLED_NS = 2_000_000_000
"""A file that changed more recently is read again: two changes may have the same time."""
Digests = Mapping[str, str]
"""The digest of each file of a folder, by its path in the folder."""
_pins: ContextVar[Mapping[str, Digests]] = ContextVar("pins", default={})  # noqa: B039 (never changed)
_seen: dict[str, tuple[tuple[int, ...], str]] = {}


@contextmanager
def held(pins: Mapping[str, Digests]) -> Generator[None]:
    """Hold to these digests, by folder, until the context ends."""
    before = _pins.set(pins)
    try:
        yield
    finally:
        _pins.reset(before)


def digests(folder: Path) -> Digests:
    """The digests of all files below a folder.

    Raises `ConfigurationError` with the place of what is no regular file, cannot be read, or is compiled
    Python outside of its cache, whose folders are passed over.
    """
    return {path.relative_to(folder).as_posix(): _digest(path) for path in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[Path]:
    pending = [folder] if folder.is_dir() else []
    while pending:
        place = pending.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            raise ConfigurationError(f"{place}: cannot be read: {error.strerror}") from None
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending += [Path(entry.path)] if entry.name != CACHE else []
            elif why := _unfit(entry):
                raise ConfigurationError(f"{entry.path}: {why}")
            else:
                yield Path(entry.path)


def _unfit(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "this is a link; put the file itself here, or remove it"
    if not entry.is_file(follow_symlinks=False):
        return "this is no file that can be read; remove it"
    if entry.name.endswith(_COMPILED):
        return "this is compiled Python, which nobody can read; put its source here, or remove it"
    return ""


def _digest(path: Path) -> str:
    """The SHA-256 of a file; it is read again when its times, size or place on the disk have changed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            info = os.fstat(handle)
            mark = (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino, info.st_dev)
            if not stat.S_ISREG(info.st_mode):
                raise ConfigurationError(f"{path}: this is no file that can be read; remove it")
            if info.st_size > LARGEST:
                raise ConfigurationError(f"{path}: larger than {LARGEST:,} bytes; remove it")
            if (known := _seen.get(str(path))) and known[0] == mark:
                return known[1]
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if time.time_ns() - info.st_ctime_ns > _SETTLED_NS:
                _seen[str(path)] = mark, found
            return found
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def allowed(path: Path) -> str | None:
    """The digest that a file has to have, "" for one that may not be there; None where nothing is held."""
    pins = _pins.get()
    for folder in path.parents if pins else ():
        if (files := pins.get(str(folder))) is not None:
            return files.get(path.relative_to(folder).as_posix(), "")
    return None


def read(path: Path, most: int | None = None) -> bytes:
    """The bytes of an instruction file. Raises `ConfigurationError` if it has changed, or `OSError`."""
    raw = disk.read(path, most)
    if (wanted := allowed(path)) is not None and hashlib.sha256(raw).hexdigest() != wanted:
        raise ConfigurationError(changed(path))
    return raw


def text_of(path: Path) -> str:
    """The text of an instruction file; raises `ConfigurationError` with file and line."""
    return user_files.as_text(path, lambda: read(path, 1_000_000))


def changed(path: Path) -> str:
    """What is said of a file that is not as it was allowed."""
    return f"{path} has changed since it was allowed; look at it, then: fractal trust"


def why_not(folder: Path) -> str:
    """What has changed in a folder of which files are executed; "" if nothing has, or nothing is held."""
    pins = _pins.get()
    for above in (folder, *folder.parents) if pins else ():
        if (files := pins.get(str(above))) is None:
            continue
        inside = "" if above == folder else f"{folder.relative_to(above).as_posix()}/"
        wanted = {name.removeprefix(inside): each for name, each in files.items() if name.startswith(inside)}
        try:
            found = digests(folder)
        except ConfigurationError as error:
            return str(error)
        differing = {name for name, _ in wanted.items() ^ found.items()}
        return changed(folder / min(differing)) if differing else ""
    moved = next((Path(each) for each in pins if os.path.realpath(each) == str(folder)), None)
    return changed(moved) if moved else ""  # a link that led elsewhere


def caches(folder: Path) -> list[Path]:
    """The folders below this one in which Python keeps what it has compiled."""
    found: list[Path] = []
    for place, folders, _ in os.walk(folder):
        found += [Path(place, CACHE)] if CACHE in folders else []
        folders[:] = [name for name in folders if name != CACHE]
    return found
