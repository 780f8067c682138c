"""A model server on loopback that speaks OpenAI's protocol and plays a fixed script for each job.

The address of a job is `URL/JOB/v1`. Its first request gets the first reply of its script, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from bench.serving import send, serving

Reply = str | tuple[str, Mapping[str, Any]]
"""A text, or a tool call: its name and arguments."""


class Scripted:
    """The server. `requests` counts the requests of each job."""

    def __init__(self) -> None:
        self.scripts: dict[str, Sequence[Reply]] = {}
        self.requests: dict[str, int] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def play(self, job: str, script: Sequence[Reply]) -> str:
        """Set the script of a job from its beginning; returns the address for its client."""
        self.scripts[job], self.requests[job] = script, 0
        return f"{self.url}/{job}/v1"

    def next(self, job: str) -> Reply:
        """The next reply; the last one is repeated."""
        at = self.requests[job]
        self.requests[job] = at + 1
        return self.scripts[job][min(at, len(self.scripts[job]) - 1)]

    @contextmanager
    def running(self) -> Iterator[Scripted]:
        """Serve until the block ends."""
        with serving(self._http):
            yield self


def _handler(server: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer a request for a chat completion."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.next(self.path.split("/")[1])
            content = _stream(reply, body) if body.get("stream") else _whole(reply, body)
            send(self, content, "text/event-stream" if body.get("stream") else "application/json")

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log."""

    return Handler


USAGE = {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520}


def _message(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    function = {"name": reply[0], "arguments": json.dumps(reply[1])}
    return {"role": "assistant", "content": None} | {
        "tool_calls": [{"index": 0, "id": f"call-{uuid4().hex}", "type": "function", "function": function}]
    }


def _frame(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body.get("model", "")}


def _whole(reply: Reply, body: Mapping[str, Any]) -> bytes:
    finish = "stop" if isinstance(reply, str) else "tool_calls"
    choice = {"index": 0, "message": _message(reply), "finish_reason": finish}
    return json.dumps({**_frame(body, "chat.completion"), "choices": [choice], "usage": USAGE}).encode()


def _stream(reply: Reply, body: Mapping[str, Any]) -> bytes:
    frame = _frame(body, "chat.completion.chunk")
    finish = "stop" if isinstance(reply, str) else "tool_calls"
    first = {"index": 0, "delta": _message(reply), "finish_reason": None}
    events = [{**frame, "choices": [first]}]
    events.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({**frame, "choices": [], "usage": USAGE})
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events) + b"data: [DONE]\n\n"
