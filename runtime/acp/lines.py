"""The lines that an editor sends: only messages of JSON-RPC reach the SDK, which any other would end.

A line is told of and left out that is no JSON, no object, or an answer of the wrong form.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

LARGEST = 1_000_000
"""Bytes of a line that is looked into; of a longer one, only how it begins."""


class MessageReader(asyncio.StreamReader):
    """Reads as the stream behind it, without lines that are no messages; `told` gets why one is left out.

    The SDK wants a stream of this class, and reads it by two of its methods.
    """

    def __init__(self, stream: asyncio.StreamReader, told: Callable[[str], object]) -> None:
        super().__init__()
        self._stream, self._told = stream, told
        self._begun = False  # a part of a line was read that is longer than the stream's limit
        self._dropped = False  # and it is none of a message

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        """The next line, or the rest of one; raises as the stream does."""
        while True:
            line = await self._stream.readuntil(separator)
            if self._begun:
                self._begun, dropped = False, self._dropped
                return separator if dropped else line
            if not (why := _no_message(line)):
                return line
            self._told(f"a line of the editor is left out: {why}")

    async def readexactly(self, n: int) -> bytes:
        """A part of a line that is longer than the stream's limit."""
        part = await self._stream.readexactly(n)
        if not self._begun:
            self._begun, why = True, _no_message(part)
            self._dropped = bool(why)
            if why:
                self._told(f"a line of the editor is left out: {why}")
        return b"" if self._dropped else part


def _no_message(line: bytes) -> str:
    """Why a line is no message; "" if it may be one, or is empty."""
    begin = line[:100].lstrip()[:1]
    if not begin or (len(line) > LARGEST and begin == b"{"):
        return ""
    if len(line) > LARGEST:
        return "it is no JSON object"
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(message, dict):
        return "it is no JSON object"
    fields = cast(dict[str, Any], message)
    if not isinstance(fields.get("id"), str | int | float | None):
        return "its id is no text and no number"
    if not isinstance(fields.get("method"), str | None):
        return "its method is no text"
    return "" if isinstance(fields.get("error"), dict | None) else "its error is no object"
