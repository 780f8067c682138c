"""Crashes a fork of the test process at a given call that changes files."""

from __future__ import annotations

import os
from collections.abc import Callable

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
