"""One HTTP request to an address that was checked; bounded in bytes and in time, redirects not followed."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import ssl
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel.errors import OperationFailed
from runtime.operations.addresses import Url
from runtime.operations.walking import Deadline

CONNECT_SECONDS = 10.0
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Answer:
    """What a server said; header names in lower case, the body decompressed."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Pinned(http.client.HTTPConnection):
    """A connection to one of the given addresses, whatever the host's name resolves to by now."""

    def __init__(self, where: Url, addresses: Sequence[str], deadline: Deadline) -> None:
        super().__init__(where.host, where.port)
        self._where, self._addresses, self._deadline = where, addresses, deadline
        self.plug: socket.socket | None = None  # `sock` is gone once the headers are read

    def connect(self) -> None:
        """Connect to the first address that answers; for https, check its certificate for the host."""
        failure: OSError | None = None
        for address in self._addresses:
            try:
                seconds = min(CONNECT_SECONDS, self._deadline.left)
                plain = socket.create_connection((address, self._where.port), seconds)
            except OSError as error:
                failure = error
                continue
            plain.settimeout(self._deadline.left)
            self.sock = self.plug = plain
            if self._where.scheme == "https":
                # SSL_CERT_FILE and SSL_CERT_DIR are honoured, as everywhere
                context = ssl.create_default_context()
                self.sock = context.wrap_socket(plain, server_hostname=self._where.host)
                self.plug = self.sock
            return
        raise failure or OSError(0, "no address answered")


def ask(
    where: Url,
    addresses: Sequence[str],
    method: str,
    headers: Mapping[str, str],
    body: bytes | None,
    most_bytes: int,
    deadline: Deadline,
) -> Answer:
    """Send one request and read the whole answer; raises when it is too long, too slow, or no HTTP."""
    connection = _Pinned(where, addresses, deadline)
    # a timeout of the socket is for one read: a server that drips a byte a second needs a clock of its own
    clock = threading.Timer(deadline.left, _cut_off, (connection,))
    clock.daemon = True
    clock.start()
    try:
        connection.request(method, where.target, body, dict(headers))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        data = _body(response, found, most_bytes, where)
        if deadline.over:
            raise TimeoutError
        return Answer(response.status, response.reason, found, data)
    except ssl.SSLCertVerificationError as error:
        raise OperationFailed(f"{where.host}: its certificate is not valid: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if deadline.over or isinstance(error, TimeoutError):
            raise OperationFailed(f"{where.text}: no whole answer within {deadline.seconds:g} s") from None
        raise OperationFailed(f"{where.text}: {_sentence(error)}") from None
    finally:
        clock.cancel()
        connection.close()


def _cut_off(connection: _Pinned) -> None:
    if connection.plug is not None:
        with contextlib.suppress(OSError):
            # not the method of an encrypted socket, which waits for the one who reads
            socket.socket.shutdown(connection.plug, socket.SHUT_RDWR)


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
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > most_bytes and response.length:
        raise OperationFailed(_too_long(where, most_bytes))
    unpack = _Unpacking(headers.get("content-encoding", "identity").lower().strip(), where)
    received = bytearray()
    taken = 0
    while block := response.read(_BLOCK):
        taken += len(block)
        received += unpack.more(block, most_bytes + 1 - len(received))
        if max(taken, len(received)) > most_bytes:
            raise OperationFailed(_too_long(where, most_bytes))
    if response.length:  # fewer bytes came than were announced
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(received)


def _too_long(where: Url, most_bytes: int) -> str:
    return f"{where.text}: the answer is longer than {most_bytes / 1_000_000:g} MB"


class _Unpacking:
    """Undoes gzip and deflate, no further than the limit; servers send them even to who did not ask."""

    def __init__(self, encoding: str, where: Url) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise OperationFailed(
                f"{where.text}: the answer is packed as {encoding}, which was not asked for"
            )
        self._unpacker = None if encoding in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def more(self, block: bytes, most: int) -> bytes:
        if self._unpacker is None:
            return block
        try:
            return self._unpacker.decompress(block, max(1, most))
        except (zlib.error, gzip.BadGzipFile):
            raise OSError(0, "the answer is not properly packed") from None
