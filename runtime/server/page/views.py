"""What the views share: the HTML response, and errors that are told as a page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from kernel.errors import FractalError
from runtime.server.leaving import Html
from runtime.server.page.forms import FIELD, keep_token, token_of
from runtime.server.page.rendering import render
from runtime.server.service import http_status

HEADERS = {"referrer-policy": "same-origin"}
"""With `no-referrer`, a browser sends forms with the origin `null`, and they could not be told apart."""


def html(request: Request, template: str, code: int = 200, **values: Any) -> HTMLResponse:
    """A view of the page."""
    values |= {"path": request.url.path, "form_field": FIELD, "form_token": token_of(request)}
    values["signed_in"] = hasattr(request.state, "sign_out")
    response = Html(render(template, **values), code, HEADERS)
    keep_token(request, response)
    return response


def seen(place: str) -> RedirectResponse:
    """After a form: show this place."""
    return RedirectResponse(place, 303, HEADERS)


class View(APIRoute):
    """A route whose errors are told as a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of a request."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except FractalError as error:
                return html(request, "error.html", http_status(error), message=str(error))
            except HTTPException as error:
                return html(request, "error.html", error.status_code, message=str(error.detail))
            except RequestValidationError:
                return html(request, "error.html", 422, message="the address of this view is wrong")

        return handled
