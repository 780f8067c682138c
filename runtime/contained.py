"""Nothing below a folder `state/` is reached through a link, and one that somebody else made is not changed.

A state can come with a clone or an archive, and a link in it leads where its author wants. So the interpreter
asks here (PEP 578) before any code opens, lists, makes, moves or removes a path below a state: no call can
forget it. It sees no pipe that is made, and no path that is relative to a folder. What other programs do
there, such as git, is for `refuse_links`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernel.errors import StorageError

_NAME = "/state"
_USERS = re.compile(r"/(worktrees|system/trials|benchmarks/[^/]+/problems)/[^/]+(?=/)")
"""The folders in `state/` that runs work in, with files and links of the user."""
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_READ, _ENTRY, _CHANGE = "read", "entry", "change"  # an entry is not followed when it is changed
_EVENTS = {
    "os.listdir": (_READ,),
    "os.scandir": (_READ,),
    "os.remove": (_ENTRY,),
    "os.rmdir": (_ENTRY,),
    "os.rename": (_ENTRY, _ENTRY),
    "os.link": (_ENTRY, _ENTRY),
    "os.symlink": ("", _ENTRY),
    **dict.fromkeys(("os.mkdir", "os.chmod", "os.chown", "os.truncate", "os.utime"), (_CHANGE,)),
    **dict.fromkeys(("os.setxattr", "os.removexattr", "shutil.rmtree"), (_CHANGE,)),
}
_SQLITE = ("", "-wal", "-shm", "-journal")


class _Kept:
    """A state: after which character of a path no part may be a link, and who lets it be changed."""

    def __init__(self, top: int, may_change: Callable[[], bool]) -> None:
        self.top = top
        self.passed = False
        self._may_change = may_change
        self._asking = False
        self._lock = threading.RLock()

    def refuse_change(self) -> None:
        if self.passed:
            return
        with self._lock:
            if self.passed or self._asking:  # it makes its own mark there
                return
            self._asking = True
            try:
                self.passed = self._may_change()
            finally:
                self._asking = False


_kept: dict[str, _Kept] = {}


def keep(state: Path, may_change: Callable[[], bool]) -> Path:
    """Watch a state from now on; returns it.

    Before its first change `may_change` is called, which raises if this user may not change it; it returns
    whether this need not be asked again in this process.
    """
    text = str(state)
    if text not in _kept:
        if not _kept:
            sys.addaudithook(_audit)
        above = state.parent
        top = above.parent if above.name == ".fractal" else above
        _kept[text] = _Kept(len(str(top).rstrip("/")), may_change)
    return state


def allow(state: Path) -> None:
    """This process may change a watched state, whoever made it."""
    _kept[str(state)].passed = True


def refuse_links(folder: Path, depth: int) -> None:
    """Raise `StorageError` if a folder, or what it has down to a depth, is a link: for other programs."""
    pending = [(str(folder), depth)] if os.path.lexists(folder) else []
    while pending:
        place, left = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _link(entry.path)
                if left > 1 and entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, left - 1))


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """Called by the interpreter before each of its events."""
    if event == "open":
        flags = args[2]
        _check(args[0], _CHANGE if isinstance(flags, int) and flags & _CHANGES else _READ)
    elif event in _EVENTS:
        for way, path in zip(_EVENTS[event], args, strict=False):
            _check(path, way)
    elif event == "sqlite3.connect":
        path = os.fsdecode(args[0])
        if path.startswith("file:"):
            from urllib.parse import unquote  # takes time, and few databases are named so

            path = unquote(path[len("file:") :].partition("?")[0])
        for ending in _SQLITE:
            _check(path + ending, _CHANGE)


def _check(given: str | bytes | int | os.PathLike[str] | None, way: str) -> None:
    if not way or given is None or isinstance(given, int):  # this folder, or a file that is open already
        return
    path = os.fsdecode(given)
    for state in _states(path):
        kept = _kept[state]
        _refuse_links(path, state, kept.top, itself=way != _ENTRY)
        if way == _READ or (way == _ENTRY and path == state):  # what is in it stays as it is
            continue
        if path == state and not os.path.lexists(path):
            kept.passed = False  # a new one gets a mark of its own
        kept.refuse_change()


def _states(path: str) -> Iterator[str]:
    """The watched states that a path lies in."""
    at = path.find(_NAME)
    while at >= 0:
        end = at + len(_NAME)
        if path[end : end + 1] in ("", "/") and path[:end] in _kept:
            yield path[:end]
        at = path.find(_NAME, end)


def _refuse_links(path: str, state: str, top: int, *, itself: bool) -> None:
    """Raise `StorageError` for a link on the way; below a folder of the user's files they are the user's."""
    if users := _USERS.match(path, len(state)):
        path, itself = path[: users.end()], True
    end = path.find("/", top + 1)
    while end >= 0:
        _refuse_link(path[:end])
        end = path.find("/", end + 1)
    if itself:
        _refuse_link(path)


def _refuse_link(path: str) -> None:
    try:
        linked = stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:  # it is not there, and the call says so
        return
    if linked:
        raise _link(path)


def _link(path: str) -> StorageError:
    fix = "remove the link"
    if path.endswith((_NAME, "/.fractal")):
        fix += "; to keep state on another disk, mount a folder of that disk there"
    return StorageError(f"{path} is a link, and Fractal follows no link to or in its state; {fix}")
