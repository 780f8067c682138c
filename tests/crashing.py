"""Crashes a fork of the test process at a given call that changes files, or kills it after some."""

from __future__ import annotations

import os
import signal
import sys
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
