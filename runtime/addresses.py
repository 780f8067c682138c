"""The addresses of servers as people write them: what they mean, and which of them are on this machine."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit

from runtime.variables import unquoted

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_HALF_SCHEME = re.compile(r"(?i)(?:https?|unix)(?:(?::/?|//)(?!/)|$)")
_PRIVATE_NAME = re.compile(r"(?i)[^.]+|.+\.(?:localhost|local|internal|lan|home|home\.arpa|intranet|corp)")
"""Names without a dot, and in zones that no public server has."""


def normal(address: str) -> str:
    """The address of a server with its scheme, without what was only written around it.

    Without a scheme it is `http` for this machine and private networks, else `https`. Raises `ValueError`
    with the reason for one that cannot be meant.
    """
    text = unquoted(address)
    if not text:
        raise ValueError("the address is empty; write one such as http://127.0.0.1:8000/v1")
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() not in ("http", "https"):
        raise ValueError(f"an address begins with http:// or https://, not with {scheme[0]}")
    if _HALF_SCHEME.match(text) and not scheme:
        raise ValueError("an address begins with http:// or https://")
    if re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise ValueError("an address has no blank, backslash or control character in it")
    if not scheme:
        text = text.removeprefix("//")
        text = f"[{text}]" if _ip(text) and ":" in text else text
        text = f"{'http' if _is_private(_host(_split(f'http://{text}'))) else 'https'}://{text}"
    parts = _split(text)
    if not _host(parts):
        raise ValueError("the address names no host; write one such as http://127.0.0.1:8000/v1")
    path = parts.path.rstrip("/")
    return parts._replace(scheme=parts.scheme.lower(), path=path, fragment="").geturl()


def shown(address: str) -> str:
    """An address for people: without what may be secret, a user's name and password and its query."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def is_loopback(address: str | None) -> bool:
    """Whether a server's address is on this machine."""
    host = _host(urlsplit(address or ""))
    ip = _ip(host)
    return ip.is_loopback if ip else host == "localhost"


def is_here(address: str) -> bool:
    """Whether a request to this address stays on this machine: as `is_loopback`, or the address 0.0.0.0."""
    ip = _ip(_host(urlsplit(address)))
    return is_loopback(address) or bool(ip and ip.is_unspecified)


def _split(text: str) -> SplitResult:
    """The parts of an address; raises `ValueError` in plain words."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(
            "the host or the port of the address is wrong; a port is a number up to 65535, and an IPv6 "
            "address stands in brackets, as in http://[::1]:8000/v1"
        ) from None
    return parts


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").rstrip(".")


def _is_private(host: str) -> bool:
    ip = _ip(host)
    return not ip.is_global if ip else bool(_PRIVATE_NAME.fullmatch(host))


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip
