"""The one place where HTTP clients for models are made: their addresses and their headers.

It imports `httpx`, which takes time; import it where a request is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

# the libraries of its command line take 4 MB and a third of its import; it allows for their absence
sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]
import httpx  # noqa: E402

from kernel.errors import ConfigurationError  # noqa: E402
from runtime import addresses  # noqa: E402
from runtime.http_transport import BUNDLE, transport  # noqa: E402
from runtime.received import ACCEPTED, held, hold  # noqa: E402
from runtime.secrets.redaction import redact  # noqa: E402

WHOLE = "/chat/completions"
"""What some people add to the address of a server: the path of its requests."""


def client(
    address: str, headers: Mapping[str, str], *, timeout: httpx.Timeout, bundle: str = ""
) -> httpx.AsyncClient:
    """The client of a model's server; its answers are bounded by `received.LIMIT`."""
    given, leave_out = _settings(address, headers, bundle)

    async def leaving_out(request: httpx.Request) -> None:
        leave_out(request)

    hooks = {"request": [leaving_out], "response": [held, _refuse_turn]}
    return httpx.AsyncClient(**given, timeout=timeout, event_hooks=hooks, follow_redirects=True)


def blocking_client(
    address: str, headers: Mapping[str, str], *, timeout: float, most: int, bundle: str = ""
) -> httpx.Client:
    """The same for a thread of its own; no answer is longer than `most` bytes."""
    given, leave_out = _settings(address, headers, bundle)
    hooks = {"request": [leave_out], "response": [lambda response: hold(response, most, httpx)]}
    return httpx.Client(**given, timeout=timeout, event_hooks=hooks)


def bare_client() -> httpx.AsyncClient:
    """A client for another library, which says where and what it sends."""
    hooks = {"response": [held]}
    return httpx.AsyncClient(
        headers=ACCEPTED, event_hooks=hooks, follow_redirects=True, transport=transport(httpx, BUNDLE.get)
    )


def _settings(
    address: str, headers: Mapping[str, str], bundle: str
) -> tuple[dict[str, Any], Callable[[httpx.Request], None]]:
    """What both kinds of clients are made with, and what leaves headers out of a request.

    No header of the settings is sent elsewhere, where a server redirects to.
    """
    base, params = base_of(address)

    def leave_out(request: httpx.Request) -> None:
        url = request.url
        if url.host != base.host or (url.scheme, url.port) not in ((base.scheme, base.port), ("https", None)):
            for name in headers:
                request.headers.pop(name, None)

    given = {"base_url": base, "params": params, "headers": {**headers, **ACCEPTED}}
    return {**given, "transport": transport(httpx, bundle)}, leave_out


def base_of(address: str) -> tuple[httpx.URL, httpx.QueryParams]:
    """What the paths of requests are added to, and the query that each of them has."""
    url = httpx.URL(address)
    path = url.raw_path.partition(b"?")[0].decode("ascii").rstrip("/").removesuffix(WHOLE)
    return url.copy_with(raw_path=(path or "/").encode("ascii")), url.params


async def _refuse_turn(response: httpx.Response) -> None:
    """Follow no redirect that makes a GET of a request: that asks for a page, and not for a reply."""
    if response.status_code in (301, 302, 303) and response.request.method == "POST":
        place = redact(response.headers.get("location", ""))[:200]
        raise ConfigurationError(
            f"{addresses.shown(str(response.request.url))} redirects to {place or 'nowhere'} (status "
            f"{response.status_code}) and gives no reply; set api_base to the address of the model's server"
        )
