"""`GET /metrics`: the figures of the workspace, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from runtime.server.service import Served

router = APIRouter()


@router.get("/metrics", response_class=Response)
def metrics(service: Served) -> Response:
    """All figures, as text; docs/telemetry.md lists them."""
    return Response(service.figures.text(), media_type=CONTENT_TYPE_LATEST)
