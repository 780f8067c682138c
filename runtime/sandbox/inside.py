"""Changes below a folder that follow no link: what a run leaves there may lead to any place of the user's.

Each raises `OSError` where a folder on the way is a link, or no folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from kernel import disk

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def above(path: str) -> list[str]:
    """The folders that a relative path lies in, the outermost first."""
    return list(accumulate(path.split("/")[:-1], "{}/{}".format))


def make_folder(root: Path, path: str) -> None:
    """Make a folder below `root`, and those that it lies in."""
    with _opened(root, path, make=True):
        return


def set_mode(root: Path, path: str, mode: int | Callable[[int], int]) -> None:
    """Set the mode of a file or folder below `root`, or what a function makes of the mode that it has.

    What is a link itself stays as it is.
    """
    within, _, name = path.rpartition("/")
    with _opened(root, within) as folder:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            was = os.fstat(handle).st_mode
            new = mode(was) if callable(mode) else mode
            if not stat.S_ISLNK(was) and stat.S_IMODE(new) != stat.S_IMODE(was):
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(new))
        finally:
            os.close(handle)


@contextmanager
def _opened(root: Path, path: str, make: bool = False) -> Generator[int]:
    """A handle of a folder below `root` ("" is that one), with which it is named and not read."""
    with disk.handle_of(root, os.O_PATH | os.O_DIRECTORY) as top:
        handle = os.dup(top)
        try:
            for name in filter(None, path.split("/")):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=handle)
                inner = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)
