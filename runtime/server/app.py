"""The application: its endpoints, how errors are told, and how it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kernel.errors import ConfigurationError, FractalError, RunLocked, StorageError, UsageError
from runtime import __version__
from runtime.api.checkpointing import keep_making
from runtime.server import runners
from runtime.server.security import LARGEST, Guarded, TooLarge
from runtime.server.service import Service

LOOPBACK = ("127.0.0.1", "localhost", "::1")
STATUS: Mapping[type[FractalError], int] = {
    RunLocked: 409,
    UsageError: 400,
    ConfigurationError: 400,
    StorageError: 503,
}
"""The status of an error; 500 for any other."""


def create_app(
    folder: str | Path = ".",
    *,
    settings: Mapping[str, Any] | None = None,
    token: str = "",
    hosts: Collection[str] = LOOPBACK,
) -> Guarded:
    """The ASGI application that serves the workspace of a folder.

    `token` is the bearer token that each request needs, "" for none. `hosts` are the names, without a port,
    under which a client may ask for it.
    """
    service = Service(Path(folder), settings or {})
    app = FastAPI(title="Fractal", version=__version__, lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    app.add_exception_handler(FractalError, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(TooLarge, _too_large)
    app.include_router(runners.router)
    return Guarded(app, hosts, token)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    copying = asyncio.create_task(keep_making(app.state.service.fractal))
    try:
        yield
    finally:
        copying.cancel()
        await app.state.service.close()


async def _failed(request: Request, error: Exception) -> JSONResponse:
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Name each field that is wrong, and why."""
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}" for each in error.errors()]
    return JSONResponse({"error": "; ".join(faults)}, 422)


async def _too_large(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": f"at most {LARGEST:,} bytes are accepted"}, 413)
