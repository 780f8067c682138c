"""Which proxy a request goes through, by the variables of the environment.

`http_proxy`, `https_proxy` and `all_proxy` name one, in small letters or capitals; `no_proxy` lists what is
reached without. What stays on this machine never goes to a proxy, as no proxy could reach it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from kernel.errors import ConfigurationError
from runtime import addresses
from runtime.variables import unquoted

SCHEMES = {each: each for each in ("http", "https", "socks5", "socks5h")} | {"socks": "socks5"}
"""The kinds of proxies, with the names that the client has for them."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    def __str__(self) -> str:
        return f"the proxy {addresses.shown(self.url)} of {self.variable}"


def proxy_for(url: str, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy for an address; None for a direct way. Raises `ConfigurationError` for one of no use."""
    parts = urlsplit(url)
    named = _set(environ, f"{parts.scheme}_proxy") or _set(environ, "all_proxy")
    if not named or addresses.is_here(url) or _is_excepted(parts, environ):
        return None
    variable, text = named
    scheme, given, rest = text.rpartition("://")
    kind = SCHEMES.get(scheme.lower()) if given else "http"
    if kind is None:
        raise ConfigurationError(
            f"{variable} names a proxy with {scheme}://; there can be http://, https:// or socks5://"
        )
    proxy = f"{kind}://{rest}"
    if not _is_address(proxy):
        raise ConfigurationError(f"{variable} is no address of a proxy, such as http://127.0.0.1:3128")
    if kind.startswith("socks") and find_spec("socksio") is None:
        raise ConfigurationError(
            f"{variable} names a SOCKS proxy, which needs the package socksio: "
            "pip install 'fractal-runtime[socks]'"
        )
    return Proxy(proxy, variable)


def _set(environ: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """A variable in small letters or capitals that has a value, with it."""
    named = ((each, unquoted(environ.get(each, ""))) for each in (name, name.upper()))
    return next((each for each in named if each[1]), None)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
        return bool(parts.hostname)
    except ValueError:
        return False


def _is_excepted(parts: SplitResult, environ: Mapping[str, str]) -> bool:
    """Whether `no_proxy` has the host of an address."""
    listed = _set(environ, "no_proxy")
    host = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or PORTS.get(parts.scheme, 0)
    return bool(listed) and any(_covers(each, host, port) for each in re.split(r"[\s,;]+", listed[1]) if each)


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `no_proxy` covers a host.

    It is `*`, a name with all below it, an address, or a network such as `10.0.0.0/8`; with a scheme or a
    port, or in brackets, as some programs want it.
    """
    entry = unquoted(entry).lower().rpartition("://")[2]
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass
    hit = re.fullmatch(r"\[?([^\]\[]*?)\]?(?::(\d+))?", entry)
    if not hit or (hit[2] and int(hit[2]) != port):
        return False
    name = hit[1].removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))
