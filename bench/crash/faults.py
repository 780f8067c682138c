"""A process that dies at a chosen call: calls of `os` that change files are counted, and one is the last.

`install` wraps the functions before the program is imported. `arm` chooses the last call, and whether the
process dies before it, half-way through what it writes, or after it. `watch` lets the process live, and shows
the files as each of these deaths would leave them. The program itself is unchanged.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

EXIT = 137
"""The exit code of a process that died of a fault, the same that a shell gives for SIGKILL."""
BY_PATH = (
    *("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "symlink", "truncate"),
    *("chmod", "chown", "utime"),
)
BY_HANDLE = ("write", "writev", "pwrite", "fsync", "fdatasync", "ftruncate", "fchmod", "fchown")
WRITES = ("write", "pwrite")
CREATING = os.O_CREAT | os.O_TRUNC
_EXIT, _WRITE, _READLINK, _FSTAT = os._exit, os.write, os.readlink, os.fstat


@dataclass
class _Fault:
    """The number of the last call (0: none) among those whose names match, and where the process dies."""

    at: int = 0
    where: str = "before"
    log: int = -1  # an open file for the names of all calls (`every`), or of the last one
    every: bool = False
    match: str = ""  # a regular expression for the calls that count; every call matches the empty one
    look: Callable[[str, str], None] | None = None  # is called before and half-way through each call
    count: int = 0
    armed: bool = False


_fault = _Fault()
_lock = threading.RLock()


def arm(at: int, where: str, log: int, *, every: bool, match: str = "") -> None:
    """Count calls from now on; `log` is an open file for their names."""
    global _fault
    _fault = _Fault(at, where, log, every, match, armed=True)


def watch(look: Callable[[str, str], None]) -> None:
    """From now on, call `look` with the name and file of each call that changes files.

    It is called before each call, and in the middle of a write, with the name `half`.
    """
    global _fault
    _fault = _Fault(look=look, armed=True)


def _look(name: str, path: str) -> None:
    """Let somebody look at the files; what they change themselves is not counted."""
    with _lock:
        if _fault.look and _fault.armed:
            _fault.armed = False
            try:
                _fault.look(name, path)
            finally:
                _fault.armed = True


def install() -> None:
    """Wrap what changes files, in `os` and `open`; nothing is counted until `arm`."""
    for name in BY_PATH:
        _replace(name, _by_path(name, getattr(os, name)))
    for name in BY_HANDLE:
        _replace(name, _by_handle(name, getattr(os, name)))
    _replace("open", _os_open(os.open))
    _replace("sendfile", _sendfile(os.sendfile))
    builtins.open = io.open = _open(builtins.open)


def _replace(name: str, wrapped: Callable[..., Any]) -> None:
    plain = getattr(os, name)
    for supporting in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if plain in supporting:
            supporting.add(wrapped)
    setattr(os, name, wrapped)


@contextmanager
def _counted(name: str, path: Callable[[], str]) -> Iterator[bool]:
    """Count a call; yields whether it is the last, and ends the process before or after it."""
    with _lock:
        fault = _fault
        counts = fault.armed and bool(not fault.match or re.match(fault.match, f"{name} {path()}"))
        fault.count += counts
        last = counts and fault.count == fault.at
        if last or (fault.armed and fault.every):
            _WRITE(fault.log, f"{name} {path()}\n".encode("utf-8", "surrogateescape"))
        if last and fault.where == "before":
            _EXIT(EXIT)
        if counts:
            _look(name, path())
    try:
        yield last
    finally:
        if last:
            _EXIT(EXIT)


def _by_path(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        with _counted(name, lambda: os.fspath(args[0]) if args else ""):
            return plain(*args, **more)

    return call


def _by_handle(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(handle: Any, *args: Any, **more: Any) -> Any:
        if not (isinstance(handle, int) and _is_file(handle)):
            return plain(handle, *args, **more)
        with _counted(name, lambda: _path(handle)) as last:
            if last and _fault.where == "half" and name in WRITES:
                return plain(handle, bytes(args[0])[: len(args[0]) // 2], *args[1:])
            if _fault.look and name == "write":
                done = plain(handle, bytes(args[0])[: len(args[0]) // 2])
                _look("half", _path(handle))
                return done + plain(handle, bytes(args[0])[done:])
            return plain(handle, *args, **more)

    return call


def _os_open(plain: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if not flags & CREATING or path == os.devnull:
            return plain(path, flags, *args, **more)
        with _counted("open", lambda: os.fspath(path)):
            return plain(path, flags, *args, **more)

    return call


def _sendfile(plain: Callable[..., int]) -> Callable[..., int]:
    def call(out: int, source: int, offset: Any, count: int, **more: Any) -> int:
        if not _is_file(out):
            return plain(out, source, offset, count, **more)
        with _counted("sendfile", lambda: _path(out)) as last:
            half = last and _fault.where == "half"
            size = min(count, _FSTAT(source).st_size) // 2 if half else count
            return plain(out, source, offset, size, **more)

    return call


def _open(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`open` for writing counts as one call that creates or empties the file, without buffered writes."""

    def call(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return plain(file, mode, *args, **more)
        with _counted("open", lambda: os.fspath(file)):
            return plain(file, mode, *args, **more)

    return call


def _is_file(handle: int) -> bool:
    """Whether a handle is an ordinary file or a folder, and no standard stream."""
    if handle <= 2:
        return False
    try:
        mode = _FSTAT(handle).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _path(handle: int) -> str:
    try:
        return _READLINK(f"/proc/self/fd/{handle}")
    except OSError:
        return "?"
