"""A real server of `fractal serve` on a free loopback port, in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from runtime.cli.listening import bound, shown
from runtime.server.app import create_app


@contextmanager
def served(folder: Path, *, token: str = "", **settings: Any) -> Iterator[str]:
    """Serve the workspace of a folder; yields the base URL."""
    listening = bound("--address", "127.0.0.1:0", token)
    app = create_app(folder, settings=settings, token=token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield shown(listening)
    finally:
        server.should_exit = True
        thread.join(30)
