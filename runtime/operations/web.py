"""One HTTP request to a checked public address, bounded in bytes and time; redirects are not followed."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from kernel.errors import OperationFailed
from runtime.operations.walking import Deadline
from runtime.received import PIECE, TooLarge, unpacked

LONGEST = 8_000
_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_ALLOW = "private addresses are not fetched (operations: {fetch: {allow_private: [HOST]}} allows one)"


@dataclass(frozen=True)
class Url:
    """A parsed HTTP address; `host` is in ASCII form, `target` is for the request line."""

    text: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Credentials are sent on only to the same origin."""
        return (self.scheme, self.host, self.port)

    @property
    def netloc(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def joined(self, location: str) -> Url:
        """The address of a redirect from here."""
        return url(urljoin(self.text, location))


def url(text: str) -> Url:
    """Parse an address; raises if it is not plain HTTP or HTTPS."""
    text = text.strip()
    if len(text) > LONGEST or any(ord(character) < 33 or ord(character) == 127 for character in text):
        raise OperationFailed(f"{text[:80]!r}: not an address; write such as https://example.org/page")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise OperationFailed(f"{text[:200]}: not an address: {error}") from None
    if parts.scheme not in _PORTS:
        raise OperationFailed(f"{text[:200]}: only http and https addresses are fetched; write https://…")
    if parts.username is not None or parts.password is not None:
        raise OperationFailed("an address may not hold a user name or password; send a header instead")
    if not parts.hostname:
        raise OperationFailed(f"{text[:200]}: there is no host in this address")
    query = f"?{_escaped(parts.query)}" if parts.query else ""
    target = f"{_escaped(parts.path) or '/'}{query}"
    port = port or _PORTS[parts.scheme]
    return Url(text.partition("#")[0], parts.scheme, _ascii(parts.hostname), port, target)


def _escaped(text: str) -> str:
    return quote(text, safe="/%:@!$&'()*+,;=?~-._[]|")


def _ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise OperationFailed(f"{host}: not the name of a host") from None


def addresses(where: Url, allow_private: bool) -> list[str]:
    """The addresses of a host, each of them public; whoever connects uses these and resolves no more.

    A host with one private address among public ones is refused: which one is asked must not be chance.
    """
    try:
        infos = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise OperationFailed(f"{where.host}: there is no such host, or no network") from None
    found = list(dict.fromkeys(str(info[4][0]) for info in infos))
    if private := [address for address in found if not allow_private and not public(address)]:
        raise OperationFailed(f"{where.host} is {private[0]}, a private or reserved address; {_ALLOW}")
    return found


def public(address: str) -> bool:
    """Whether an address is on the public internet, including an embedded IPv4 address."""
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


CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Page:
    """The answer of a server; header names in lower case, the body decompressed."""

    address: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    redirects: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The media type, "" if the server does not name one."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def ask(
    where: Url,
    addresses: Sequence[str],
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    most_bytes: int,
    deadline: Deadline,
) -> Page:
    """Send one request and read the answer; raises if it is too long, too slow or no HTTP."""
    connection = http.client.HTTPConnection(where.host, where.port)
    try:
        with _connected(where, addresses, deadline) as connection.sock:
            connection.request(method, where.target, body, dict(headers))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            data = _body(response, found, most_bytes, where)
        if deadline.over:
            raise TimeoutError
        return Page(where.text, response.status, response.reason, found, data)
    except ssl.SSLCertVerificationError as error:
        raise OperationFailed(f"{where.host}: its certificate is not valid: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if deadline.over or isinstance(error, TimeoutError):
            raise OperationFailed(f"{where.text}: no whole answer within {deadline.seconds:g} s") from None
        raise OperationFailed(f"{where.text}: {_sentence(error)}") from None
    finally:
        connection.close()


@contextlib.contextmanager
def _connected(where: Url, addresses: Sequence[str], deadline: Deadline) -> Iterator[socket.socket]:
    """A socket to one of the addresses, with TLS for https; it is shut down at the deadline."""
    plug = _first_that_answers(where.port, addresses, deadline)
    plug.settimeout(deadline.left)
    if where.scheme == "https":
        # SSL_CERT_FILE and SSL_CERT_DIR are honoured, as everywhere
        context = ssl.create_default_context()
        plug = context.wrap_socket(plug, server_hostname=where.host, do_handshake_on_connect=False)
    # the timeout of a socket is per read, so a slow server needs a timer as well
    clock = threading.Timer(deadline.left, _shut_down, (plug,))
    clock.daemon = True
    clock.start()
    try:
        if isinstance(plug, ssl.SSLSocket):
            plug.do_handshake()
        yield plug
    finally:
        clock.cancel()
        plug.close()


def _first_that_answers(port: int, addresses: Sequence[str], deadline: Deadline) -> socket.socket:
    failure = OSError(0, "no address answered")
    for address in addresses:
        try:
            return socket.create_connection((address, port), min(CONNECT_SECONDS, deadline.left))
        except OSError as error:
            failure = error
    raise failure


def _shut_down(plug: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(
            plug, socket.SHUT_RDWR
        )  # the method of an SSL socket would wait for the reader


def _sentence(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused; nothing listens there"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer broke off"
    if isinstance(error, http.client.HTTPException):
        return f"the answer is not proper HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or error).lower()


def _body(
    response: http.client.HTTPResponse, headers: Mapping[str, str], most_bytes: int, where: Url
) -> bytes:
    """The body, unpacked: some servers pack it unasked."""
    pieces = iter(lambda: response.read(PIECE), b"")
    try:
        data = b"".join(unpacked(pieces, headers.get("content-encoding", ""), most_bytes))
    except TooLarge as error:
        raise OperationFailed(f"{where.text}: {error}") from None
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return data
