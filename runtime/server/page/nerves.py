"""The views of what acts: messages and decisions that wait, lifeforce, growth, and remote runners."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from runtime.api.fractal import Fractal
from runtime.api.messaging import listed
from runtime.server.page import charts
from runtime.server.page.rendering import ASSETS
from runtime.server.page.views import View, html
from runtime.server.service import Served

router = APIRouter(route_class=View, include_in_schema=False)
MESSAGES = 100
"""Messages that the view shows, newest first."""
REFRESH = 5
"""Seconds after which the view of runners is read again. Source: server.md."""
_TYPES = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


@router.get("/nerves")
def nerves(request: Request, served: Served) -> HTMLResponse:
    """Messages, what waits for a decision, what was read and is not yet known, lifeforce and growth."""
    fractal = served.fractal
    there = fractal.memory.there
    pool = fractal.lifeforce
    months = fractal.growth()
    return html(
        request,
        "nerves.html",
        messages=listed(fractal)[: -MESSAGES - 1 : -1],
        waits=fractal.review(),
        staged=fractal.nerves.staging.waiting() if there else [],
        pool=pool,
        level=pool.level() if pool else None,
        months=months,
        growth=charts.growth(months),
    )


@router.get("/runners")
def runners(request: Request, served: Served) -> HTMLResponse:
    """The remote runners, as each reported last."""
    return html(request, "runners.html", runners=[*_runners(served.fractal)], refresh=REFRESH)


class Report(BaseModel):
    """What a runner said of itself last."""

    status: str = ""
    at: str = ""
    suite: str = ""
    model: str = ""
    done: int = 0
    total: int = 0
    accuracy: float = 0.0
    topology: dict[str, int] = Field(default_factory=dict[str, int])
    """By kind of record: how many its memory holds."""
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    error: str = ""


def _runners(fractal: Fractal) -> Iterator[tuple[str, Report]]:
    """The name and the last report of each runner; a file that is none has the fault as its error."""
    for path in sorted((fractal.workspace.state / "runners").glob("*.json")):
        try:
            report = Report.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:  # of pydantic, too
            report = Report(status="broken", error=str(error))
        yield path.stem, report


@router.get("/assets/{name}")
def asset(name: str) -> Response:
    """A file of the page: its style and its scripts."""
    path = ASSETS / name
    if path.parent != ASSETS or not path.is_file():
        return Response(status_code=404)
    return Response(path.read_bytes(), media_type=_TYPES.get(path.suffix, "text/plain"))
