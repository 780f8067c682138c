"""A web site on loopback with fixed pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def web_site(pages: Mapping[str, str], *, missing: tuple[int, str] = (404, "no such page")) -> Iterator[str]:
    """The address of a site with these pages by path; `missing` is status and text of any other path."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, page = (200, pages[self.path]) if self.path in pages else missing
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
