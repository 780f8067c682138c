"""The HTTP transport of all clients: directly or through a proxy, and with which certificates.

It works with `httpx` and with packages that have its interface, and imports none of them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kernel.errors import ConfigurationError
from runtime.certificates import trusted
from runtime.proxies import Proxy, proxy_for

UNKNOWN_ISSUERS = frozenset({18, 19, 20, 21})
"""Codes of OpenSSL for a certificate whose issuer is not among those that are trusted."""
NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})
"""Reasons of OpenSSL for a server that does not speak TLS."""
BUNDLE: ContextVar[str] = ContextVar("BUNDLE", default="")
"""The `ca_bundle` of the present call, where a client of another library serves several models."""
_E = TypeVar("_E", bound=BaseException)


def transport(package: Any, bundle: str | Callable[[], str] | None = None) -> Any:
    """A transport for the clients of `package`: `httpx`, or one with its interface.

    It sends each request directly or through the proxy that the environment names for its address. What
    cannot pass by itself is a `ConfigurationError`: a certificate that is not trusted, or no TLS. For models,
    `bundle` is their `ca_bundle`, or says what that of the present request is.
    """
    names = "SSL_CERT_FILE" if bundle is None else "ca_bundle or SSL_CERT_FILE"
    pools: dict[tuple[str, str, str], Any] = {}

    def pool(kind: type[Any], request: Any, proxy: Proxy | None) -> Any:
        """The connections of one way; the certificates take time to load, and plain HTTP needs none."""
        known = bundle() if callable(bundle) else bundle or ""
        way = request.url.scheme, proxy.url if proxy else "", known
        if way not in pools:
            verify = trusted(known) if "https" in way[0] or way[1].startswith("https:") else False
            # the context is that of the way to the proxy, which refuses one for plain HTTP
            own = {"ssl_context": verify} if way[1].startswith("https:") else {}
            through = package.Proxy(proxy.url, **own) if proxy else None
            pools[way] = kind(verify=verify, proxy=through, trust_env=False)
        return pools[way]

    class Transport(package.AsyncBaseTransport, package.BaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            proxy = proxy_for(str(request.url))
            with _explained(request, proxy, package.TransportError, names):
                return await pool(package.AsyncHTTPTransport, request, proxy).handle_async_request(request)

        def handle_request(self, request: Any) -> Any:
            proxy = proxy_for(str(request.url))
            with _explained(request, proxy, package.TransportError, names):
                return pool(package.HTTPTransport, request, proxy).handle_request(request)

        async def aclose(self) -> None:
            for each in pools.values():
                await each.aclose()

        def close(self) -> None:
            for each in pools.values():
                each.close()

    return Transport()


@contextmanager
def _explained(request: Any, proxy: Proxy | None, kind: type[Exception], names: str) -> Generator[None]:
    """Name the proxy in what goes wrong on the way, and say what has to be changed.

    `names`: what can name certificates for this request.
    """
    try:
        yield
    except kind as error:
        refused, server = cause(error, ssl.SSLError), f"{request.url.scheme}://{request.url.netloc.decode()}"
        if isinstance(refused, ssl.SSLCertVerificationError):
            fix = f"name the certificates of your network by {names}"
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
        raise type(error)(f"{error} (through {proxy})", request=request) from error  # type: ignore[call-arg]


def cause(error: BaseException | None, kind: type[_E] | tuple[type[_E], ...]) -> _E | None:
    """The first of an error and its causes that is of this kind, or of one of these."""
    for _ in range(20):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None
