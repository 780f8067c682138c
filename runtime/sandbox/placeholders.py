"""Names in a folder that a command may not take: held by an empty folder, or cleared after it.

This module knows nothing of the sandbox.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PLACEHOLDER = 0o1700
"""Mode of the empty folders, which identifies those that a crash left."""


def occupied(path: Path) -> bool:
    """Whether there is a file or folder, other than an empty `placeholder` folder."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        return False
    if not stat.S_ISDIR(mode) or stat.S_IMODE(mode) & ~stat.S_ISGID != PLACEHOLDER:
        return True
    return not os.access(path, os.R_OK) or any(path.iterdir())


def hideable(path: Path) -> bool:
    """Whether an empty folder may temporarily exist at `path` without side effects."""
    # others read `.mcp.json` as well: it must not be a folder even temporarily
    return path.name.startswith(".") and not path.suffix and not path.is_symlink()


@contextmanager
def placeholder(path: Path) -> Generator[bool]:
    """An empty folder at `path` while any process needs it; False if it cannot be created.

    Each process holds a shared lock on it, and the last one removes it. The next run recognises a folder
    left by a crash by its mode and reuses it. `rmdir` fails if anything is in it.
    """
    handle = _hold(path)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            with suppress(OSError):  # somebody else holds it, or it has become a real folder
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.rmdir()
            os.close(handle)


def _hold(path: Path) -> int | None:
    while True:
        try:
            with suppress(FileExistsError):
                path.mkdir(PLACEHOLDER)
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            if path.parent.is_dir():
                continue  # removed by its last holder just now
            return None
        except OSError:
            return None  # the folder cannot be written by us, so neither by the command
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), path.lstat()):
                return handle
        os.close(handle)


@contextmanager
def watched(path: Path, folder: Path, undone: list[str]) -> Generator[None]:
    """Move aside what a command creates at `path`, where nothing or a link was."""
    link = _link(path)
    try:
        yield
    finally:
        if (link is not None and _link(path) != link) or (link is None and os.path.lexists(path)):
            undone.append(_put_back(path, folder, link))


def _link(path: Path) -> Path | None:
    try:
        return path.readlink()
    except OSError:
        return None


def _put_back(path: Path, folder: Path, link: Path | None) -> str:
    name = path.relative_to(folder).as_posix()
    message = f"{name} is a protected name"
    try:
        if os.path.lexists(path):
            aside = path.with_name(f"{path.name}.refused")
            number = 1
            while os.path.lexists(aside):
                number += 1
                aside = path.with_name(f"{path.name}.refused-{number}")
            path.rename(aside)
            message += f": what the command put there is now {aside.relative_to(folder).as_posix()}"
        if link is not None:
            path.symlink_to(link)
            message += "; the link that stood there was put back"
    except OSError as error:
        message += f", and what the command did there could not be undone ({error.strerror}); look at it"
    return message
