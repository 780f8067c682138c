"""Finds and starts Fractal's own programs: by an absolute path that no run can write, with few variables.

Beside it only `process` (commands of runs) and the client of MCP servers start programs.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel.errors import ConfigurationError

PYTHON = (os.path.realpath(sys.executable), "-I", "-S")
"""An interpreter with its standard library alone: not even the settings of a virtual environment."""


def program(name: str, folder: Path) -> str | None:
    """The absolute path of a program on the PATH; None where it is not installed.

    Places in `folder` and in the folder of any workspace, where runs write, are passed over. Raises
    `ConfigurationError` for a program that lies only there: a run could have put it there.
    """
    return _program(name, folder.resolve(), os.environ.get("PATH", os.defpath))


@functools.cache
def _program(name: str, folder: Path, path: str) -> str | None:
    inside = None
    for place in path.split(os.pathsep):
        found = Path(place or ".", name).absolute()
        if not (os.access(found, os.X_OK) and found.is_file()):  # the user may not enter each folder on it
            continue
        if not any(_written(each, folder) for each in (found, found.resolve())):
            return str(found)
        inside = inside or found
    if inside:
        raise ConfigurationError(
            f"{inside} lies in a folder that runs write in; install {name} for the system, "
            f"or take {inside.parent} off the PATH"
        )
    return None


def _written(path: Path, folder: Path) -> bool:
    """Whether runs write where a path lies: in `folder`, or in the folder of another workspace.

    No program lies outside of `/`, which no sandbox takes for its folder.
    """
    *within, _ = path.parents
    return folder in within or any(
        (place / ".fractal").is_dir() or (place / "fractal.yaml").is_file() for place in within
    )


def start(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    stdin: int = subprocess.DEVNULL,
    umask: int = -1,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program by its absolute path in `folder`, with the variables `env` and no others but a PATH."""
    if not Path(words[0]).is_absolute():
        raise ValueError(f"{words[0]}: a program is started by its absolute path")
    path = os.pathsep.join((str(Path(words[0]).parent), os.defpath))
    variables = {"PATH": path, "LC_ALL": "C.UTF-8", **(env or {})}
    return subprocess.Popen(
        words,
        cwd=folder,
        env=variables,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        umask=umask,
        pass_fds=pass_fds,
    )


def run(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Start a program and wait for its end; raises `TimeoutExpired` after `timeout` seconds."""
    with start(words, folder, env, stdin=subprocess.PIPE) as process:
        try:
            out, errors = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, errors)
