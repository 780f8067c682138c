"""The view of what acts: messages and decisions that wait, lifeforce and growth."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from runtime.api.messaging import listed
from runtime.server.page import charts
from runtime.server.page.views import View, html
from runtime.server.service import Served

router = APIRouter(route_class=View, include_in_schema=False)
MESSAGES = 100
"""Messages that the view shows, newest first."""


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
