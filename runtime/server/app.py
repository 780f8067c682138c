"""The application: its endpoints, how errors are told, and how it starts and stops."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kernel.errors import FractalError
from runtime import __version__
from runtime.api.listening import LOOPBACK
from runtime.server import brain, deciding, events, metrics, runners, runs
from runtime.server.leaving import Json
from runtime.server.page.routes import router as page
from runtime.server.security import Guarded
from runtime.server.service import Service, http_status


def create_app(
    folder: str | Path = ".",
    *,
    settings: Mapping[str, Any] | None = None,
    token: str = "",
    hosts: Collection[str] = LOOPBACK,
    announce: Callable[[str], None] | None = None,
) -> Guarded:
    """The ASGI application that serves the workspace of a folder.

    `token` is the bearer token that each request needs, "" for none. `hosts` are the names, without a port,
    under which a client may ask for it. `announce` shows the code for the page to a person (`Persons`).
    """
    service = Service(Path(folder), settings or {}, bool(token), announce)
    app = FastAPI(
        title="Fractal",
        version=__version__,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
    )
    app.state.service = service
    app.include_router(brain.router, prefix="/brain")
    app.include_router(brain.router, prefix="/api/brain", include_in_schema=False)
    app.add_exception_handler(FractalError, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)
    for each in (runs, deciding, events, metrics, runners):
        app.include_router(each.router)
    app.include_router(page)
    return Guarded(app, hosts, token)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    await app.state.service.start()
    try:
        yield
    finally:
        await app.state.service.close()


async def _failed(request: Request, error: Exception) -> Json:
    return Json({"error": str(error)}, http_status(error))


async def _refused(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    return Json({"error": str(error.detail)}, error.status_code, error.headers)


async def _invalid(request: Request, error: Exception) -> Json:
    """Name each field that is wrong, and why."""
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}" for each in error.errors()]
    return Json({"error": "; ".join(faults)}, 422)


async def _broken(request: Request, error: Exception) -> Json:
    """An error of ours; the server's log has where it occurred."""
    return Json({"error": f"internal error in Fractal: {type(error).__name__}: {error}"}, 500)
