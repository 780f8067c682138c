"""What a server answers, unpacked piece by piece: no answer gets more memory than it may have bytes.

The bytes are counted once they are unpacked. Whoever reads an answer of a server reads it through here: the
clients of models, of tool servers and of Fractal's own server by `hold`, the operation `fetch` by `unpacked`.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

PIECE = 65_536
"""Bytes that are unpacked at once."""
ROOM = 5_000_000
"""Bytes of an answer beside its text: heads of events, comments that keep a connection alive."""
OF_TOKEN = 1_000
"""Bytes of one token of a reply that comes as an event of its own."""
PACKED = frozenset({"gzip", "x-gzip", "deflate"})
ACCEPTED = {"accept-encoding": "gzip, deflate"}
"""The header for clients whose library would also ask for what cannot be unpacked here."""


class TooLarge(Exception):
    """An answer is longer than it may be, or packed in a way that was not asked for."""


def of_reply(tokens: int) -> int:
    """The most bytes of an answer whose reply has at most so many tokens."""
    return ROOM + OF_TOKEN * tokens


class Unpacker:
    """Counts and unpacks an answer whose head names this encoding; raises `TooLarge`."""

    def __init__(self, encoding: str, most: int) -> None:
        encoding = encoding.lower().strip()
        if encoding not in ("", "identity") and encoding not in PACKED:
            raise TooLarge(f"the answer is packed as {encoding[:40]}, which was not asked for")
        self.most, self._left = most, most
        self._zip = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in PACKED else None
        self._raw = encoding == "deflate"  # some servers send it without its head

    def take(self, piece: bytes) -> Iterator[bytes]:
        """The next piece as it is unpacked."""
        out = b""
        while piece or (self._zip and len(out) == PIECE):  # zlib may hold back what did not fit
            out, piece = self._unpack(piece) if self._zip else (piece, b"")
            self._left -= len(out)
            if self._left < 0:
                raise TooLarge(f"the answer is longer than {self.most / 1_000_000:g} MB")
            if out:
                yield out

    def _unpack(self, piece: bytes) -> tuple[bytes, bytes]:
        assert self._zip is not None
        try:
            out = self._zip.decompress(piece, PIECE)
        except zlib.error:
            if not self._raw:
                raise TooLarge("the answer is not properly packed") from None
            self._raw, self._zip = False, zlib.decompressobj(-zlib.MAX_WBITS)
            return self._unpack(piece)
        self._raw = False
        if self._zip.eof:  # what follows the end is no part of the answer
            return out, b""
        return out, self._zip.unconsumed_tail


def unpacked(pieces: Iterable[bytes], encoding: str, most: int) -> Iterator[bytes]:
    """The pieces of an answer, counted and unpacked."""
    unpacker = Unpacker(encoding, most)
    for piece in pieces:
        yield from unpacker.take(piece)


def hold(
    response: Any, most: int, httpx: Any, error_of: Callable[[TooLarge], Exception] = lambda error: error
) -> None:
    """Bound a response of `httpx` (or a package with its interface), whose body is not read yet.

    Also that of a redirect, which a client reads by itself: call it in an event hook.
    """
    stream, encoding = response.stream, response.headers.get("content-encoding", "")
    if "content-encoding" in response.headers:  # else the library would unpack it, without a bound
        del response.headers["content-encoding"]

    class Bounded(httpx.AsyncByteStream, httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from unpacked(stream, encoding, most)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                unpacker = Unpacker(encoding, most)
                async for piece in stream:
                    for out in unpacker.take(piece):
                        yield out
            except TooLarge as error:
                raise error_of(error) from None

        def close(self) -> None:
            stream.close()

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


LIMIT: ContextVar[int] = ContextVar("LIMIT", default=16_000_000)
"""The most bytes of the answer that this task asks for."""


async def held(response: Any) -> None:
    """An event hook of `httpx.AsyncClient`: each answer is bounded by `LIMIT`."""
    import httpx

    hold(response, LIMIT.get(), httpx)
