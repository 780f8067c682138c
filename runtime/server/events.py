"""The endpoints of events: server-sent events, and a WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, WebSocket
from fastapi.responses import StreamingResponse
from starlette.types import Send
from starlette.websockets import WebSocketDisconnect

from runtime.server.hub import MOST_CLIENTS, Hub
from runtime.server.service import Served

PATIENCE = 30.0
"""Seconds that a client may take to accept a piece; then its stream ends."""
SSE = "text/event-stream"

router = APIRouter(tags=["events"])


class Stream(StreamingResponse):
    """Server-sent events, which end when the client no longer takes them."""

    media_type = SSE

    def __init__(self, hub: Hub, after: str, run: str, text: bool) -> None:
        super().__init__(sent.as_sse() async for sent in hub.follow(after, run, text=text))
        self.hub = hub

    async def stream_response(self, send: Send) -> None:
        """Send piece by piece, each within `PATIENCE`."""

        async def timely(message: Any) -> None:
            async with asyncio.timeout(PATIENCE):
                await send(message)

        with self.hub.client(), suppress(TimeoutError):
            await super().stream_response(timely)


@router.get("/api/events", response_class=StreamingResponse, responses={200: {"content": {SSE: {}}}})
async def events(
    served: Served,
    run: str = "",
    after: str = "",
    text: bool = False,
    last_event_id: Annotated[str, Header()] = "",
) -> Stream:
    """What happens, as server-sent events: each an event of docs/events.md, with a numbered id.

    A client that reconnects sends `Last-Event-ID` (or `after`) and gets what it missed; where that is not
    known any more, one event `reload`. `run` selects one run. With `text` also the replies of models as they
    are written: events `reply_delta`, without an id, which nobody gets again.
    """
    if served.events.full:
        raise HTTPException(503, f"{MOST_CLIENTS} clients follow already; try again later")
    return Stream(served.events, last_event_id or after, run, text)


@router.websocket("/api/brain/events")
async def brain_events(websocket: WebSocket, served: Served, run: str = "", after: str = "") -> None:
    """The same over a WebSocket: each message is an event as JSON with its `id`, or only an `id` (alive)."""
    if served.events.full:
        await websocket.close(1013, "too many clients")
        return
    with served.events.client():
        await websocket.accept()
        gone = asyncio.create_task(_gone(websocket))
        sending = asyncio.create_task(_send_all(websocket, served.events, run, after))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)


async def _send_all(websocket: WebSocket, hub: Hub, run: str, after: str) -> None:
    async for sent in hub.follow(after, run):
        async with asyncio.timeout(PATIENCE):
            await websocket.send_text(sent.as_message())
    await websocket.close(1001)


async def _gone(websocket: WebSocket) -> None:
    """Wait until the client leaves; what it says is not heard."""
    try:
        while True:
            await websocket.receive()
    except (WebSocketDisconnect, RuntimeError):
        return
