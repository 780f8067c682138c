"""The web server: uvicorn, which ends the streams of events when it stops."""

from __future__ import annotations

import socket
import sys

import uvicorn

from runtime.server.hub import Hub
from runtime.server.security import LARGEST, Guarded

TURN = 0.0005
"""Seconds that a thread computes before another may; Python's own 5 ms would delay each answer by several."""
PATIENCE = 5
"""Seconds that requests may take to end when the server stops."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, events: Hub) -> None:
        super().__init__(config)
        self.events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.events.close()  # else each stream would go on for PATIENCE
        await super().shutdown(sockets)


def serving(app: Guarded) -> uvicorn.Server:
    """The server for an application. Its threads then take turns often, so that quick requests wait less."""
    sys.setswitchinterval(TURN)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        ws_max_size=LARGEST,
    )
    return _Server(config, app.app.state.service.events)
