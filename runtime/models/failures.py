"""The failures of a call to a provider: which of them can pass by themselves, and what each has cost.

Errors of client libraries are known by the names of their classes, so that none of the libraries is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from kernel.asking.responder import Usage
from kernel.document.amounts import clamped
from kernel.document.escaping import to_json
from kernel.errors import explained
from runtime.models.faults import Fault
from runtime.models.refusals import length_in
from runtime.received import TooLarge
from runtime.secrets.redaction import redact

LONGEST_REQUESTED = 3600.0  # seconds that a provider can make this process wait
TOO_MANY = 429
_PAID_UP = re.compile(r"insufficient_(?:quota|balance|credit|fund)|billing_(?:hard_)?limit|credit_balance")
"""What a provider says where not time helps, but money."""
AGAIN = frozenset({408, 409, 425, 429})
NEVER_AGAIN = frozenset({501, 505, 511})
"""The statuses of failures that pass by themselves, and those above 500 that do not."""
_CLASSES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - ))+")
_CONNECTION = frozenset(
    {"ConnectError", "ConnectTimeout", "ReadError", "ReadTimeout", "WriteError", "WriteTimeout"}
    | {"PoolTimeout", "RemoteProtocolError", "CloseError", "ProxyError", "APIConnectionError"}
    | {"ServerDisconnectedError", "ClientOSError", "ClientConnectorError", "Timeout", "APITimeoutError"}
    | {"ConnectionResetError", "ConnectionRefusedError", "BrokenPipeError", "TimeoutError", "gaierror"}
)
"""Errors of a connection, which can pass by themselves."""
_READING = frozenset(
    {"TypeError", "KeyError", "IndexError", "AttributeError", "JSONDecodeError", "UnicodeDecodeError"}
    | {"ValidationError", "RecursionError", "AssertionError", "UnboundLocalError"}
)
"""Errors of whoever reads an answer."""


_CUT_OFF = frozenset(
    {"ConnectionResetError", "ReadError", "ReadTimeout", "RemoteProtocolError"}
    | {"ServerDisconnectedError", "ClientOSError", "WriteError"}
    | {"Timeout", "TimeoutError", "APITimeoutError"}
)
"""Errors when a connection breaks, or no answer comes, after the request was sent."""


class ServerFault(Exception):
    """The server answered with an error, or with what is no reply; `usage` is what that has cost."""

    def __init__(
        self, fault: Fault, headers: Mapping[str, str] | None = None, usage: Usage | None = None
    ) -> None:
        self.fault, self.status_code, self.response = fault, fault.status, headers or {}
        self.usage = usage
        super().__init__(fault.words or f"the server answered with the status {fault.status}")


class CutOff(ConnectionResetError):
    """The reply has no end; `usage` is what has come of it, `by_server` whether its server has ended it."""

    def __init__(self, what: str, usage: Usage | None = None, by_server: bool = False) -> None:
        self.usage, self.by_server = usage, by_server
        super().__init__(what)


class OutOfThought(Exception):
    """The model used all of its tokens to think."""

    def __init__(self, tokens: int, usage: Usage) -> None:
        self.tokens, self.usage = tokens, usage
        super().__init__(f"its thinking took all of its {tokens} tokens")


def passes(error: Exception) -> bool:
    """Whether a failure can pass by itself: the connection, a limit of rates, the server's own fault."""
    status = status_of(error)
    if is_read_wrongly(error):
        return False
    if status == TOO_MANY and _PAID_UP.search(words_of(error)):
        return False
    if status:
        return status in AGAIN or (status >= 500 and status not in NEVER_AGAIN)
    return isinstance(error, OSError) or bool(_causes(error) & _CONNECTION)


def status_of(error: Exception) -> int:
    """The HTTP status; 0 where no answer came, or none that says so."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else 0


def is_read_wrongly(error: Exception) -> bool:
    """Whether the answer came and its reader failed: that is nobody's fault but the reader's."""
    names = _causes(error)
    return bool(names & _READING) and not names & (_CONNECTION | _CUT_OFF)


REPEATED = frozenset({"input", "body", "failed_generation", "ctx", "request"})
"""Members of an error that repeat what was sent or written."""


def words_of(error: Exception) -> str:
    """All that a refusal says, in lower case with `_` for blanks."""
    fault = error.fault if isinstance(error, ServerFault) else None
    told: Any = fault.facts if fault else getattr(error, "body", None)
    facts = to_json(_without_request(told))[:2000] if isinstance(told, dict) else ""
    return f"{error} {fault.kind if fault else ''} {facts}".casefold().replace(" ", "_")


def _without_request(told: Any, depth: int = 0) -> Any:
    """The facts of an error without what they repeat of the request, or of what the model wrote."""
    if depth < 5 and isinstance(told, Mapping):
        facts = cast(Mapping[str, Any], told)
        return {k: _without_request(v, depth + 1) for k, v in facts.items() if k not in REPEATED}
    if depth < 5 and isinstance(told, list):
        return [_without_request(each, depth + 1) for each in cast(list[Any], told)[:20]]
    return told


def is_too_long(error: Exception) -> bool:
    """Whether the server says that the prompt, or prompt and reply, are too long."""
    found = length_in(str(error)) if status_of(error) in (400, 413, 422, 500) else None
    return bool(found and not found.longest and (found.window or "context" in str(error).lower()))


def read_wrongly(error: Exception) -> str:
    """What is said of such an answer."""
    if "JSONDecodeError" in _causes(error):
        return "the answer is no JSON, so that there is no reply in it; is the address right?"
    return f"the answer cannot be read ({explained(error)[:200]})"


def may_be_processed(error: Exception) -> bool:
    """Whether the provider may have processed the request although no answer arrived.

    An error answer costs nothing, and neither does a server that was not reached.
    """
    return type(error).__name__ in ("Timeout", "TimeoutError", "APITimeoutError") or bool(
        _causes(error) & _CUT_OFF
    )


def too_large(error: BaseException | None) -> str:
    """What was too large of an answer; "" if nothing was."""
    for _ in range(20):
        if error is None or isinstance(error, TooLarge):
            break
        error = error.__cause__ or error.__context__
    return str(error) if isinstance(error, TooLarge) else ""


def refused_connection(error: Exception) -> bool:
    """Whether nothing answers at the address."""
    return "ConnectError" in _causes(error) or "ConnectionRefusedError" in _causes(error)


def _causes(error: Exception) -> set[str]:
    """The names of an error's class and those of its causes."""
    names: set[str] = set()
    cause: BaseException | None = error
    while cause is not None and len(names) < 20:
        names.add(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return names


def error_message(error: Exception) -> str:
    """The provider's message in one line, without litellm's prefix of class names."""
    body = getattr(error, "body", None)
    told = cast(dict[str, Any], body).get("message") if isinstance(body, dict) else None
    text = _CLASSES.sub("", " ".join(str(told or error).split()))
    return redact(text)[:300] or type(error).__name__


def header_of(error: Exception, name: str) -> str | None:
    """A header of the answer that an error is about."""
    for holder in (getattr(error, "litellm_response_headers", None), getattr(error, "response", None)):
        headers = getattr(holder, "headers", holder)
        if headers is not None and name in headers:
            return headers[name]
    return None


def retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, a number or a date; 0 if it is missing or invalid."""
    seconds = 0.0
    try:
        seconds = float(value or 0)
    except ValueError:
        with suppress(TypeError, ValueError, OverflowError):
            seconds = (parsedate_to_datetime(value or "") - datetime.now(UTC)).total_seconds()
    return clamped(seconds, 0.0, LONGEST_REQUESTED)
