"""All views of the page."""

from __future__ import annotations

from fastapi import APIRouter

from runtime.server.page import brain, nerves, runs

router = APIRouter()
for each in (runs, brain, nerves):
    router.include_router(each.router)
