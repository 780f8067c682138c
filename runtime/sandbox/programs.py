"""The programs that Fractal starts itself, each by an absolute path that no run can write."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from kernel.errors import ConfigurationError


def program(name: str, folder: Path) -> str | None:
    """The absolute path of a program on the PATH; None where it is not installed.

    Places in `folder`, where runs write, are passed over. Raises `ConfigurationError` for a program that lies
    only there: a run could have put it there.
    """
    return _program(name, folder.resolve(), os.environ.get("PATH", os.defpath))


@functools.cache
def _program(name: str, folder: Path, path: str) -> str | None:
    inside = ""
    for place in path.split(os.pathsep):
        found = Path(place or ".", name).absolute()
        if not (found.is_file() and os.access(found, os.X_OK)):
            continue
        if folder in found.parents or folder in found.resolve().parents:
            inside = inside or str(found)
        else:
            return str(found)
    if inside:
        raise ConfigurationError(
            f"{inside} lies in the folder that runs write in; install {name} for the system, "
            f"or take {Path(inside).parent} off the PATH"
        )
    return None
