"""What every request passes first: who may ask, from where, how much; and the headers of every response."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from runtime.server.signing_in import Door, Receive, Scope

LARGEST = 1_000_000
"""Bytes of a body. Source: server.md."""
NO_TOKEN = (
    "the bearer token is missing or wrong; it is the server's FRACTAL_TOKEN, else in ~/.config/fractal/token"
)
HEADERS: dict[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every response; no script or style but the page's own files."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Guarded:
    """An ASGI application that answers only requests for a known host, with the token if there is one.

    The host is checked so that a page of another site cannot reach a server on loopback by a name of its own.
    """

    def __init__(self, app: Any, hosts: Collection[str], token: str = "") -> None:
        self.app, self.hosts = app, frozenset(hosts)
        self._door = Door(token) if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if sum(name.lower() == b"host" for name, _ in scope["headers"]) > 1:
            headers[b"host"] = ""  # whoever reads the first and whoever reads the last would disagree
        if problem := self._problem(headers):
            await _refuse(scope, send, *problem)
        elif self._door is None or await self._door.opens(scope):
            await self.app(scope, _limited(receive), _with_headers(send))
        elif response := await self._door.answer(scope, receive):
            await response(scope, receive, _with_headers(send))
        else:
            await _refuse(scope, send, 401, NO_TOKEN)

    def _problem(self, headers: dict[bytes, str]) -> tuple[int, str] | None:
        host = headers.get(b"host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        if name.lower() not in self.hosts:
            wrong = name or "a host without a name, or with two"
            return 421, f"this server is not {wrong}; ask for {sorted(self.hosts)[0]}"
        origin = headers.get(b"origin", "")
        if origin and origin.partition("://")[2] != host:
            return 403, f"requests from pages of {origin} are not accepted"
        size = headers.get(b"content-length", "0").lstrip("0")
        if size.isdecimal() and (len(size) > len(str(LARGEST)) or int(size) > LARGEST):
            return 413, f"the body has more than {LARGEST:,} bytes, which is the most that is accepted"
        return None


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why[:120]})
        return
    body = json.dumps({"error": why}).encode()
    named = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    if status == 401:
        named["www-authenticate"] = "Bearer"
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limited(receive: Receive) -> Receive:
    read = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b"")) if message["type"] == "http.request" else 0
        if read > LARGEST:
            raise HTTPException(413, f"at most {LARGEST:,} bytes are accepted")
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message["headers"]}
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(each for each in own if each[0] not in given)]
        await send(message)

    return sent
