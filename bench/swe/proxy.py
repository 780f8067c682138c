"""A server on loopback between a harness and the model: it forwards requests and counts what they cost.

One estimate counts for all harnesses: bytes / 4 of the canonical JSON of a request's tools and messages, in
this order, in which servers cache a prompt. Fresh is what follows the longest common prefix with the request
before it of the same job. What the model wrote is bytes / 4 of its text and its calls.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from bench.serving import send, serving

TIMEOUT = httpx.Timeout(1_800, connect=10)
"""Seconds. A model may be played by hand."""
BYTES = 4
"""A token of the estimate."""


@dataclass
class Counts:
    """What a job has cost so far, in tokens of the estimate. Only answered requests count."""

    calls: int = 0
    prompt: int = 0
    fresh: int = 0
    completion: int = 0
    largest: int = 0  # prompt of one request
    refused: int = 0  # requests above the window
    failed: int = 0  # requests that the model's server did not answer
    _before: bytes = field(default=b"", repr=False)

    def add(self, prompt: bytes, completion: int) -> None:
        """Count an answered request."""
        tokens = len(prompt) // BYTES
        self.calls += 1
        self.prompt += tokens
        same = os.path.commonprefix([prompt, self._before])  # noqa: RUF071 (of bytes, not of paths)
        self.fresh += (len(prompt) - len(same)) // BYTES
        self.completion += completion
        self.largest = max(self.largest, tokens)
        self._before = prompt

    def row(self) -> dict[str, int]:
        """The figures by name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def canonical(body: Mapping[str, Any]) -> bytes:
    """The prompt of a request, without marks for a provider's cache."""

    def text(value: Any) -> str:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    def plain(value: dict[str, Any]) -> dict[str, Any]:
        return {name: each for name, each in value.items() if name != "cache_control"}

    prompt = [*(body.get("tools") or ()), *(body.get("messages") or ())]
    return "\n".join(text(json.loads(json.dumps(each), object_hook=plain)) for each in prompt).encode()


def written(answer: bytes) -> int:
    """The tokens that the model wrote in an answer, whole or streamed."""
    if answer.lstrip().startswith(b"{"):
        events = [json.loads(answer)]
    else:
        lines = (line[5:].strip() for line in answer.splitlines() if line.startswith(b"data:"))
        events = [json.loads(line) for line in lines if line.startswith(b"{")]
    texts: list[str] = []
    for choice in (choice for event in events for choice in event.get("choices") or ()):
        said = choice.get("message") or choice.get("delta") or {}
        texts += [said.get("content") or "", said.get("reasoning_content") or ""]
        for call in said.get("tool_calls") or ():
            texts += [call.get("function", {}).get(name) or "" for name in ("name", "arguments")]
    return -(-len("".join(texts).encode()) // BYTES)


class CountingProxy:
    """Forwards what is sent to `url(JOB)` to an OpenAI-compatible server.

    api_base: the address of that server, with its `/v1`. window: tokens of prompt and answer that it takes;
    a larger request is refused, as servers refuse it. None: no limit.
    """

    def __init__(self, api_base: str, key: str = "", window: int | None = None) -> None:
        self.api_base, self.window = api_base.rstrip("/"), window
        self.jobs: dict[str, Counts] = {}
        self.lock = threading.Lock()
        self.client = httpx.Client(headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=TIMEOUT)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    def url(self, job: str) -> str:
        """Begin a job, and return the address for its harness."""
        self.jobs[job] = Counts()
        return f"http://127.0.0.1:{self._http.server_address[1]}/{job}/v1"

    @contextmanager
    def running(self) -> Iterator[CountingProxy]:
        """Serve until the block ends."""
        with self.client, serving(self._http):
            yield self

    def refusal(self, body: Mapping[str, Any]) -> str:
        """Why a request is refused; "" if it is not."""
        answer = int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
        prompt = len(canonical(body)) // BYTES
        if self.window is None or prompt + answer <= self.window:
            return ""
        return (
            f"This model's maximum context length is {self.window} tokens. However, you requested "
            f"{prompt + answer} tokens ({prompt} in the messages, {answer} in the completion). "
            "Please reduce the length of the messages or completion."
        )


def _handler(proxy: CountingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Forward the list of models, with the window that this server keeps."""
            _, path = self._place()
            got = proxy.client.get(f"{proxy.api_base}/{path}")
            content = got.content
            if proxy.window and path == "models" and got.is_success:
                models = got.json()
                for each in models.get("data") or ():
                    each["max_model_len"] = proxy.window
                content = json.dumps(models).encode()
            send(self, content, status=got.status_code)

        def do_POST(self) -> None:
            """Forward a request; count it when the whole answer has come."""
            job, path = self._place()
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            counts = proxy.jobs[job]
            body: dict[str, Any] = json.loads(raw)
            if why := proxy.refusal(body):
                with proxy.lock:
                    counts.refused += 1
                error = {"message": why, "type": "invalid_request_error", "code": "context_length_exceeded"}
                send(self, json.dumps({"error": error}).encode(), status=400)
                return
            try:
                answer = self._forward(path, raw)
            except httpx.HTTPError as error:
                answer = None
                said = {"error": {"message": f"{type(error).__name__}: {error}", "type": "server_error"}}
                send(self, json.dumps(said).encode(), status=502)
            with proxy.lock:
                if answer is None:
                    counts.failed += 1
                elif path == "chat/completions":
                    counts.add(canonical(body), written(answer))

        def _forward(self, path: str, raw: bytes) -> bytes | None:
            """Send the answer on as it comes; None where the server's status is not 200."""
            headers = {"Content-Type": "application/json"}
            url = f"{proxy.api_base}/{path}"
            with proxy.client.stream("POST", url, content=raw, headers=headers) as got:
                kind = got.headers.get("Content-Type", "application/json")
                if "event-stream" not in kind or got.status_code != 200:
                    content = got.read()
                    send(self, content, kind, got.status_code)
                    return content if got.status_code == 200 else None
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                answer = bytearray()
                for piece in got.iter_bytes():
                    answer += piece
                    self.wfile.write(piece)
                    self.wfile.flush()
                return bytes(answer)

        def _place(self) -> tuple[str, str]:
            """The job, and the path behind `/v1/`."""
            _, job, _, path = self.path.split("/", 3)
            return job, path

        def log_message(self, format: str, *args: Any) -> None:
            """Print no log."""

    return Handler
