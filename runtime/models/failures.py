"""The failures of a call to a provider, whatever the client: which can pass, and what each has cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError
from typing import Any, cast

from pydantic import ValidationError

from kernel.asking.responder import Usage
from kernel.document.amounts import clamped
from kernel.document.escaping import to_json
from kernel.errors import explained
from runtime.http_transport import cause
from runtime.models.faults import Fault, fault_in
from runtime.models.refusals import length_in
from runtime.secrets.redaction import redact

LONGEST_REQUESTED = 3600.0  # seconds that a provider can make this process wait
TOO_MANY = 429
_PAID_UP = re.compile(r"insufficient_(?:quota|balance|credit|fund)|billing_(?:hard_)?limit|credit_balance")
"""What a provider says where not time helps, but money."""
AGAIN = frozenset({408, 409, 425, 429})
NEVER_AGAIN = frozenset({501, 505, 511})
"""The statuses of failures that pass by themselves, and those above 500 that do not."""
REPEATED = frozenset({"input", "body", "failed_generation", "ctx", "request"})
"""Members of an error that repeat what was sent or written."""
_CLASSES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")
TOO_LONG = "context_length_exceeded"
"""The kind of a refusal for its length, as OpenAI names it."""
_MEANT = {"LLM Provider NOT provided": 404, "issing credentials": 401}
"""What litellm says with another status, or without one."""
_READING = (TypeError, LookupError, AttributeError, JSONDecodeError, UnicodeError, RecursionError)
_READING += (AssertionError, NameError, ValidationError)
"""Errors of whoever reads an answer."""


class Failure(Exception):
    """A call that brought no reply: the server says why, or the connection was lost.

    `usage` is what it has cost, where that is known; `paid`: the provider may have processed the request
    although no answer arrived. An error answer costs nothing, nor does a server that was not reached.
    `by_server`: the server itself has ended its reply too early.
    """

    def __init__(
        self,
        fault: Fault,
        headers: Mapping[str, str] | None = None,
        usage: Usage | None = None,
        *,
        lost: bool = False,
        paid: bool = False,
        unreachable: bool = False,
        by_server: bool = False,
    ) -> None:
        super().__init__(fault.words or f"the server answered with the status {fault.status}")
        self.fault, self.status, self.usage = fault, fault.status, usage
        self.lost, self.paid, self.unreachable, self.by_server = lost, paid, unreachable, by_server
        self.pause = retry_after((headers or {}).get("retry-after"))
        """Seconds that the server wants to be left alone."""

    @property
    def message(self) -> str:
        """What it says, in one line."""
        return redact(" ".join(str(self).split()))[:300]

    @property
    def words(self) -> str:
        """All that a refusal says, in lower case with `_` for blanks."""
        facts = to_json(_without_request(self.fault.facts))[:2000] if self.fault.facts else ""
        return f"{self} {self.fault.kind} {facts}".casefold().replace(" ", "_")

    @property
    def passes(self) -> bool:
        """Whether it can pass by itself: the connection, a limit of rates, the server's own fault."""
        if self.status == TOO_MANY and _PAID_UP.search(self.words):
            return False
        return self.lost or self.status in AGAIN or (self.status >= 500 and self.status not in NEVER_AGAIN)

    @property
    def too_long(self) -> bool:
        """Whether the server says that the prompt, or prompt and reply, are too long."""
        if TOO_LONG in self.fault.kind:
            return True
        found = length_in(str(self)) if self.status in (400, 413, 422, 500) else None
        return bool(found and not found.longest and (found.window or "context" in str(self).lower()))


class OutOfThought(Exception):
    """The model used all of its tokens to think."""

    def __init__(self, tokens: int, usage: Usage) -> None:
        self.tokens, self.usage = tokens, usage
        super().__init__(f"its thinking took all of its {tokens} tokens")


def cut_off(what: str, usage: Usage | None = None, *, by_server: bool = False) -> Failure:
    """The reply has no end; `usage` is what has come of it."""
    return Failure(Fault(what), usage=usage, lost=True, paid=True, by_server=by_server)


def failure_of(error: Exception) -> Failure:
    """The failure that an error of a client's library means."""
    import httpx

    if isinstance(error, Failure):
        return error
    told = getattr(error, "body", None)
    said = cast(dict[str, Any], told).get("message") if isinstance(told, dict) else None
    words = _CLASSES.sub("", " ".join(str(said or error).split())) or type(error).__name__
    if lost := cause(error, httpx.TransportError) or cause(error, OSError):
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
        sent = isinstance(lost, httpx.TransportError) and not isinstance(lost, unsent)
        paid = sent or isinstance(lost, TimeoutError | ConnectionResetError)
        unreachable = isinstance(lost, httpx.ConnectError | ConnectionRefusedError)
        return Failure(Fault(words), lost=True, paid=paid, unreachable=unreachable)
    if unread := cause(error, _READING):
        words = f"the answer cannot be read ({explained(error)[:200]})"
        if isinstance(unread, JSONDecodeError):
            words = "the answer is no JSON, so that there is no reply in it; is the address right?"
        return Failure(Fault(words), paid=True)
    given = getattr(error, "status_code", 0)
    status = next((n for said, n in _MEANT.items() if said in words), given if isinstance(given, int) else 0)
    fault = (fault_in({"error": told}) if isinstance(told, dict) else None) or Fault(words)
    kind = TOO_LONG if type(error).__name__ == "ContextWindowExceededError" else fault.kind  # litellm's
    fault = replace(fault, words=words, status=status, kind=kind)
    holder = getattr(error, "litellm_response_headers", None) or getattr(error, "response", None)
    return Failure(fault, getattr(holder, "headers", holder))


def _without_request(told: Any, depth: int = 0) -> Any:
    """The facts of an error without what they repeat of the request, or of what the model wrote."""
    if depth < 5 and isinstance(told, Mapping):
        facts = cast(Mapping[str, Any], told)
        return {k: _without_request(v, depth + 1) for k, v in facts.items() if k not in REPEATED}
    if depth < 5 and isinstance(told, list):
        return [_without_request(each, depth + 1) for each in cast(list[Any], told)[:20]]
    return told


def retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, a number or a date; 0 if it is missing or invalid."""
    seconds = 0.0
    try:
        seconds = float(value or 0)
    except ValueError:
        with suppress(TypeError, ValueError, OverflowError):
            seconds = (parsedate_to_datetime(value or "") - datetime.now(UTC)).total_seconds()
    return clamped(seconds, 0.0, LONGEST_REQUESTED)
