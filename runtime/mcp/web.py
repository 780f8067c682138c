"""A server at an address: the SDK's transports, with answers that cannot grow without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from runtime.mcp.configured import Entry
from runtime.mcp.stdio import MESSAGE_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0
"""How long a stream may stand still; a call has its own, shorter time."""
STREAM_BYTES = 8 * MESSAGE_BYTES
"""Of a stream of messages; one message has the bound of all transports."""


class Address:
    """One session with a server at an address; `why` tells how it went wrong, once it has."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.why = ""
        self.gone = asyncio.Event()  # an address is never gone: the next call tells

    def told(self) -> str:
        """What is known of it, for whoever wonders why a call failed."""
        return self.why

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """Connect, and hand over its messages."""
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        if self.entry.transport == "sse":
            async with sse_client(
                self.entry.url,
                dict(self.entry.headers),
                timeout=CONNECT_SECONDS,
                sse_read_timeout=SILENT_SECONDS,
                httpx_client_factory=self._client,
            ) as streams:
                yield streams
            return
        async with (
            self._client(dict(self.entry.headers)) as client,
            streamable_http_client(
                self.entry.url, http_client=client, max_sse_event_size=MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    def _client(self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        import httpx2

        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=SILENT_SECONDS),
            auth=auth,
            event_hooks={"response": [self._look]},
        )

    async def _look(self, response: Any) -> None:
        """Before anything is read of an answer: is it one, and how much of it may there be?"""
        status = response.status_code
        if status in (401, 403):
            self.why = f"it wants a credential (HTTP {status}); give it one with headers"
        elif status >= 500:
            self.why = f"it answered with HTTP {status}"
        if response.headers.get("content-encoding", "identity") not in ("", "identity"):
            self.why = "it sent a compressed answer that nobody had asked for"
            limit = 0
        else:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            limit = STREAM_BYTES if streamed else MESSAGE_BYTES
        response.stream = _bounded(response.stream, limit, self)


def _bounded(stream: Any, limit: int, address: Address) -> Any:
    """The same stream, which fails where it becomes too long."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for chunk in stream:
                total += len(chunk)
                if total > limit:
                    address.why = address.why or f"it sent more than {limit // 1_000_000} MB"
                    raise httpx2.StreamError(address.why)
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
