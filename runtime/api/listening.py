"""The address at which a command serves clients."""

from __future__ import annotations

import socket

from kernel.errors import ConfigurationError, UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bound(option: str, address: str, token: str) -> socket.socket:
    """The bound socket of HOST:PORT; without a token, only on the loopback interface."""
    host, colon, number = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not colon or not number.isdecimal() or int(number) > 65_535:
        raise UsageError(f"{option} {address}: not HOST:PORT, such as 127.0.0.1:8765")
    if host not in LOOPBACK and not token:
        raise UsageError(
            f"{option} {address}: anyone who can reach {host} could run commands here; set FRACTAL_TOKEN, "
            "or listen on 127.0.0.1"
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, int(number)), family=family)
    except OSError as error:
        raise ConfigurationError(f"{option} {address}: {error.strerror}; choose another port") from None


def shown(listening: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
