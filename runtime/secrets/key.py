"""The user's own key: what carries its mark was written by this user's Fractal.

A run folder can come from a stranger. The key lies outside of it, in the user's configuration, so that nobody
else can make a mark that holds here.
"""

from __future__ import annotations

import hmac
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from runtime import user_files

_KEY_BYTES = 32


def user_key() -> bytes:
    """The 32 bytes of the user's key, made at its first use; where it cannot be kept, one of this process."""
    return _key_in(user_files.user_folder() / "exact.key")


def is_kept() -> bool:
    """Whether the key outlives this process: elsewhere no mark is known again."""
    user_key()
    return (user_files.user_folder() / "exact.key").is_file()


def mark(purpose: str, content: bytes) -> str:
    """The mark of a content, 64 hexadecimal digits; marks of one purpose hold for no other."""
    return hmac.new(user_key(), purpose.encode() + b"\0" + content, "sha256").hexdigest()


def is_marked(purpose: str, content: bytes, claimed: str) -> bool:
    """Whether this user's Fractal gave `content` the mark `claimed` for this purpose."""
    return hmac.compare_digest(mark(purpose, content).encode(), claimed.encode("utf-8", "replace"))


@cache
def _key_in(path: Path) -> bytes:
    with suppress(OSError):
        if len(raw := user_files.made_once(path, lambda: secrets.token_bytes(_KEY_BYTES))) == _KEY_BYTES:
            return raw
    return secrets.token_bytes(_KEY_BYTES)
