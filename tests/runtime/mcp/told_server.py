"""An MCP server that says what a file tells it to: `told_server.py FILE`, on standard input and output.

`over_http` serves the same at an address of this process.

The file is JSON: `pages`, the results of tools/list by cursor ("" is the first, "*" any other), and
`answers`, what a call of each tool answers: a result, or {"message": …} for the whole message.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


def answer_to(told: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    method, params = request["method"], request.get("params") or {}
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
    if method == "initialize":
        info = {"name": "told", "version": "1"}
        capabilities = {"tools": {}}
        answer = {
            "result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        }
    elif method == "tools/list":
        pages, cursor = told["pages"], str(params.get("cursor", ""))
        answer = {"result": pages.get(cursor, pages.get("*"))}
    elif method == "tools/call":
        given = told["answers"][params["name"]]
        answer = given["message"] if isinstance(given, dict) and "message" in given else {"result": given}
    return {"jsonrpc": "2.0", "id": request["id"], **answer}


@contextmanager
def over_http(told: Mapping[str, Any], *, stream: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the paths that were asked for; with `stream` each answer is an event."""
    asked: list[str] = []

    class Told(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = json.dumps(answer_to(told, request)) if "id" in request else ""
            body = f"event: message\r\ndata: {text}\r\n\r\n" if stream and text else text
            self.send_response(200 if text else 202)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Told)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", asked
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    what = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        asking = json.loads(line)
        if "id" in asking:
            sys.stdout.write(json.dumps(answer_to(what, asking)) + "\n")
            sys.stdout.flush()
