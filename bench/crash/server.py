"""The model's server: OpenAI's protocol on loopback, answers by the prompt alone, every request counted.

Each trial has a path of its own, so that one server serves several at a time.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DELAY = 0.02
"""Seconds that an answer takes, so that a kill may meet a call in flight."""


@dataclass
class Request:
    """One request: which prompt, in which session of its trial, and whether the answer was handed over."""

    digest: str
    session: int
    delivered: bool = False


class ModelServer:
    """Answers by a function of the system and the user prompt."""

    def __init__(self, answer: Callable[[str, str], str]) -> None:
        self._answer = answer
        self._requests: dict[str, list[Request]] = {}
        self._sessions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._http = _Quiet(("127.0.0.1", 0), self._handler())

    def url(self, trial: str) -> str:
        """What goes into `api_base` for a trial."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{trial}/v1"

    def session(self, trial: str, number: int) -> None:
        """From now on the trial's requests belong to this session; the first begins a new trial."""
        with self._lock:
            self._sessions[trial] = number
            if number == 1:
                self._requests[trial] = []

    def requests(self, trial: str) -> list[Request]:
        """What the trial has asked so far."""
        with self._lock:
            return list(self._requests.get(trial, []))

    @contextmanager
    def running(self) -> Iterator[ModelServer]:
        """Serve until the block ends."""
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()

    def _take(self, path: str, body: Any) -> tuple[Request, bytes]:
        system, user = (str(message["content"]) for message in body["messages"])
        trial = path.split("/")[1]
        with self._lock:
            request = Request(digest(system, user), self._sessions.get(trial, 0))
            self._requests.setdefault(trial, []).append(request)
        text = self._answer(system, user)
        usage = {"prompt_tokens": len(user) // 4, "completion_tokens": len(text) // 4}
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage | {"total_tokens": sum(usage.values())},
        }
        return request, json.dumps(reply).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                try:
                    request, content = server._take(self.path, json.loads(self.rfile.read(length)))
                    time.sleep(DELAY)
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    request.delivered = True
                except (OSError, ValueError):
                    self.close_connection = True  # the client is dead

            def log_message(self, format: str, *args: Any) -> None:
                """Keep quiet."""

        return Handler


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that died is what this is about."""


def digest(system: str, user: str) -> str:
    """What the key of an ask in `calls.jsonl` says of its prompt."""
    return hashlib.sha256("\x1f".join((system, user)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
