"""The host of an address, in one form however it is written; and which hosts give out credentials."""

from __future__ import annotations

import ipaddress
import re

_PARTS = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)(?:\.(?:0[xX][0-9a-fA-F]+|\d+)){0,3}\.?")
_AUTHORITY = re.compile(r"^(?:[A-Za-z][\w+.-]*:)?//(?:[^/@?#\\]*@)?(\[[^\]]*\]|[^:/?#\\]*)")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^/]+)")


def host_of(address: str) -> str:
    """The host of a URL, a `user@host:path`, a `host:port` or `/dev/tcp/…`; numbers as a plain IP address."""
    address = address.strip()
    if hit := _SOCKET.match(address) or _AUTHORITY.match(address):
        host = hit[1]
    else:
        host = address.partition("/")[0].rpartition("@")[2]
        host = host if host.count(":") > 1 else host.partition(":")[0]
    return canonical(host.strip("[]").lower().rstrip("."))


def loopback(address: str) -> bool:
    """Whether an address is this machine."""
    host = host_of(address)
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.") or host.endswith(".localhost")


def canonical(host: str) -> str:
    """A number for an IP address in its usual form: 0xa9fea9fe and 2852039166 are 169.254.169.254."""
    if _PARTS.fullmatch(host):
        try:
            numbers = [
                int(each, 16 if each[:2] in ("0x", "0X") else 8 if each[0] == "0" and len(each) > 1 else 10)
                for each in host.strip(".").split(".")
            ]
            whole = 0
            for each in numbers[:-1]:
                whole = whole * 256 + each
            whole = whole * 256 ** (5 - len(numbers)) + numbers[-1]
            return str(ipaddress.IPv4Address(whole))
        except ValueError:
            return host
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(inner or found)
