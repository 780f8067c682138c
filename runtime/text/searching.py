"""Searches a text for a pattern that anybody may have written, in bounded time."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT

from kernel.errors import OperationFailed
from runtime.text.expressions import pattern_of, quick

PATTERN = 1_000
"""Maximum characters of a pattern."""
SEARCH_SECONDS = 5.0
"""Time limit of a search in its own process."""
QUICK = 4_000
"""Maximum characters of a text that is searched in this process; the pattern must be `quick`."""
_SEARCH = (
    "import json, re, signal, sys; signal.alarm(30); pattern, text = json.load(sys.stdin); "
    "hit = re.search(pattern, text, re.MULTILINE); print(json.dumps(hit and hit[0][:60]))"
)
_PLAIN = re.compile(r"[^\\.^$*+?{}\[\]|()]+")


async def search(pattern: str, text: str) -> str | None:
    """The first 60 characters of the first match; None if there is no match.

    Raises `OperationFailed` for an invalid pattern and for a search of more than `SEARCH_SECONDS`.
    """
    if len(pattern) > PATTERN:
        raise OperationFailed(f"the pattern is longer than {PATTERN} characters")
    if _PLAIN.fullmatch(pattern):
        return pattern[:60] if pattern in text else None
    try:
        compiled = pattern_of(pattern, re.MULTILINE)
    except ValueError as error:
        raise OperationFailed(str(error)) from None
    if len(text) <= QUICK and quick(pattern):
        hit = compiled.search(text)
        return hit[0][:60] if hit else None
    return json.loads(await _search_apart(pattern, text))


async def _search_apart(pattern: str, text: str) -> bytes:
    """Search in a separate process, which can be stopped and which ends by itself if this one dies."""
    process = await asyncio.create_subprocess_exec(
        *(os.path.realpath(sys.executable), "-I", "-S", "-c", _SEARCH),
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        cwd="/",
        env={},
    )
    try:
        given = json.dumps([pattern, text]).encode()
        printed, _ = await asyncio.wait_for(process.communicate(given), SEARCH_SECONDS)
    except TimeoutError:
        message = f"{pattern!r} took longer than {SEARCH_SECONDS:g} s; use a simpler pattern"
        raise OperationFailed(message) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = printed.decode("utf-8", "replace")[-200:].strip()
        raise OperationFailed(f"{pattern!r} could not be searched: {said}")
    return printed
