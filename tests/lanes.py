"""The two lanes of tests: those of each change, and with FRACTAL_NIGHT=1 all of them, with more examples.

A test of the first lane reads no clock, so that other work on the machine decides nothing. `within` says how
long something may take, and measures at night only. `until` waits for what another thread or process does.
`pause` lets time pass where nothing may depend on how much: before a kill, or before a look at what must not
have happened.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

NIGHT = os.environ.get("FRACTAL_NIGHT") == "1"
Made = TypeVar("Made")
PATIENCE = 120.0
"""Seconds after which a wait fails: longer than anything takes on a busy machine."""


def examples(count: int) -> int:
    """How many examples of a test of formats are drawn: so many at night, a quarter by day."""
    return count if NIGHT else count // 4


def every(count: int) -> int:
    """How far apart the points are at which a test kills: all of them at night, each `count`th by day."""
    return 1 if NIGHT else count


def chance(seed: int) -> random.Random:
    """Random numbers: the same ones by day, new ones each night; a test that fails shows the seed."""
    seed = random.SystemRandom().randrange(10**9) if NIGHT else seed
    print("seed", seed)
    return random.Random(seed)


def seconds(act: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of one call, the least of several."""
    assert NIGHT, "a test that measures is marked night"
    taken: list[float] = []
    for _ in range(times):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return min(taken)


@contextmanager
def within(seconds: float, *, least: float = 0.0) -> Iterator[None]:
    """The block takes less than this, and at least `least`; by day only the test's timeout limits it."""
    began = time.monotonic() if NIGHT else 0.0
    yield
    if NIGHT:
        took = time.monotonic() - began
        assert least <= took < seconds, f"it took {took:.2f} s, and may take {least} to {seconds} s"


def elapsed(act: Callable[[], Made]) -> tuple[float, Made]:
    """The seconds until a call returned, and what it returned: no part of it took longer, on any machine."""
    began = time.monotonic()
    made = act()
    return time.monotonic() - began, made


def until(what: Callable[[], Any], seconds: float = PATIENCE, says: Callable[[], object] = lambda: "") -> Any:
    """Wait until the function returns a true value, and return it; `says` tells more where it never does."""
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, f"it did not become true in {seconds} s {says()}"
        time.sleep(0.01)
    return got


async def async_until(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The same in a coroutine; the event loop goes on meanwhile."""
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, f"it did not become true in {seconds} s"
        await asyncio.sleep(0.01)
    return got


def pause(seconds: float) -> None:
    """Let time pass, where nothing depends on how much."""
    time.sleep(seconds)


async def async_pause(seconds: float) -> None:
    """The same in a coroutine."""
    await asyncio.sleep(seconds)
