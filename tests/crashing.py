"""Crashes a fork of the test process at a given call that changes files, or kills it after some.

`images` is the quick way to kill it at all of them: the process is not killed, and what a kill would leave of
its files is copied at each call.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.crash import faults


def crashes(act: Callable[[], object], at: int, where: str) -> bool:
    """Crash a fork before, half-way in or after its `at`th such call. False: it made fewer calls."""
    child = os.fork()
    if not child:
        try:
            faults.install()
            faults.arm(at, where, os.open(os.devnull, os.O_WRONLY), every=False)
            act()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == faults.EXIT


UNSEEN = re.compile(r"(?!replace|rename|link).* .*(\.tmp|lock)|f(data)?sync .*")
"""Calls that change nothing that another process looks at: temporary files, locks."""


def forked(act: Callable[[], Any]) -> Any:
    """What `act` returns in a fork of this process. Raises `EOFError` if it fails there."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(act(), pipe)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(raw)


def images(act: Callable[[], Any], place: Path, into: Path, every: int = 1) -> list[Path]:
    """Copies of `place` as a kill at each (or each `every`th) call of `act` that changes a file leaves it.

    There is one before each call, and one half-way through each write.
    """
    seen = 0

    def look(name: str, path: str) -> None:
        nonlocal seen
        if not UNSEEN.fullmatch(f"{name} {path}"):
            seen += 1
            if seen % every == 0:
                shutil.copytree(place, into / f"{seen:05d} {name} {Path(path).name}", symlinks=True)

    def record() -> None:
        faults.install()
        faults.watch(look)
        act()

    forked(record)
    return sorted(into.iterdir())


CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.symlink"}


def killed_after(act: Callable[[], Any], work: Path, changes: int) -> bool:
    """Whether the process was killed after this many changes of the folder, rather than finished."""

    def look(event: str, args: tuple[Any, ...]) -> None:
        nonlocal changes
        path = str(args[0]) if event in CHANGES else ""
        if path.startswith(str(work)) and ".fractal" not in path:
            changes -= 1
            if changes < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        sys.addaudithook(look)
        act()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
