"""Endpoints of remote runners: heartbeats, and the bench runs that they take from a queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field

from kernel.document.amounts import MOST_AT_ONCE
from kernel.document.frontmatter import NAME
from runtime.benchmarks.queue import Queue
from runtime.server.request import StrictRequest
from runtime.server.schemas import refusals
from runtime.server.service import Served, Service

router = APIRouter(prefix="/api", tags=["benchmarks"], responses=refusals(503))
Runner = Annotated[str, Path(pattern=NAME.pattern, max_length=64)]
Count = Annotated[int, Field(ge=0, le=MOST_AT_ONCE)]
Text = Annotated[str, Field(max_length=500)]


class Heartbeat(StrictRequest):
    """What a runner says of itself every few seconds. `topology` counts what its memory holds."""

    status: Literal["idle", "running", "stopped", "done", "failed"]
    job: Text = ""
    bench: Text = ""
    suite: Text = ""
    model: Text = ""
    done: Count = 0
    total: Count = 0
    accuracy: float = Field(0, ge=0, le=1)
    without_model: float = Field(0, ge=0, le=1)
    topology: dict[Text, Count] = Field(default_factory=dict, max_length=20)
    cpu_seconds: float = Field(0, ge=0, le=1e12)
    memory_mb: float = Field(0, ge=0, le=1e12)
    figures: dict[str, Any] | None = None
    error: Text = ""


class Job(StrictRequest):
    """A bench run to queue. `suite` is a name: arithmetic, swe, or what is in the runner's folder of data."""

    suite: str = Field("arithmetic", pattern=r"^[\w][\w.-]{0,100}$")
    model: str | None = Field(None, max_length=500)
    limit: int | None = Field(None, ge=1, le=MOST_AT_ONCE)
    seed: int = Field(1, ge=-MOST_AT_ONCE, le=MOST_AT_ONCE)
    every: int = Field(50, ge=0, le=MOST_AT_ONCE)
    dream: bool = False
    feedback: bool = True


def _queue(service: Service) -> Queue:
    return Queue(service.fractal.workspace.state)


@router.post("/runners/{id}", status_code=204)
def beat(id: Runner, heartbeat: Heartbeat, service: Served) -> None:
    """Keep a heartbeat of a runner."""
    _queue(service).beat(id, heartbeat.model_dump())


@router.get("/runners")
def runners(service: Served) -> list[dict[str, Any]]:
    """The last heartbeat of each runner."""
    return _queue(service).runners()


@router.post("/runners/{id}/next", response_model=None)
def take(id: Runner, service: Served) -> dict[str, Any] | Response:
    """The next bench run for a runner; 204 if none waits."""
    return _queue(service).take(id) or Response(status_code=204)


@router.post("/benchmarks", status_code=201)
def queue(job: Job, service: Served) -> dict[str, Any]:
    """Queue a bench run for the next free runner."""
    return _queue(service).put(job.model_dump())


@router.get("/benchmarks")
def jobs(service: Served) -> list[dict[str, Any]]:
    """The bench runs that were queued, with the figures of those that are done."""
    return _queue(service).jobs()
