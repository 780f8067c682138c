"""An OTLP collector on loopback that keeps the spans that it is sent."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Collector:
    """What an OTLP collector was sent: spans by id, with the name of each parent."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        received: list[Any] = []
        self.headers: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = handler.rfile.read(int(handler.headers["content-length"]))
                self.headers.append({**handler.headers})
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        received.extend(scope.spans)
                handler.send_response(200)
                handler.send_header("content-length", "0")
                handler.end_headers()

            def log_message(handler, *args: Any) -> None:
                pass

        self.spans = received
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @contextmanager
    def running(self) -> Generator[Collector]:
        """It answers until the block ends."""
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()

    def tree(self) -> list[tuple[str, str]]:
        """The name of each span with that of its parent; "-" for one that was not sent."""
        named = {span.span_id: span.name for span in self.spans}
        return [(named.get(span.parent_span_id, "-"), span.name) for span in self.spans]

    def attributes(self, name: str) -> list[dict[str, Any]]:
        return [
            {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
            for span in self.spans
            if span.name == name
        ]
