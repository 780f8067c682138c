"""How many runs may be at work in one process: each holds files open, and the system allows only so many."""

from __future__ import annotations

import asyncio
import functools
import resource
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

FILES = 8
"""Open files that a run may come to need: its lock, documents, the pipes of a command or two."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_room: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def one_of_many(work: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Let only as many be at work side by side as there are files for; the others wait for their turn."""

    @functools.wraps(work)
    async def in_turn(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        loop = asyncio.get_running_loop()
        if loop not in _room:
            allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            unlimited = allowed == resource.RLIM_INFINITY
            _room[loop] = asyncio.Semaphore(10**6 if unlimited else max(1, allowed // FILES))
        async with _room[loop]:
            return await work(*args, **kwargs)

    return in_turn
