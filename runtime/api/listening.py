"""The address at which a command serves clients, and the token that they show."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from kernel.errors import ConfigurationError, UsageError
from runtime import user_files
from runtime.secrets.known import learn_secret, secret_of

LOOPBACK = ("127.0.0.1", "localhost", "::1")
VARIABLE = "FRACTAL_TOKEN"
OPEN = (
    "no token is asked for: every user and every program of this machine can read what this folder's runs "
    "have written, and start runs as you"
)


@dataclass(frozen=True)
class Token:
    """What clients show; `place` is the file that holds it, where it was made here."""

    text: str
    place: Path | None = None

    @property
    def shown(self) -> str:
        """What a person needs to know of it at the start."""
        if not self.text:
            return f", local connections only; {OPEN}"
        return f", with the token in {self.place}" if self.place else ""


def token(given: str | None, none: bool) -> Token:
    """The token of the option or of FRACTAL_TOKEN, else this user's own, made once; "" for `none`."""
    text = given or secret_of(VARIABLE)
    if text and none:
        where = "--token" if given else f"{VARIABLE} of the environment"
        raise UsageError(f"a token and none are asked for; leave out --no-token, or {where}")
    place = None if text or none else user_files.user_folder() / "token"
    text = _kept(place) if place else text
    learn_secret(VARIABLE, text)
    return Token(text, place)


def _kept(place: Path) -> str:
    """The token in this file, which nobody but its owner may read."""
    try:
        raw = user_files.made_once(place, lambda: f"{secrets.token_urlsafe(32)}\n".encode())
        mode, text = place.stat().st_mode, raw.decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigurationError(
            f"{place}: {error.strerror}; set {VARIABLE} to a token of your own, or serve with --no-token"
        ) from None
    if mode & 0o077:
        raise ConfigurationError(f"{place}: others can read it; remove it, and a new token is made")
    if len(text) < 16 or not (text.isascii() and text.isprintable()):
        raise ConfigurationError(f"{place}: it holds no token; remove it, and a new one is made")
    return text


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
