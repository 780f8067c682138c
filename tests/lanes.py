"""The two lanes of tests: those of each change, and with FRACTAL_NIGHT=1 all of them, with more examples.

A test of the first lane reads no clock, so that other work on the machine decides nothing. `within` says how long
something may take, and measures at night only. `until` and `until_soon` wait for what another thread, process or
task does.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NIGHT = os.environ.get("FRACTAL_NIGHT") == "1"
PATIENCE = 120.0
"""Seconds after which a wait fails: longer than anything takes on a busy machine."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes less than this at night; by day only the timeout of the test limits it."""
    began = time.monotonic() if NIGHT else 0.0
    yield
    if NIGHT:
        took = time.monotonic() - began
        assert took < seconds, f"it took {took:.2f} s, and may take {seconds} s"


def until(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until the function returns a true value, and return it."""
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, f"it did not become true in {seconds} s"
        time.sleep(0.01)
    return got


async def until_soon(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The same in a coroutine; the event loop goes on meanwhile."""
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, f"it did not become true in {seconds} s"
        await asyncio.sleep(0.01)
    return got
