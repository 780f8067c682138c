"""A server of the page on loopback, in a thread: a test sees the link that a person gets at the terminal."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lanes import until

from runtime.server.app import create_app
from runtime.server.serving import serving


@contextmanager
def served(
    folder: Path,
    *,
    announce: Callable[[str], None] | None = None,
    token: str = "",
    port: int = 0,
    **settings: Any,
) -> Iterator[str]:
    """Serve a folder on this port, or a free one; gives the address, such as http://127.0.0.1:41234."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = serving(create_app(folder, settings=settings, token=token, announce=announce))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
