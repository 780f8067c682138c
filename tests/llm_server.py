"""A model provider on loopback with scripted answers, in the protocols of OpenAI and Ollama.

    server.say('{"a": 1}', prompt_tokens=120)       # the next answer
    server.fail(429, retry_after=0.2); server.say('{"a": 1}')
    server.always(lambda body: Answer('{"a": 1}'))  # when the queue is empty
    server.bodies[0]["messages"]                    # a request
    server.pages["/v1/models"] = {"data": []}       # what a GET answers
    server.refuse_tools()                           # from now on

Answers are given in the order in which requests arrive. With an empty queue and nothing set, it answers 500.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lanes import PATIENCE, pause, until


@dataclass(frozen=True)
class Answer:
    """One answer: a message of the model, an error with another status, or the bytes of `raw`."""

    text: str | None = "{}"
    status: int = 200
    prompt_tokens: int = 100
    completion_tokens: int = 20
    cached_tokens: int = 0  # of the prompt
    finish_reason: str = "stop"
    usage: bool = True
    error: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    raw: bytes | None = None
    parts: tuple[bytes, ...] = ()  # sent one after the other, `apart` seconds from each other
    apart: float = 0.0
    drop: bool = False  # close the connection without an answer
    cut: bool = False  # close it in the middle of the answer
    last: bool = False  # close it at the next request, without having said so
    calls: tuple[tuple[str, str], ...] = ()  # tool calls: name and arguments as JSON text
    think: float = 0.0  # seconds between the head of a stream and its first piece
    stall: float = 0.0  # seconds between its first two pieces
    streams: bool = True  # if a stream is asked for


class LlmServer:
    """The provider. `url` is what goes into `api_base`; `host` for providers that add their own path."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []  # path, headers, body
        self.times: list[float] = []
        self.pages: dict[str, Any] = {}  # what a GET of a path answers; 404 for others
        self.page_delay = 0.0
        self.gets: list[str] = []
        self._queue: deque[Answer] = deque()
        self._otherwise: Callable[[Any], Answer] = lambda body: Answer(status=500)
        self._refusal = ""
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.host = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.url = f"{self.host}/v1"

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self.requests)

    def wait_for(self, count: int, seconds: float = PATIENCE) -> None:
        """Wait until this many requests have arrived."""
        until(lambda: self.count >= count, seconds, lambda: f"{self.count} requests came")

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests."""
        return [body for _, _, body in self.requests]

    def queue(self, *answers: Answer) -> None:
        """Queue these answers."""
        self._queue.extend(answers)

    def say(self, text: str | None, **more: Any) -> None:
        """Answer with that text."""
        self.queue(Answer(text, **more))

    def fail(
        self, status: int, message: str = "no", *, retry_after: float | None = None, **error: Any
    ) -> None:
        """Answer with an error."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.queue(Answer(status=status, error={"message": message, **error}, headers=headers))

    def refuse_tools(self, words: str = '"auto" tool choice requires --enable-auto-tool-choice') -> None:
        """Refuse each request that declares tools, as vLLM does; queued answers are for the others."""
        self._refusal = words

    def always(self, answer: Callable[[Any], Answer]) -> None:
        """Set the answer for an empty queue."""
        self._otherwise = answer

    def _next(self, path: str, headers: dict[str, str], body: Any) -> Answer:
        if path == "/api/show":  # litellm asks Ollama for the capabilities of a model
            return Answer(raw=b'{"capabilities": ["completion"], "model_info": {}, "template": ""}')
        with self._lock:
            self.requests.append((path, headers, body))
            self.times.append(time.monotonic())
            if self._refusal and isinstance(body, dict) and "tools" in body:
                return Answer(status=400, error={"message": self._refusal})
            return self._queue.popleft() if self._queue else self._otherwise(body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            spoiled = False

            def do_GET(self) -> None:
                pause(server.page_delay)
                known = self.path in server.pages
                raw = json.dumps(server.pages.get(self.path, {"error": {"message": "no such page"}})).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                server.gets.append(self.path)  # before the client has its answer
                self.wfile.write(raw)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length) or b"null")
                if self.spoiled:
                    self.close_connection = True
                    return
                answer = server._next(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                self.spoiled = answer.last
                pause(answer.delay)
                if answer.drop:
                    self.close_connection = True
                    return
                streams = (
                    answer.streams and answer.status == 200 and answer.raw is None and body.get("stream")
                )
                chunks = list(answer.parts) or (_chunks(answer, body) if streams else [])
                content = b"".join(chunks)
                if not chunks:
                    content = answer.raw if answer.raw is not None else _content(self.path, answer, body)
                kind = "text/event-stream" if streams else "application/json"
                try:
                    self.send_response(answer.status)
                    for name, value in {"Content-Type": kind, **answer.headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    pauses = (answer.apart,) * len(chunks) if answer.parts else (answer.think, answer.stall)
                    for seconds in pauses if chunks else ():
                        self.wfile.write(chunks.pop(0))
                        self.wfile.flush()
                        pause(seconds)
                        content = b"".join(chunks)
                    self.wfile.write(content[: len(content) // 2] if answer.cut else content)
                    self.close_connection = self.close_connection or answer.cut
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client closed the connection

            def log_message(self, format: str, *args: Any) -> None:
                """Print no log."""

        return Handler

    @contextmanager
    def running(self) -> Iterator[LlmServer]:
        """Serve until the block ends."""
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()


PIECE = 7
"""Characters of one piece of a stream."""


def _chunks(answer: Answer, body: Any) -> list[bytes]:
    """The events of a streamed answer."""
    text = answer.text or ""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if not answer.calls or text != Answer.text:  # beside calls only what a test says
        deltas += [{"content": text[start : start + PIECE]} for start in range(0, len(text), PIECE)]
    if answer.calls:
        for at, (name, arguments) in enumerate(answer.calls):
            function = {"name": name, "arguments": ""}
            begin = {"index": at, "id": f"c{at}", "type": "function", "function": function}
            deltas.append({"tool_calls": [begin]})
            for start in range(0, len(arguments), PIECE):
                part = {"arguments": arguments[start : start + PIECE]}
                deltas.append({"tool_calls": [{"index": at, "function": part}]})
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
    events: list[dict[str, Any]] = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    finish = "tool_calls" if answer.calls and answer.finish_reason == "stop" else answer.finish_reason
    events.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if answer.usage and body.get("stream_options", {}).get("include_usage"):
        events.append({**common, "choices": [], "usage": _usage(answer)})
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]


def _usage(answer: Answer) -> dict[str, Any]:
    total = answer.prompt_tokens + answer.completion_tokens
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _content(path: str, answer: Answer, body: Any) -> bytes:
    if answer.status != 200:
        return json.dumps({"error": {"message": "no", "type": "error", **answer.error}}).encode()
    model = body.get("model", "unknown")
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.calls:
        functions = [{"name": name, "arguments": arguments} for name, arguments in answer.calls]
        message["tool_calls"] = [{"type": "function", "function": each} for each in functions]
    if path.startswith("/api/"):
        content: dict[str, Any] = {"model": model, "created_at": "2025-01-01T00:00:00Z", "done": True}
        content |= {"done_reason": answer.finish_reason}
        content |= {"prompt_eval_count": answer.prompt_tokens, "eval_count": answer.completion_tokens}
        content |= {"message": message} if path == "/api/chat" else {"response": answer.text}
        return json.dumps(content).encode()
    content = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
    }
    if answer.usage:
        content["usage"] = _usage(answer)
    return json.dumps(content).encode()
