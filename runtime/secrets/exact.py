"""The exact texts behind `[redacted NAME ID]` in what a run stores.

A run has to read its documents, results and replies again to go on, but what is stored shows no secret. So a
secret is replaced by its name and an ID, and the value stands encrypted in `artifacts/exact` of the run. The
key is outside the run's folder, with the user's own files: who is given the folder does not get the values.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from kernel import disk
from kernel.document.redaction import OfRun
from runtime import found_files
from runtime.secrets.forms import HIDDEN
from runtime.secrets.key import user_key
from runtime.secrets.known import learn_value
from runtime.secrets.redaction import redactor

_MARK_BYTES = 16


def of_run(folder: Path) -> OfRun:
    """The secrets of one run, for its store and its log of calls."""
    kept = _Kept(folder)
    return OfRun(kept.concealer, kept.reveal, kept.learn)


class _Kept:
    """The secrets of one run, by ID."""

    def __init__(self, run: Path) -> None:
        self.path = run / "artifacts" / "exact"
        self._values: dict[str, str] = {}
        self._read = ""  # the version of the file that was read
        self._lock = threading.RLock()

    def concealer(self) -> Callable[[str], str]:
        """A function that replaces each secret of a text, for many texts: the values are kept first."""
        self.learn()
        return redactor(self._keep)

    def learn(self) -> None:
        """From now on this process shows none of the values, wherever they stand."""
        with self._lock:
            self._load()

    def reveal(self, text: str) -> str:
        """The text with each secret of this run in its place again."""
        if "[redacted " not in text:
            return text
        with self._lock:
            self._load()
            return HIDDEN.sub(lambda hit: self._values.get(hit[2], hit[0]), text)

    def _keep(self, name: str, value: str) -> str:
        id = hmac.new(user_key(), value.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:10]
        with self._lock:
            self._load()
            if id not in self._values:
                self._values[id] = value
                learn_value(name, value)
                with suppress(OSError):  # without it the value is known to this process only
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    disk.append(
                        self.path, _sealed(f"{id}{json.dumps([name, value])}".encode()) + b"\n", make=True
                    )
        return f"[redacted {name} {id}]"

    def _load(self) -> None:
        version = str(found_files.version(self.path))
        if version == self._read:
            return
        self._read = version
        with suppress(OSError):
            for line in disk.read(self.path).splitlines():
                with suppress(ValueError):  # torn, or of another user
                    text = _opened(line).decode()
                    kept: Any = json.loads(text[10:])  # earlier runs have only the value
                    name, value = cast("list[str]", kept) if isinstance(kept, list) else ("secret", str(kept))
                    if self._values.setdefault(text[:10], value) == value:
                        learn_value(name, value)


def _sealed(raw: bytes) -> bytes:
    """Bytes encrypted with the user's key, and authenticated."""
    nonce = secrets.token_bytes(_MARK_BYTES)
    hidden = _crossed(nonce, raw)
    return base64.b64encode(nonce + _mark(nonce + hidden) + hidden)


def _opened(line: bytes) -> bytes:
    """What `_sealed` was given; raises `ValueError` for another key."""
    whole = base64.b64decode(line, validate=True)
    nonce, mark, hidden = whole[:_MARK_BYTES], whole[_MARK_BYTES : 2 * _MARK_BYTES], whole[2 * _MARK_BYTES :]
    if not hmac.compare_digest(mark, _mark(nonce + hidden)):
        raise ValueError("sealed with another key")
    return _crossed(nonce, hidden)


def _mark(raw: bytes) -> bytes:
    return hmac.new(user_key(), b"mark" + raw, "sha256").digest()[:_MARK_BYTES]


def _crossed(nonce: bytes, raw: bytes) -> bytes:
    """Bytes crossed with a stream that only the key gives: SHAKE-256 of key and nonce."""
    stream = hashlib.shake_256(b"stream" + user_key() + nonce).digest(len(raw))
    return bytes(one ^ other for one, other in zip(raw, stream, strict=True))
