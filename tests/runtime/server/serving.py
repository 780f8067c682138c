"""A real server of a workspace on loopback, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from runtime.server.app import create_app


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[str]:
    """Serve a folder on a free port; gives the address, such as http://127.0.0.1:41234."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = create_app(folder, settings=settings)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
