"""The kernel's only module that changes files: completely or not at all, durable when a function returns.

All changes are single calls of functions in `os`, so that tests can inject a fault before, in and after each
of them. A process that dies leaves at most temporary files, which `sweep` removes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from glob import glob
from io import BufferedReader
from pathlib import Path

from kernel.errors import DocumentError, OperationFailed, StorageError

FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
"""The system's messages for a full disk, which programs repeat."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
PRIVILEGED = stat.S_ISUID | stat.S_ISGID
"""The bits of a file which runs as its owner or group, whoever starts it."""


class WritePermission:
    """A call's permission to change files. Once it is withdrawn, the call starts no further change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._withdrawn = False

    def withdraw(self) -> None:
        """Withdraw the permission, after a change in progress has finished."""
        with self._lock:
            self._withdrawn = True

    @contextmanager
    def using(self) -> Generator[None]:
        """Wrap one change; raises `OperationFailed` if the permission is withdrawn."""
        with self._lock:
            if self._withdrawn:
                raise OperationFailed("it was stopped before it had changed anything more")
            yield


write_permission: ContextVar[WritePermission | None] = ContextVar("write_permission", default=None)
"""The permission of the current call, which its threads inherit."""


@contextmanager
def handle_of(path: Path, flags: int, mode: int = 0o600) -> Generator[int]:
    """The descriptor of an open file or folder, closed on exit."""
    handle = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def committing() -> Generator[None]:
    """Wrap the moment when a change takes effect, so that a stopped call changes nothing later."""
    permission = write_permission.get()
    with permission.using() if permission else nullcontext():
        yield


def put(
    path: Path,
    raw: bytes,
    *,
    mode: int = 0o666,
    fsync: bool = True,
    guard: Callable[[], None] = lambda: None,
) -> tuple[int, int, int]:
    """Write a temporary file, then rename it to `path`. Creates missing folders. Raises `OSError`.

    A replaced file keeps its mode and, if permitted, its owner; a new one gets `mode`. `guard` is called just
    before the rename and may raise. Returns the `signature` of the written file, even if another process
    replaces it immediately.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        written = _fill(temporary, raw, mode, like=path, fsync=fsync)
        guard()
        with committing():
            os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if fsync:
        sync(path.parent)
    return written


def create(path: Path, raw: bytes) -> None:
    """Write a new file, completely or not at all. Raises `FileExistsError`."""
    temporary = temporary_path(path)
    try:
        _fill(temporary, raw, 0o600, like=None, fsync=True)
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def read(path: Path, most: int | None = None) -> bytes:
    """The bytes of an ordinary file; raises `OSError` if it has more than `most`."""
    with opened(path) as file:
        raw = file.read(-1 if most is None else most + 1)
    if most is not None and len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return raw


def matching(folder: Path, pattern: str) -> list[str]:
    """The matching relative paths. Unlike `Path.glob`, skips a folder that is removed meanwhile."""
    return glob(pattern, root_dir=folder)  # noqa: PTH207


def opened(path: Path) -> BufferedReader:
    """Open an ordinary file for reading; raises `OSError` for a pipe or a device, which could block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    raise OSError(errno.EINVAL, "not an ordinary file (a pipe, a socket or a device)", str(path))


class Changed(Exception):
    """A file was changed by somebody else."""


def append(
    path: Path,
    raw: bytes,
    *,
    fsync: bool = True,
    expected: tuple[int, int, int] | None = None,
    make: bool = False,
) -> tuple[int, int, int]:
    """Append to an existing file, or with `make` also to a new one; returns its new `signature`.

    If the write fails (a full disk), the file is truncated to its old size. Raises `OSError`, and `Changed`
    if the file's signature is not the `expected` one.
    """
    with handle_of(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if make else 0)) as handle:
        size = os.fstat(handle).st_size
        if expected and signature(handle) != expected:
            raise Changed(path)
        try:
            _write_all(handle, raw)
            written = signature(handle)
            if expected and written[1] != size + len(raw):
                # another process wrote since the check above; this text follows theirs
                raise Changed(path)
            if fsync:
                os.fsync(handle)
        except OSError as error:
            error.filename = error.filename or str(path)
            with suppress(OSError):
                os.ftruncate(handle, size)
            raise
        return written


def move(path: Path, target: Path) -> None:
    """Rename a file durably. Creates missing folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)  # noqa: PTH105
    sync(target.parent)
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file durably, if it exists."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync(path.parent)


def cut(path: Path, size: int) -> tuple[int, int, int]:
    """Truncate a file to `size` bytes durably; returns its new `signature`."""
    with handle_of(path, os.O_WRONLY) as handle:
        os.ftruncate(handle, size)
        written = signature(handle)
        os.fsync(handle)
        return written


@contextmanager
def writing_state(path: Path) -> Generator[None]:
    """Raise an `OSError` while writing a file of a run's state as `StorageError`."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error.strerror or str(error)) from error


@contextmanager
def reading_state(path: Path) -> Generator[None]:
    """Raise an `OSError` while reading a file of a run's state as `DocumentError`."""
    try:
        yield
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}; fix the cause and retry", str(path)) from None


def storage_error(path: Path, reason: str) -> StorageError:
    """The error for a file of a run's state that cannot be written, with what to do."""
    fix = "free space on that disk" if reason in FULL else "fix the cause"
    return StorageError(f"{path}: cannot be written: {reason}; {fix} and retry")


def sync(path: Path) -> None:
    """Flush a folder's entries or a file's mode to the disk."""
    with handle_of(path, os.O_RDONLY) as handle:
        os.fsync(handle)


def temporary_path(path: Path) -> Path:
    """The name of a temporary file for `path`, which `sweep` recognises."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")


def sweep(folder: Path, *names: str) -> None:
    """Remove the temporary files of a dead process in a folder, or only those for the given names.

    No other process may be writing there, unless it retries when its temporary file is gone.
    """
    begin = tuple(f".{name[:40]}." for name in names) or "."
    with suppress(OSError):
        for entry in os.scandir(folder):
            if _TEMPORARY.fullmatch(entry.name) and entry.name.startswith(begin):
                if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    os.unlink(entry.path)  # noqa: PTH108
                elif names and entry.is_dir(follow_symlinks=False):
                    remove_all(Path(entry.path))


def remove_all(folder: Path) -> None:
    """Remove a folder with its contents. Nested folders are first moved to the top. Raises `OSError`.

    A link in the place of the folder is refused, and those in it are removed themselves. `shutil.rmtree` is
    recursive and fails on thousands of levels, which a command can create.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a link to another place; remove the link", str(folder))
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


def signature(path: Path | str | int) -> tuple[int, int, int]:
    """Modification time in ns, size and inode of a file or descriptor, which change when it is written."""
    info = os.stat(path)  # noqa: PTH116
    return info.st_mtime_ns, info.st_size, info.st_ino


def _fill(path: Path, raw: bytes, mode: int, *, like: Path | None, fsync: bool) -> tuple[int, int, int]:
    with handle_of(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as handle:
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


def _resemble(handle: int, other: Path) -> None:
    """Give a new file the mode and owner of the file that it replaces."""
    with suppress(FileNotFoundError):
        old, new = other.stat(), os.fstat(handle)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(PermissionError):
                os.fchown(handle, old.st_uid, old.st_gid)
        mode = stat.S_IMODE(old.st_mode) & ~PRIVILEGED  # as the system does when a file is written
        if mode != stat.S_IMODE(new.st_mode):
            os.fchmod(handle, mode)


def _write_all(handle: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(handle, view) :]
