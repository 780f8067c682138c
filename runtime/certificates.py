"""Which certificates a server may have: the usual ones, and those that settings or variables name."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernel.errors import ConfigurationError
from runtime.variables import unquoted

if TYPE_CHECKING:
    import ssl

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""The variables that name all certificates to be trusted; the first that is set counts."""


def trusted(bundle: str = "") -> ssl.SSLContext:
    """What verifies servers: the usual certificates or those of a variable, and also those of `bundle`.

    Raises `ConfigurationError` for a file or folder that cannot be used, by the name of what names it.
    """
    named = ((name, unquoted(os.environ.get(name, ""))) for name in VARIABLES)
    return _context(bundle, *next((each for each in named if each[1]), ("", "")))


@cache
def _context(bundle: str, variable: str, path: str) -> ssl.SSLContext:
    import ssl

    import certifi

    context = ssl.create_default_context(cafile=None if variable else certifi.where())
    if variable:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _add(context, path, variable)
    if bundle:
        _add(context, bundle, "ca_bundle")
    return context


def _add(context: ssl.SSLContext, path: str, name: str) -> None:
    """Trust the certificates of a file or folder as well."""
    place = Path(path).expanduser()
    if not place.exists():
        raise ConfigurationError(
            f"{name} names {path}, which does not exist; name a file of certificates (PEM)"
        )
    try:
        context.load_verify_locations(**{"capath" if place.is_dir() else "cafile": str(place)})
    except OSError as error:  # also for what is no certificate
        reason = "it holds no certificates in the form PEM" if not error.strerror else error.strerror
        reason = "it holds no certificates in the form PEM" if "SSL" in type(error).__name__ else reason
        raise ConfigurationError(f"{name} names {path}, which cannot be used: {reason}") from None
