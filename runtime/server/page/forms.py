"""The forms of the page: what one says, and that this page and no other has sent it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request
from starlette.responses import Response

COOKIE = "fractal-form"
FIELD = "form"
"""The field of every form that repeats the cookie."""
MOST_FIELDS = 20


def token_of(request: Request) -> str:
    """The token of this browser's forms; a new one if it has none."""
    if not hasattr(request.state, "form_token"):
        request.state.form_token = request.cookies.get(COOKIE) or secrets.token_urlsafe(24)
    return str(request.state.form_token)


def keep_token(request: Request, response: Response) -> None:
    """Send the token to the browser, which sends it back only with requests of this site."""
    if request.cookies.get(COOKIE) != token_of(request):
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, token_of(request), httponly=True, samesite="strict", secure=secure)


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises `HTTPException` 403 unless a view of this server has sent it.

    A page of another site has another origin. One on another port of this machine shares our cookies, but
    neither the origin nor the field.
    """
    host = request.headers.get("host", "")
    if request.headers.get("origin", "").partition("://")[2] != host:
        raise HTTPException(403, "forms are accepted only from the page of this server")
    raw = await request.body()
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "this is not the form of the page") from None
    fields = {name: text.replace("\r\n", "\n") for name, text in pairs}
    given, kept = fields.pop(FIELD, ""), request.cookies.get(COOKIE, "")
    if not kept or not hmac.compare_digest(given.encode(), kept.encode()):
        raise HTTPException(403, "the form is outdated; reload the page and send it again")
    return fields


Fields = Annotated[Mapping[str, str], Depends(form_of)]
"""The parameter of an endpoint that takes a form of the page."""
