"""The model's server: OpenAI's protocol on loopback. It answers by the prompt alone, and records requests.

Each trial has a path of its own, so that one server serves several at a time.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bench.serving import send, serving
from kernel.asking.messages import Message
from kernel.document.escaping import to_json

DELAY = 0.02
"""Seconds of an answer, so that a kill can meet a call in flight."""


@dataclass(frozen=True)
class Request:
    """The prompt of a request, and the session of its trial in which it was made."""

    digest: str
    session: int


class ModelServer:
    """Answers with a function of the messages."""

    def __init__(self, answer: Callable[[Sequence[Message]], str]) -> None:
        self._answer = answer
        self._requests: dict[str, list[Request]] = {}
        self._sessions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), self._handler())

    def url(self, trial: str) -> str:
        """The `api_base` of a trial."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{trial}/v1"

    def begin_session(self, trial: str, number: int) -> None:
        """Record the trial's requests under this session; number 1 begins a new trial."""
        with self._lock:
            self._sessions[trial] = number
            if number == 1:
                self._requests[trial] = []

    def requests(self, trial: str) -> list[Request]:
        """The requests of a trial so far."""
        with self._lock:
            return list(self._requests.get(trial, []))

    @contextmanager
    def running(self) -> Iterator[ModelServer]:
        """Serve until the block ends."""
        with serving(self._http):
            yield self

    def _reply(self, path: str, body: Any) -> bytes:
        messages: list[Message] = body["messages"]
        trial = path.split("/")[1]
        with self._lock:
            request = Request(digest(messages, turn="tools" in body), self._sessions.get(trial, 0))
            self._requests.setdefault(trial, []).append(request)
        text = self._answer(messages)
        size = sum(len(str(each["content"])) for each in messages)
        usage = {"prompt_tokens": size // 4, "completion_tokens": len(text) // 4}
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage | {"total_tokens": sum(usage.values())},
        }
        return json.dumps(reply).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                try:
                    content = server._reply(self.path, json.loads(self.rfile.read(length)))
                    time.sleep(DELAY)
                    send(self, content)
                except (OSError, ValueError):
                    self.close_connection = True  # the client has died

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients die on purpose."""


def digest(messages: Sequence[Message], *, turn: bool) -> str:
    """The digest of a prompt, or of the conversation of a turn, in the key of an ask in `calls.jsonl`."""
    system, user = (str(each["content"]) for each in messages[:2])
    texts = (system, "", to_json(list(messages))) if turn else (system, user)
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
