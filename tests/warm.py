"""Processes that start at once, which saves importing everything in each of them.

`Process` is `subprocess.Popen`, and `run` is `subprocess.run`, for a command of this Python interpreter: the
process is a fork of one that has everything imported (warm_start.py). It has its own streams, folder,
environment, process group and exit, and dies of signals. `started` is for a library that starts a command.
At night, and on other systems than Linux, every process is started with a new interpreter.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import inspect
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import warm_start
from lanes import NIGHT

WARM = sys.platform == "linux" and not NIGHT
REPOSITORY = Path(__file__).parents[1]
OPENS = ("-c", "-m")
MEANT = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
"""Variables of the interpreter with which a fork does the same."""


@functools.cache
def _address() -> str:
    """The socket of the process that starts others."""
    folder = tempfile.TemporaryDirectory(prefix="warm-")
    path = f"{folder.name}/s"
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    process = subprocess.Popen(
        [sys.executable, warm_start.__file__, "serve", path],
        cwd=REPOSITORY,
        env={**kept, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return path


def can(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork does what a new interpreter would."""
    ours = command[0] == sys.executable and (command[1] in OPENS or command[1].endswith(".py"))
    loads = {key for key in env if key.startswith(("PYTHON", "LD_"))}  # what counts when it is loaded
    return WARM and ours and not loads - MEANT


def started(command: Sequence[str]) -> list[str]:
    """A command that starts this one as a fork, and ends with it."""
    if not can(command, {}):
        return list(command)
    return [sys.executable, "-IS", warm_start.__file__, "start", _address(), *command[1:]]


@functools.cache
def commands() -> str:
    """A folder for the PATH of a shell, whose `fractal` starts as a fork; at night the installed one."""
    if not WARM:
        return str(Path(sys.executable).parent)
    folder = Path(tempfile.mkdtemp(prefix="commands-"))
    atexit.register(shutil.rmtree, folder)
    start, program = folder / "start.py", folder / "fractal"
    start.write_text("from fractal.__main__ import main\n\nmain()\n")
    program.write_text(f'#!/bin/sh\nexec {shlex.join(started([sys.executable, str(start)]))} "$@"\n')
    program.chmod(0o755)
    return str(folder)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Process(subprocess.Popen[Any]):
    """`subprocess.Popen`, as a fork where that does the same; `terminal` makes its streams its terminal."""

    def __init__(self, command: Sequence[str], *, terminal: bool = False, **options: Any) -> None:
        self._line: Any = None
        self._terminal = terminal
        super().__init__(list(command), **options)

    def _execute_child(self, *given: Any) -> None:
        parameters = inspect.signature(subprocess.Popen._execute_child).parameters  # type: ignore[attr-defined]
        named = dict(zip(list(parameters)[1:], given, strict=True))
        env = dict(os.environ if named["env"] is None else named["env"])
        if not can(named["args"], env):
            if self._terminal:
                named["preexec_fn"] = _take_terminal
            super()._execute_child(*named.values())  # type: ignore[misc]
            return
        pipes = [(named["p2cread"], named["p2cwrite"]), (named["c2pwrite"], named["c2pread"])]
        pipes.append((named["errwrite"], named["errread"]))
        streams = [n if fd == -1 else fd for n, (fd, _) in enumerate(pipes)]
        asked = {"command": named["args"][1:], "cwd": os.fspath(named["cwd"] or Path.cwd()), "env": env}
        asked |= {"session": named["start_new_session"] or self._terminal, "terminal": self._terminal}
        self.pid, self._line = warm_start.request(_address(), asked, streams)
        self._child_created = True
        self._close_pipe_fds(*(named[key] for key in FDS))  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._line is None:
            return super()._try_wait(flags)  # type: ignore[misc]
        if not select.select([self._line], [], [], 0 if flags & os.WNOHANG else None)[0]:
            return 0, 0
        status = warm_start.ended(self._line)
        self._line.close()
        return self.pid, status

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:
        if self._line is None:
            return super()._internal_poll(*given, **more)  # type: ignore[misc]
        if self.returncode is None and self._line.fileno() != -1:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


FDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def run(command: Sequence[str], *, timeout: float | None = None, **options: Any) -> Any:
    """`subprocess.run`, as a fork where that does the same."""
    given = options.pop("input", None)
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        options["stdin"] = subprocess.PIPE
    check = options.pop("check", False)
    with Process(command, **options) as process:
        try:
            out, err = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
