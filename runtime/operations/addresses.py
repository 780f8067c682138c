"""Where a URL leads: its parts, checked, and the public addresses of its host."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from kernel.errors import OperationFailed

LONGEST = 8_000
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ALLOW = "private addresses are not fetched (operations: {fetch: {allow_private: [HOST]}} allows one)"


@dataclass(frozen=True)
class Url:
    """An HTTP address, taken apart; `host` in its ASCII form, `target` what the request line says."""

    text: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What decides whether credentials may go along."""
        return (self.scheme, self.host, self.port)

    @property
    def netloc(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"

    def joined(self, location: str) -> Url:
        """Where a redirect from here leads."""
        return url(urljoin(self.text, location))


def url(text: str) -> Url:
    """Take an address apart; raises when it is not plain HTTP or HTTPS."""
    text = text.strip()
    if len(text) > LONGEST or any(ord(character) < 33 or ord(character) == 127 for character in text):
        raise OperationFailed(f"{text[:80]!r}: not an address; write such as https://example.org/page")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise OperationFailed(f"{text[:200]}: not an address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise OperationFailed(f"{text[:200]}: only http and https addresses are fetched; write https://…")
    if parts.username is not None or parts.password is not None:
        raise OperationFailed("an address may not hold a user name or password; send a header instead")
    if not parts.hostname:
        raise OperationFailed(f"{text[:200]}: there is no host in this address")
    query = f"?{_escaped(parts.query)}" if parts.query else ""
    target = f"{_escaped(parts.path) or '/'}{query}"
    usual = {"http": 80, "https": 443}[parts.scheme]
    return Url(text.partition("#")[0], parts.scheme, _ascii(parts.hostname), port or usual, target)


def _escaped(text: str) -> str:
    return quote(text, safe="/%:@!$&'()*+,;=?~-._[]|")


def _ascii(host: str) -> str:
    try:
        ipaddress.ip_address(host)
        return host
    except ValueError:
        pass
    try:
        return host.encode("ascii").decode() if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise OperationFailed(f"{host}: not the name of a host") from None


def addresses(where: Url, allow_private: bool, seconds: float) -> list[str]:
    """The addresses of a host, each of them public; whoever connects uses these and resolves no more.

    A host with one private address among public ones is refused: which one is asked must not be chance.
    """
    found = _resolved(where.host, where.port, seconds)
    for address in found:
        if not allow_private and not public(address):
            raise OperationFailed(f"{where.host} is {address}, a private or reserved address; {_ALLOW}")
    return found


def _resolved(host: str, port: int, seconds: float) -> list[str]:
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(info[4][0]) for info in infos)))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # the system's resolver knows no time limit: it is left behind when it takes too long
    threading.Thread(target=ask, daemon=True, name="resolve").start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise OperationFailed(f"{host}: looking up its address took longer than {seconds:.0f} s") from None
    if isinstance(answer, Exception) or not answer:
        raise OperationFailed(f"{host}: there is no such host, or no network")
    return answer


def public(address: str) -> bool:
    """Whether an address is one of the open internet, also where it wraps an IPv4 address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return public(str(inner))
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not ip.is_unspecified
