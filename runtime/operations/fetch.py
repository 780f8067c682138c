"""The operation fetch: a page or a file of the open web, as text or into a file."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from kernel.errors import OperationFailed
from kernel.tools.operations import Result, Touch
from runtime.operations.texts import encoded, relative, save, unreadable
from runtime.operations.walking import Deadline
from runtime.sandbox.context import OperationContext, operation

if TYPE_CHECKING:
    from runtime.operations.web import Page, Url

MOST_BYTES = 10_000_000
"""Of an answer, unpacked; `settings["fetch"]["max_bytes"]` overrides."""
MOST_REDIRECTS = 5
MOST_HTML = 3_000_000
AGENT = "fractal-runtime/0.1 (a file-based agent runtime)"
_OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "accept-encoding")
_SECRETS = (
    *("authorization", "cookie", "proxy-authorization", "x-api-key", "api-key", "x-auth-token"),
    "x-subscription-token",
)
_REDIRECTS = (301, 302, 303, 307, 308)
_SHOWN_OF_ERROR = 2_000
_PART = re.compile(r"text|links|table(?: [1-9]\d?)?")


@dataclass(frozen=True)
class _Request:
    """The next request."""

    where: Url
    method: str
    headers: Mapping[str, str]
    body: bytes | None


def _prepare(ctx: OperationContext, to: str = "", **_: Any) -> tuple[Touch, ...]:
    return (Touch(ctx.writable(to)),) if to else ()


@operation(_prepare)
def fetch(
    ctx: OperationContext,
    url: str,
    to: str = "",
    method: str = "GET",
    headers: Mapping[str, Any] | None = None,
    body: str = "",
    part: str = "",
) -> Result:
    """The readable text of a web page, its links or a table; with `to`, that or the bytes go to a file."""
    target = ctx.writable(to) if to else None
    if part and not _PART.fullmatch(part):
        raise OperationFailed(f"part: {part!r} is none of text, links, table, table 2 and so on")
    settings = ctx.settings.get("fetch", {})
    inline = url.startswith("data:")
    page = _data(url) if inline else fetched(ctx, url, settings, headers or {}, method, body)
    evidence: dict[str, Any] = {
        "url": page.address,
        "status": page.status,
        "headers": {name: value[:500] for name, value in list(page.headers.items())[:50]},
        "bytes": len(page.body),
    }
    if page.redirects:
        evidence["redirects"] = list(page.redirects)
    if not 200 <= page.status < 300:
        return Result(_error_text(page), ok=False, evidence=evidence)
    if target is not None:
        data = encoded(f"{_part(page, part)}\n", "the page") if part else page.body
        save(target, data, to)
        name = relative(ctx, target)
        what = f"{part} ({len(data)} bytes)" if part else f"{len(data)} bytes"
        return Result(f"wrote {what} from {page.address[:200]} to {name}", evidence=evidence)
    if method == "HEAD":
        return Result(
            "\n".join(f"{name}: {value}" for name, value in page.headers.items()), evidence=evidence
        )
    return Result(_part(page, part or "text"), evidence=evidence)


def _part(page: Page, part: str) -> str:
    """The readable text, the links, or a table as CSV."""
    html = _is_html(page)
    if part != "text" and not html:
        raise OperationFailed(
            f"{page.address[:200]}: {page.kind or 'no HTML'}, so it has no {part}; leave part out"
        )
    text = _decoded(page, html)
    if not html:
        return text
    from runtime.operations.pages import links, readable, table_as_csv

    if part == "text":
        return readable(text, page.address)
    if part == "links":
        found = links(text, page.address)
        return "\n".join(f"{words or '(no words)'} — {address}" for words, address in found) or "no links"
    return table_as_csv(text, int(part.partition(" ")[2] or 0), page.address[:200])


def fetched(
    ctx: OperationContext,
    address: str,
    settings: Mapping[str, Any],
    headers: Mapping[str, Any],
    method: str = "GET",
    body: str = "",
) -> Page:
    """The answer to a request, within what the settings allow; redirects are followed."""
    from runtime.operations.web import addresses, ask

    most, allowed = int(settings.get("max_bytes", MOST_BYTES)), settings.get("allow_private", False)
    deadline = Deadline(ctx.timeout * 0.95)  # end before the kernel does, with a better message
    request = _request(address, method, headers, body)
    visited: list[str] = []
    while True:
        host = request.where.host
        private = allowed is True or (isinstance(allowed, (list, tuple)) and host in allowed)
        pinned = addresses(request.where, private)
        answer = ask(request.where, pinned, request.method, request.headers, request.body, most, deadline)
        location = answer.headers.get("location", "")
        if answer.status not in _REDIRECTS or not location:
            return replace(answer, redirects=tuple(visited))
        visited.append(request.where.text)
        if len(visited) > MOST_REDIRECTS:
            raise OperationFailed(
                f"{address}: more than {MOST_REDIRECTS} redirects, the last to {location[:99]}"
            )
        request = _redirected(request, answer.status, location)


def _request(address: str, method: str, headers: Mapping[str, Any], body: str) -> _Request:
    if body and method in ("GET", "HEAD"):
        raise OperationFailed(f"body: goes with POST, PUT, PATCH or DELETE, not with {method}")
    named = {"User-Agent": AGENT, "Accept": "text/html,application/json,text/*;q=0.9,*/*;q=0.8"}
    for name, value in headers.items():
        _check_header(name, str(value))
        named = {key: old for key, old in named.items() if key.lower() != name.lower()} | {name: str(value)}
    if body and "content-type" not in map(str.lower, named):
        json_like = body.lstrip()[:1] in ("{", "[")
        named["Content-Type"] = "application/json" if json_like else "text/plain; charset=utf-8"
    from runtime.operations.web import url

    where = url(address)
    sent = encoded(body, "body") if body else (b"" if method in ("POST", "PUT", "PATCH") else None)
    fixed = {"Host": where.netloc, "Accept-Encoding": "identity", "Connection": "close"}
    return _Request(where, method, named | fixed, sent)


def _check_header(name: str, value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", name):
        raise OperationFailed(f"headers: {name[:60]!r} is not the name of a header")
    if len(value) > 8_000 or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value) or not value.isascii():
        raise OperationFailed(f"headers: the value of {name} has characters that a header cannot have")
    if name.lower() in _OURS:
        raise OperationFailed(f"headers: {name} is set by fetch itself; leave it out")


def _redirected(request: _Request, status: int, location: str) -> _Request:
    where = request.where.joined(location)
    if request.where.scheme == "https" and where.scheme == "http":
        raise OperationFailed(
            f"{request.where.text}: redirects from https to {where.text[:200]}, without encryption"
        )
    headers = {**request.headers, "Host": where.netloc}
    if where.origin != request.where.origin:
        headers = {name: value for name, value in headers.items() if name.lower() not in _SECRETS}
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        method = "HEAD" if request.method == "HEAD" else "GET"
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return _Request(where, method, headers, None)
    return replace(request, where=where, headers=headers)


def _data(address: str) -> Page:
    """The page that a data: address holds in itself (RFC 2397)."""
    from runtime.operations.web import Page

    kind, comma, content = address.removeprefix("data:").partition(",")
    if not comma or len(content) > MOST_BYTES:
        raise OperationFailed("data: an address such as data:text/plain,hello is needed, at most 10 MB long")
    body = unquote_to_bytes(content)
    if kind.endswith(";base64"):
        kind = kind.removesuffix(";base64")
        try:
            body = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise OperationFailed("data: the address is not proper base64") from None
    return Page(f"data:{kind}", 200, "OK", {"content-type": kind or "text/plain;charset=us-ascii"}, body)


def _error_text(page: Page) -> str:
    status = f"{page.status} {page.reason}".strip()
    try:
        text = _part(page, "text")[:_SHOWN_OF_ERROR].strip()
    except OperationFailed:
        text = ""
    return f"{page.address} answered {status}" + (f"\n\n{text}" if text else "")


def _is_html(page: Page) -> bool:
    begins = not page.kind and re.match(rb"\s*<(?:!doctype html|html)", page.body[:200], re.IGNORECASE)
    return page.kind in ("text/html", "application/xhtml+xml") or bool(begins)


def _decoded(page: Page, html: bool) -> str:
    hit = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", page.headers.get("content-type", ""), re.IGNORECASE)
    name = hit[1] if hit else ""
    hit = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", page.body[:4096])
    if html and not name and hit:
        name = hit[1].decode("ascii", "replace")
    if page.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    elif page.body.startswith(codecs.BOM_UTF8):
        name = "utf-8"
    textual = page.kind.startswith("text/") or re.search(
        r"json|xml|javascript|yaml|csv|form-urlencoded", page.kind
    )
    if not textual and (b"\0" in page.body[:8192] or (page.kind and unreadable(page.body))):
        raise OperationFailed(
            f"{page.address}: {page.kind or 'binary'}, {len(page.body)} bytes; give `to`, a file to write"
        )
    try:
        text = page.body.decode(name or "utf-8", "strict" if not name else "replace")
    except UnicodeDecodeError:
        text = page.body.decode("cp1252", "replace")  # the usual encoding of pages that name none
    except LookupError:
        text = page.body.decode("utf-8", "replace")
    if html and len(text) > MOST_HTML:
        raise OperationFailed(f"{page.address}: a page of {len(text):,} characters; give `to`, without part")
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
