"""The one place where HTTP clients for models are made: their way, their certificates, their headers.

It imports `httpx`, which takes time; import it where a request is made.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

# the libraries of its command line take 4 MB and a third of its import; it allows for their absence
sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]
import httpx  # noqa: E402

from kernel.errors import ConfigurationError  # noqa: E402
from runtime import addresses  # noqa: E402
from runtime.models.certificates import trusted  # noqa: E402
from runtime.proxies import Proxy, proxy_for  # noqa: E402
from runtime.received import ACCEPTED, held, hold  # noqa: E402
from runtime.secrets.redaction import redact  # noqa: E402

WHOLE = "/chat/completions"
"""What some people add to the address of a server: the path of its requests."""
UNKNOWN_ISSUERS = frozenset({18, 19, 20, 21})
"""Codes of OpenSSL for a certificate whose issuer is not among those that are trusted."""
NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})
"""Reasons of OpenSSL for a server that does not speak TLS."""
BUNDLE: ContextVar[str] = ContextVar("BUNDLE", default="")
"""The certificates of `ca_bundle`, where a client of another library serves several models."""
_E = TypeVar("_E", bound=BaseException)


def client(
    address: str, headers: Mapping[str, str], *, timeout: httpx.Timeout, bundle: str = ""
) -> httpx.AsyncClient:
    """The client of a model's server; its answers are bounded by `received.LIMIT`."""
    base, params = base_of(address)

    async def leave_out(request: httpx.Request) -> None:
        _leave_out(request, base, headers)

    return httpx.AsyncClient(
        base_url=base,
        params=params,
        headers={**headers, **ACCEPTED},
        event_hooks={"request": [leave_out], "response": [held, _refuse_turn]},
        timeout=timeout,
        follow_redirects=True,
        transport=Ways(bundle),
    )


def blocking_client(
    address: str, headers: Mapping[str, str], *, timeout: float, most: int, bundle: str = ""
) -> httpx.Client:
    """The same for a thread of its own; no answer is longer than `most` bytes."""
    base, params = base_of(address)
    return httpx.Client(
        base_url=base,
        params=params,
        headers={**headers, **ACCEPTED},
        event_hooks={
            "request": [lambda request: _leave_out(request, base, headers)],
            "response": [lambda response: hold(response, most, httpx)],
        },
        timeout=timeout,
        transport=Ways(bundle),
    )


def bare_client() -> httpx.AsyncClient:
    """A client for another library, which says where and what it sends."""
    return httpx.AsyncClient(
        headers=ACCEPTED, event_hooks={"response": [held]}, follow_redirects=True, transport=Ways()
    )


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


def _leave_out(request: httpx.Request, base: httpx.URL, headers: Mapping[str, str]) -> None:
    """Send no header of the settings elsewhere, where a server redirects to."""
    url = request.url
    if url.host != base.host or (url.scheme, url.port) not in ((base.scheme, base.port), ("https", None)):
        for name in headers:
            request.headers.pop(name, None)


class Ways(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Sends each request directly or through the proxy that the environment names for its address.

    What cannot pass by itself is a `ConfigurationError`: a certificate that is not trusted, or no TLS.
    """

    def __init__(self, bundle: str | None = None) -> None:
        """Without a `bundle`, that of the present call is taken."""
        self._bundle = bundle
        self._pools: dict[tuple[str, str, str], Any] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        proxy = proxy_for(str(request.url))
        with _explained(request, proxy):
            return await self._pool(httpx.AsyncHTTPTransport, request, proxy).handle_async_request(request)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and wait."""
        proxy = proxy_for(str(request.url))
        with _explained(request, proxy):
            return self._pool(httpx.HTTPTransport, request, proxy).handle_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()

    def _pool(self, kind: type[Any], request: httpx.Request, proxy: Proxy | None) -> Any:
        """The connections of one way; the certificates take time to load, and plain HTTP needs none."""
        bundle = BUNDLE.get() if self._bundle is None else self._bundle
        way = request.url.scheme, proxy.url if proxy else "", bundle
        if way not in self._pools:
            verify = trusted(bundle) if "https" in way[0] or way[1].startswith("https:") else False
            through = httpx.Proxy(proxy.url, ssl_context=verify or None) if proxy else None
            self._pools[way] = kind(verify=verify, proxy=through, trust_env=False)
        return self._pools[way]


@contextmanager
def _explained(request: httpx.Request, proxy: Proxy | None) -> Generator[None]:
    """Name the proxy in what goes wrong on the way, and say what has to be changed."""
    try:
        yield
    except httpx.TransportError as error:
        refused, server = cause(error, ssl.SSLError), f"{request.url.scheme}://{request.url.netloc.decode()}"
        if isinstance(refused, ssl.SSLCertVerificationError):
            fix = "name the certificates of your network by ca_bundle or SSL_CERT_FILE"
            fix = f"; {fix}" if refused.verify_code in UNKNOWN_ISSUERS else ""
            raise ConfigurationError(
                f"{server}: its certificate is not trusted ({refused.verify_message}){fix}"
            ) from None
        if refused is not None and refused.reason in NOT_TLS:
            raise ConfigurationError(
                f"{server}: it does not speak TLS; if that is meant, its address begins with http://"
            ) from None
        if proxy is None:
            raise
        raise type(error)(f"{error} (through {proxy})", request=request) from error


def cause(error: BaseException | None, kind: type[_E]) -> _E | None:
    """The first of an error and its causes that is of this kind."""
    for _ in range(20):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None
