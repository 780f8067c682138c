"""What a server says where it does not reply: its own words, and whether that can pass by itself.

Errors come with a status, within an answer of status 200, in the middle of a stream, as objects, texts, lists
and web pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import unescape
from typing import Any, cast

LONGEST_WORDS = 600
"""Characters of a server's message that are kept."""
LARGEST_HEAD = 4_000
"""Characters of a web page in which its title is looked for."""
REFUSED = 422
"""The status of a request that cannot be processed."""
NO_STATUS = 0
"""The status of a fault that does not pass by itself, where the server gives none."""
_WORDS = ("message", "error_message", "error_msg", "msg", "detail", "error_description", "status_msg")
_MORE_WORDS = ("error", "description", "reason", "title", "text")
_STATUS = ("code", "status", "status_code", "statusCode", "http_status", "http_code", "error_code")
_KIND = ("code", "type", "status", "error_code")
_LASTS = re.compile(
    r"quota|billing|credit|payment|invalid|unsupported|not[ _](?:support|found|allowed|permitted)"
    r"|context[ _]length|permission|authenti|unauthori|api[ _]key",
    re.IGNORECASE,
)
_LIMITED = re.compile(r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl", re.IGNORECASE)
_PASSES = re.compile(
    r"overload|unavailable|try (?:your request )?again|temporar|time[d_ -]{0,2}out|loading|at capacity|busy"
    r"|internal|server.?(?:had an )?error|bad.?gateway|upstream|connection|api_error",
    re.IGNORECASE,
)
_REFUSES = re.compile(r"\b\d+ validation errors?\b|invalid_request_error", re.IGNORECASE)
"""What servers say of a request that they refuse, also where the status is that of a fault of their own."""
_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1|$)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


@dataclass(frozen=True)
class Fault:
    """What a server says instead of a reply."""

    words: str
    status: int = NO_STATUS
    kind: str = ""  # its code and type, as the server names them
    wrote: str = ""  # what the model wrote, where the server could not read it
    unread: bool = False  # the answer is no such message: it cannot be read
    facts: Mapping[str, Any] | None = None  # the members of the error

    def with_status(self, status: int) -> Fault:
        """This fault with the status of its answer, unless its words say that it is a refusal."""
        refuses = status == 500 and _REFUSES.search(f"{self.kind} {self.words}")
        return replace(self, status=REFUSED if refuses else status)


def fault_in(value: Mapping[str, Any]) -> Fault | None:
    """The error that an answer's object states, if any."""
    error = value.get("error")
    if error and not (isinstance(error, Mapping) and not any(cast(Mapping[str, Any], error).values())):
        return _fault(error, value)
    choices = value.get("choices")
    if choices:
        first: Any = cast(list[Any], choices)[0] if isinstance(choices, list) else choices
        said = cast(Mapping[str, Any], first).get("error") if isinstance(first, Mapping) else None
        return _fault(said, {}) if said else None
    if errors := value.get("errors"):
        return _fault(errors, value)
    base = value.get("base_resp")
    if isinstance(base, Mapping) and cast(Mapping[str, Any], base).get("status_code"):
        return _fault(base, value)
    named = value.get("object") == "error" or value.get("type") == "error" or value.get("success") is False
    if named or any(isinstance(value.get(name), str) for name in _WORDS) or "detail" in value:
        return _fault(value, {})
    return None


def of_page(text: str, ok: bool) -> Fault:
    """The fault of an answer that is a web page, or a text; `ok`: its status says that it is a reply."""
    if text.count("\ufffd") + text.count("\0") > len(text) // 10:
        return Fault("the answer is no text; is the address right?")
    if not text.startswith("<"):
        words = " ".join(text.split())[:LONGEST_WORDS]
        return Fault(f"the answer is no reply: {words}" if ok else words, _status_of(words, words))
    title = _TITLE.search(text[:LARGEST_HEAD])
    seen = title[2] if title else _HIDDEN.sub(" ", text)
    words = " ".join(unescape(_TAG.sub(" ", seen)).split())[:200]
    if not ok:
        return Fault(words)
    said = f": {words}" if words else ""
    status = _status_of(words, words)
    return Fault(f"the answer is a web page and no reply{said}; is the address right?", status)


def _fault(error: Any, around: Mapping[str, Any]) -> Fault:
    facts = cast(Mapping[str, Any], error) if isinstance(error, Mapping) else {}
    kind = " ".join(
        str(each)
        for each in (facts.get(name) for name in _KIND)
        if isinstance(each, str) and not each.isdigit() and each != "error"
    )
    words = _words_in(error) or kind or "the server reports an error and does not say which"
    numbers = [place.get(name) for place in (facts, around) for name in _STATUS]
    status = next(filter(None, map(_http, numbers)), NO_STATUS) or _status_of(kind, words)
    wrote = facts.get("failed_generation")
    return Fault(
        words[:LONGEST_WORDS], status, kind[:100], wrote if isinstance(wrote, str) else "", facts=facts
    )


def _words_in(value: Any, depth: int = 0) -> str:
    """The message in an error, in one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    if depth > 4:
        return ""
    if isinstance(value, list):
        found = [_words_in(each, depth + 1) for each in cast(list[Any], value)[:5]]
        return "; ".join(filter(None, found))
    if not isinstance(value, Mapping):
        return ""
    facts = cast(Mapping[str, Any], value)
    words = next(filter(None, (_words_in(facts.get(name), depth + 1) for name in _WORDS)), "")
    words = words or next(filter(None, (_words_in(facts.get(name), depth + 1) for name in _MORE_WORDS)), "")
    if isinstance(place := facts.get("loc"), list):  # what validates a request says where
        words = f"{'.'.join(map(str, cast(list[Any], place)))}: {words}"
    behind: Any = facts.get("metadata")
    if isinstance(behind, Mapping) and (raw := _words_in(cast(Mapping[str, Any], behind).get("raw"))):
        words = f"{words}: {raw}"  # what the provider behind a gateway said
    return words


def _http(value: Any) -> int:
    """A number as a status of HTTP's errors, else 0."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) if re.fullmatch(r"[45]\d\d", text) else 0


def _status_of(kind: str, words: str) -> int:
    """The status that a message without one means; `NO_STATUS` if it does not pass by itself."""
    for text in (kind, words):
        if _LIMITED.search(text):
            return 429
        if _LASTS.search(text):
            return NO_STATUS
        if _PASSES.search(text):
            return 503
    return NO_STATUS
