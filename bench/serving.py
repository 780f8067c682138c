"""A server on loopback for the time of a block, and what it answers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(http: ThreadingHTTPServer) -> Generator[None]:
    """Answer requests in a thread of its own until the block ends; then the address is free."""
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield
    finally:
        http.shutdown()
        http.server_close()


def send(
    handler: BaseHTTPRequestHandler, content: bytes, kind: str = "application/json", status: int = 200
) -> None:
    """Answer a request with a whole content."""
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
