"""The one place where files are changed: whole or not at all, on the disk when a function returns.

Everything goes through functions of the module `os`, call by call, so that a fault can be put before, into
and after each of them. A process that dies leaves at most temporary files; `sweep` knows their names.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernel.errors import StorageError

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


def put(
    path: Path,
    raw: bytes,
    *,
    mode: int = 0o666,
    fsync: bool = True,
    guard: Callable[[], None] = lambda: None,
) -> tuple[int, int, int]:
    """Write beside the file, to the disk, then in its place; makes missing folders. Raises `OSError`.

    A file that is replaced keeps its mode, and its owner where that is allowed; a new one gets `mode`.
    `guard` is called at the last moment and may raise. Returns the `signature` of what was written, not of
    what may stand there a moment later.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    try:
        written = _fill(temporary, raw, mode, like=path, fsync=fsync)
        guard()
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if fsync:
        settle(path.parent)
    return written


def restore(path: Path, kept: Path) -> None:
    """Put back what a file held, from a copy; one that is not there any more gets the copy's mode."""
    put(path, kept.read_bytes(), mode=stat.S_IMODE(kept.stat().st_mode))


def create(path: Path, raw: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all. Raises `FileExistsError`."""
    temporary = beside(path)
    try:
        _fill(temporary, raw, 0o600, like=None, fsync=True)
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    settle(path.parent)


class Changed(Exception):
    """A file is not the one that was expected; nothing was written."""


def append(
    path: Path, raw: bytes, *, fsync: bool = True, expected: tuple[int, int, int] | None = None
) -> tuple[int, int, int]:
    """Add to the end of a file that is there; returns its new `signature`.

    When not all of it can be written (a full disk), what was written is cut off again. Raises `OSError`, and
    `Changed` when the file's signature is not the `expected` one.
    """
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        size = os.fstat(handle).st_size
        if expected and signature(handle) != expected:
            raise Changed(path)
        try:
            _write_all(handle, raw)
            written = signature(handle)
            if expected and written[1] != size + len(raw):
                raise Changed(
                    path
                )  # in this very moment; ours stands behind theirs, and is read as they left it
            if fsync:
                os.fsync(handle)
        except OSError as error:
            error.filename = error.filename or str(path)
            with suppress(OSError):
                os.ftruncate(handle, size)
            raise
        return written
    finally:
        os.close(handle)


def move(path: Path, target: Path) -> None:
    """Give a file another name, durably; makes missing folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)  # noqa: PTH105
    settle(target.parent)
    settle(path.parent)


def remove(path: Path) -> None:
    """Remove a file, durably; one that is not there is left so."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        settle(path.parent)


def allow(path: Path, executable: bool) -> None:
    """Make a file one that can be started by whoever may read it, or by nobody; durably."""
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
    if wanted != mode:
        os.chmod(path, wanted)  # noqa: PTH101
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cut(path: Path, size: int) -> tuple[int, int, int]:
    """Cut a file to its first `size` bytes, durably; returns its new `signature`."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(handle, size)
        written = signature(handle)
        os.fsync(handle)
        return written
    finally:
        os.close(handle)


@contextmanager
def of_the_state(path: Path) -> Generator[None]:
    """Tell the system's refusal to write a file of a run's state as an error of ours, with its mend."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        mend = "make room on that disk" if full else "mend that"
        raise StorageError(f"{path}: cannot be written: {error.strerror}; {mend}, then try again") from error


def settle(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def beside(path: Path) -> Path:
    """The name of a temporary file for `path`, which `sweep` knows."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")


def sweep(folder: Path, name: str = "") -> None:
    """Remove what a dead process left half-written in a folder (of one name there, when it is given).

    Only where no other process writes, or one that tries again when its temporary file is gone.
    """
    with suppress(OSError):
        for entry in os.scandir(folder):
            if _TEMPORARY.fullmatch(entry.name) and entry.name.startswith(f".{name[:40]}." if name else "."):
                if entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                elif name and entry.is_dir(follow_symlinks=False):
                    remove_all(Path(entry.path))


def remove_all(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep: what is in a folder is first brought up.

    `shutil.rmtree` calls itself for each level, and a command can make thousands. Raises `OSError`.
    """
    pending = [folder]
    while pending:
        each = pending.pop()
        os.chmod(each, 0o700)  # noqa: PTH101
        with os.scandir(each) as found:
            entries = list(found)
        for entry in entries:
            inner = Path(entry.path)
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(inner)  # noqa: PTH108
                continue
            if each != folder:
                os.chmod(inner, 0o700)  # noqa: PTH101
                inner = folder / f".{secrets.token_hex(8)}.tmp"
                os.replace(entry.path, inner)  # noqa: PTH105
            pending.append(inner)
        if each != folder:
            os.rmdir(each)  # noqa: PTH106
    os.rmdir(folder)  # noqa: PTH106


def signature(path: Path | int) -> tuple[int, int, int]:
    """Time of change in ns, size and number of a file (or an open one): it differs when somebody wrote it."""
    info = os.stat(path)  # noqa: PTH116
    return info.st_mtime_ns, info.st_size, info.st_ino


def version(path: Path | str) -> tuple[int, int] | None:
    """Time of change in ns and size, for who keeps what a file said; None where there is no file."""
    try:
        info = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return (info.st_mtime_ns, info.st_size) if stat.S_ISREG(info.st_mode) else None


def _fill(path: Path, raw: bytes, mode: int, *, like: Path | None, fsync: bool) -> tuple[int, int, int]:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        _write_all(handle, raw)
        if like:
            _resemble(handle, like)
        if fsync:
            os.fsync(handle)
        return signature(handle)
    except OSError as error:
        error.filename = error.filename or str(like or path)
        raise
    finally:
        os.close(handle)


def _resemble(handle: int, other: Path) -> None:
    """Give the new file the mode and owner of the one that it replaces."""
    with suppress(FileNotFoundError):
        old, new = other.stat(), os.fstat(handle)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(PermissionError):
                os.fchown(handle, old.st_uid, old.st_gid)
        if stat.S_IMODE(old.st_mode) != stat.S_IMODE(new.st_mode):
            os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _write_all(handle: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(handle, view) :]


@contextmanager
def alone(path: Path, patience: float, busy: Callable[[], Exception]) -> Generator[None]:
    """Nobody else holds this lock file meanwhile; it is made where it is missing, let go with its process.

    After `patience` seconds of waiting for another process, what `busy` makes is raised.
    """
    with of_the_state(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + patience
        while not _taken(handle):
            if time.monotonic() > end:
                raise busy()
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
