"""A server on loopback for the time of a block."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def serving(http: ThreadingHTTPServer) -> Generator[None]:
    """Answer requests in a thread of its own until the block ends; then the address is free."""
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield
    finally:
        http.shutdown()
        http.server_close()
