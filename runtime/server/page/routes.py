"""All views of the page, its files, and the way out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from runtime.server.page import brain, nerves, runners, runs
from runtime.server.page.forms import Fields
from runtime.server.page.rendering import ASSETS
from runtime.server.page.views import View, seen

router = APIRouter(route_class=View, include_in_schema=False)
for each in (runs, brain, nerves, runners):
    router.include_router(each.router)
_TYPES = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


@router.get("/assets/{name}")
def asset(name: str) -> Response:
    """A file of the page: its style and its scripts."""
    path = ASSETS / name
    if path.parent != ASSETS or not path.is_file():
        return Response(status_code=404)
    return Response(path.read_bytes(), media_type=_TYPES.get(path.suffix, "text/plain"))


@router.post("/sign-out")
async def sign_out(request: Request, fields: Fields) -> Response:
    """End the session of this browser."""
    if hasattr(request.state, "sign_out"):
        request.state.sign_out()
    return seen("/")
