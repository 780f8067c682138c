"""The person at the page, told from programs by a code that only a terminal shows."""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Callable

MOST_PAGES = 20
"""Proofs that hold at the same time; the oldest goes."""


class Persons:
    """The code of the newest link, and the proofs of the pages that used one. Both end with the process."""

    def __init__(self, announce: Callable[[str], None] | None) -> None:
        """`announce` shows a code to a person, and to nobody else; None: there is no such way."""
        self._announce = announce
        self._code = ""
        self._proofs: deque[str] = deque(maxlen=MOST_PAGES)
        self._renew()

    def _renew(self) -> None:
        if self._announce:
            self._code = secrets.token_hex(16)
            self._announce(self._code)

    def admit(self, code: str) -> str:
        """The proof for a code, which is void afterwards; "" for a wrong one."""
        if not self._code or not _same(code, self._code):
            return ""
        proof = secrets.token_hex(32)  # in no form that an answer hides
        self._proofs.append(proof)
        self._renew()
        return proof

    def knows(self, proof: str) -> bool:
        """Whether that is a proof that was given."""
        return any(_same(proof, each) for each in self._proofs)

    @property
    def possible(self) -> bool:
        """Whether a person can be recognised at all."""
        return self._announce is not None


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())
