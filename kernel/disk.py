"""The one place where files are changed: whole or not at all, on the disk when a function returns.

Everything goes through functions of the module `os`, call by call, so that a fault can be put before, into
and after each of them. A process that dies leaves at most temporary files; `sweep` knows their names.
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

from kernel.errors import ConfigurationError, DocumentError, OperationFailed, StorageError

FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
"""What the system says, and programs repeat, of a disk without room."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)


class Leave:
    """The leave of one call to change files: once it is withdrawn, no change of the call begins any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._withdrawn = False

    def withdraw(self) -> None:
        """Take the leave back; a change that is under way is waited for."""
        with self._lock:
            self._withdrawn = True

    @contextmanager
    def using(self) -> Generator[None]:
        """Around one change; raises `OperationFailed` where the leave is withdrawn."""
        with self._lock:
            if self._withdrawn:
                raise OperationFailed("it was stopped before it had changed anything more")
            yield


leave: ContextVar[Leave | None] = ContextVar("leave", default=None)
"""That of the call that is being made; a thread that it starts has the same."""


@contextmanager
def handle_of(path: Path, flags: int, mode: int = 0o600) -> Generator[int]:
    """A file or folder, open for as long as the context."""
    handle = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def committing() -> Generator[None]:
    """Around the moment in which a change takes effect: a call that was stopped changes nothing later."""
    given = leave.get()
    with given.using() if given else nullcontext():
        yield


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
        with committing():
            os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if fsync:
        settle(path.parent)
    return written


def create(path: Path, raw: bytes) -> None:
    """Write a file that must not be there yet, whole or not at all. Raises `FileExistsError`."""
    temporary = beside(path)
    try:
        _fill(temporary, raw, 0o600, like=None, fsync=True)
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    settle(path.parent)


def read(path: Path, most: int | None = None) -> bytes:
    """The bytes of an ordinary file, of `most` at most; raises `OSError` for a larger one."""
    with opened(path) as file:
        raw = file.read(-1 if most is None else most + 1)
    if most is not None and len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return raw


def text_of(path: Path, most: int = 1_000_000) -> str:
    """The text of a file that a person writes for the system; raises `ConfigurationError` with the place."""
    try:
        raw = read(path, most)
        return raw.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None


def matching(folder: Path, pattern: str) -> list[str]:
    """The relative paths that match. A folder that vanishes is skipped, where `Path.glob` raises."""
    return glob(pattern, root_dir=folder)  # noqa: PTH207


def opened(path: Path) -> BufferedReader:
    """Open an ordinary file for reading; raises `OSError` for all else.

    A pipe or a device could let its reader wait for ever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    raise OSError(errno.EINVAL, "not an ordinary file (a pipe, a socket or a device)", str(path))


class Changed(Exception):
    """A file is not the one that was expected; nothing was written."""


def append(
    path: Path, raw: bytes, *, fsync: bool = True, expected: tuple[int, int, int] | None = None
) -> tuple[int, int, int]:
    """Add to the end of a file that is there; returns its new `signature`.

    When not all of it can be written (a full disk), what was written is cut off again. Raises `OSError`, and
    `Changed` when the file's signature is not the `expected` one.
    """
    with handle_of(path, os.O_WRONLY | os.O_APPEND) as handle:
        size = os.fstat(handle).st_size
        if expected and signature(handle) != expected:
            raise Changed(path)
        try:
            _write_all(handle, raw)
            written = signature(handle)
            if expected and written[1] != size + len(raw):
                # in this very moment; ours stands behind theirs, and is read as they left it
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
        settle(path)


def cut(path: Path, size: int) -> tuple[int, int, int]:
    """Cut a file to its first `size` bytes, durably; returns its new `signature`."""
    with handle_of(path, os.O_WRONLY) as handle:
        os.ftruncate(handle, size)
        written = signature(handle)
        os.fsync(handle)
        return written


@contextmanager
def of_the_state(path: Path) -> Generator[None]:
    """Tell the system's refusal to write a file of a run's state as an error of ours, with its mend."""
    try:
        yield
    except OSError as error:
        raise refused(path, error.strerror or str(error)) from error


@contextmanager
def reading_of_the_state(path: Path) -> Generator[None]:
    """Tell that a file of a run's state cannot be read as an error of its document."""
    try:
        yield
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}; mend that", str(path)) from None


def refused(path: Path, reason: str) -> StorageError:
    """A file of a run's state that cannot be written, with its mend."""
    mend = "make room on that disk" if reason in FULL else "mend that"
    return StorageError(f"{path}: cannot be written: {reason}; {mend}, then try again")


def settle(path: Path) -> None:
    """Make the names in a folder durable, or the mode of a file."""
    with handle_of(path, os.O_RDONLY) as handle:
        os.fsync(handle)


def beside(path: Path) -> Path:
    """The name of a temporary file for `path`, which `sweep` knows."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")


def sweep(folder: Path, *names: str) -> None:
    """Remove what a dead process left half-written in a folder (of these names there, when they are given).

    Only where no other process writes, or one that tries again when its temporary file is gone.
    """
    begin = tuple(f".{name[:40]}." for name in names) or "."
    with suppress(OSError):
        for entry in os.scandir(folder):
            if _TEMPORARY.fullmatch(entry.name) and entry.name.startswith(begin):
                if entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                elif names and entry.is_dir(follow_symlinks=False):
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
