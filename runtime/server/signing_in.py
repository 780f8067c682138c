"""Whether a request has shown the server's token: a client in a header, a browser once in a form.

The browser gets a cookie for it that says nothing of the token and ends with the process. Browsers send
cookies to every port of a host, also to a web server that a worker has started. So the cookie opens only what
the page needs, and approves nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import posixpath
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from runtime.server.leaving import Html
from runtime.server.page.rendering import render

FIELD = "token"
FORM = "text/plain"
"""How the form is encoded, which tells it from the other forms of the page."""
LARGEST_FORM = 10_000
MOST_SESSIONS = 100
"""Browsers that are signed in at the same time; the oldest goes."""
PAUSE = 0.5
"""Seconds that pass before a wrong token is refused."""
API = ("/api/", "/brain/")
"""Where programs ask; a cookie changes nothing there."""
SENT_ALSO = "/api/person"
"""What the script of the page sends to the API: the code of a link."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Door:
    """Lets in requests with the token, and browsers that are signed in."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._sessions: deque[str] = deque(maxlen=MOST_SESSIONS)

    async def opens(self, scope: Scope) -> bool:
        """Whether a request is let in. One with a session gets `state.sign_out`, which ends it."""
        connection = HTTPConnection(scope)
        given = ", ".join(connection.headers.getlist("authorization"))  # two of them are none
        scheme, _, given = given.partition(" ")
        if scheme.lower() == "bearer":
            return await self._is_token(given.strip().encode("latin-1"))
        if _is_form(connection):  # also in a tab whose browser has signed in meanwhile
            return False
        path, reads = scope["path"], scope.get("method", "GET") in ("GET", "HEAD")
        if reads and path.startswith("/assets/"):
            return True
        session = connection.cookies.get(_cookie(scope), "")
        if not any(hmac.compare_digest(session.encode(), each.encode()) for each in self._sessions):
            return False
        connection.state.sign_out = partial(self._sessions.remove, session)
        return reads or path == SENT_ALSO or not path.startswith(API)

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """What a browser gets that is not let in: the form, or what comes of it. None for other clients."""
        if scope["type"] != "http" or scope["path"].startswith(API):
            return None
        request = Request(scope, receive)
        if "text/html" not in request.headers.get("accept", ""):
            return None
        form = _is_form(request)
        if not form or not await self._is_token(await _given(request)):
            ended = not form and request.method == "POST"  # a form of the page
            text = render("sign_in.html", wrong=form, ended=ended, field=FIELD, kind=FORM)
            # with `no-referrer`, a browser would send the form with the origin `null`
            headers = {"referrer-policy": "same-origin", "www-authenticate": "Bearer"}
            return Html(text, 401, headers)
        session = secrets.token_urlsafe(32)
        self._sessions.append(session)
        # relative: no path can lead to another host; a browser keeps the fragment
        query = scope["query_string"].decode("latin-1")
        place = f"./{quote(posixpath.basename(scope['path']))}{'?' * bool(query)}{query}"
        response = RedirectResponse(place, 303)
        secure = scope["scheme"] == "https"
        response.set_cookie(_cookie(scope), session, httponly=True, samesite="strict", secure=secure)
        return response

    async def _is_token(self, given: bytes) -> bool:
        if hmac.compare_digest(given, self._token):
            return True
        await asyncio.sleep(PAUSE)
        return False


def _cookie(scope: Scope) -> str:
    """The name of the cookie: servers on other ports of this host have others."""
    return f"fractal-session-{(scope.get('server') or ('', ''))[1]}"


def _is_form(connection: HTTPConnection) -> bool:
    return connection.scope.get("method") == "POST" and connection.headers.get("content-type") == FORM


async def _given(request: Request) -> bytes:
    """The token in the form."""
    raw = b""
    with suppress(ClientDisconnect):
        async for part in request.stream():
            raw += part
            if len(raw) > LARGEST_FORM:
                break
    return raw.removeprefix(f"{FIELD}=".encode()).strip()
