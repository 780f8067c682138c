"""A process that dies at a chosen call: what changes files in `os` is counted, and may be its last.

`install` wraps the functions before the program is imported; `arm` says which call is the last, and whether
the process dies before it, half-way through what it writes, or after it. The program itself is not touched.
"""

from __future__ import annotations

import builtins
import io
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EXIT = 137
"""What a process that died of a fault exits with; as a shell tells of SIGKILL."""
BY_PATH = (
    *("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "symlink", "truncate"),
    *("chmod", "chown", "utime"),
)
BY_HANDLE = ("write", "writev", "pwrite", "fsync", "fdatasync", "ftruncate", "fchmod", "fchown")
WRITES = ("write", "pwrite")
CREATING = os.O_CREAT | os.O_TRUNC
_END, _WRITE, _READLINK, _FSTAT = os._exit, os.write, os.readlink, os.fstat


@dataclass
class _Fault:
    """Which call is the last: the `at`th, and where in it: before, half or after. 0: none."""

    at: int = 0
    where: str = "before"
    log: int = -1  # where calls are told: all of them when `every`, else only the last
    every: bool = False
    count: int = 0
    armed: bool = False


_fault = _Fault()
_lock = threading.RLock()


def arm(at: int, where: str, log: int, *, every: bool) -> None:
    """From now on calls are counted; `log` is an open file for their names."""
    global _fault
    _fault = _Fault(at, where, log, every, armed=True)


def install() -> None:
    """Wrap what changes files, in `os` and `open`; until `arm` nothing is counted."""
    for name in BY_PATH:
        _put(name, _by_path(name, getattr(os, name)))
    for name in BY_HANDLE:
        _put(name, _by_handle(name, getattr(os, name)))
    _put("open", _open(os.open))
    _put("sendfile", _sendfile(os.sendfile))
    builtins.open = io.open = _opened(builtins.open)


def _put(name: str, wrapped: Callable[..., Any]) -> None:
    plain = getattr(os, name)
    for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if plain in able:
            able.add(wrapped)
    setattr(os, name, wrapped)


def _count(label: Callable[[], str]) -> bool:
    """Count a call that is about to happen; True when the process is to die in it or after it."""
    with _lock:
        fault = _fault
        if not fault.armed:
            return False
        fault.count += 1
        here = fault.count == fault.at
        if here or fault.every:
            _WRITE(fault.log, f"{label()}\n".encode("utf-8", "surrogateescape"))
        if here and fault.where == "before":
            _END(EXIT)
        return here


def _by_path(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        last = _count(lambda: f"{name} {os.fspath(args[0])}" if args else name)
        try:
            return plain(*args, **more)
        finally:
            if last:
                _END(EXIT)

    return call


def _by_handle(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(handle: Any, *args: Any, **more: Any) -> Any:
        if not (isinstance(handle, int) and _is_file(handle)):
            return plain(handle, *args, **more)
        last = _count(lambda: f"{name} {_path(handle)}")
        try:
            if last and _fault.where == "half" and name in WRITES:
                return plain(handle, bytes(args[0])[: len(args[0]) // 2], *args[1:])
            return plain(handle, *args, **more)
        finally:
            if last:
                _END(EXIT)

    return call


def _open(plain: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if not flags & CREATING or path == os.devnull:
            return plain(path, flags, *args, **more)
        last = _count(lambda: f"open {os.fspath(path)}")
        try:
            return plain(path, flags, *args, **more)
        finally:
            if last:
                _END(EXIT)

    return call


def _sendfile(plain: Callable[..., int]) -> Callable[..., int]:
    def call(out: int, source: int, offset: Any, count: int, **more: Any) -> int:
        if not _is_file(out):
            return plain(out, source, offset, count, **more)
        last = _count(lambda: f"sendfile {_path(out)}")
        try:
            half = last and _fault.where == "half"
            size = min(count, _FSTAT(source).st_size) // 2 if half else count
            return plain(out, source, offset, size, **more)
        finally:
            if last:
                _END(EXIT)

    return call


def _opened(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`open` for writing: one call that makes or empties the file; its buffered writes are not seen."""

    def call(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return plain(file, mode, *args, **more)
        last = _count(lambda: f"open {os.fspath(file)}")
        try:
            return plain(file, mode, *args, **more)
        finally:
            if last:
                _END(EXIT)

    return call


def _is_file(handle: int) -> bool:
    """An ordinary file or a folder, and none of the standard streams."""
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
