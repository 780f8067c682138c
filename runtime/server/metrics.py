"""`GET /metrics`: the figures of the workspace, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST

from runtime.server.leaving import Text
from runtime.server.service import Served

router = APIRouter()


@router.get("/metrics", response_class=Text)
def metrics(service: Served) -> Text:
    """All figures, as text; docs/telemetry.md lists them."""
    return Text(service.figures.text(), media_type=CONTENT_TYPE_LATEST)
