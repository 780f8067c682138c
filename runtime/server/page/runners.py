"""The view of bench runs: those of this workspace, the queue for remote runners, and the runners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from kernel.errors import FractalError
from runtime.benchmarks.bench import folder_of
from runtime.benchmarks.log import BenchLog
from runtime.benchmarks.queue import Queue
from runtime.server.page import charts
from runtime.server.page.views import View, html
from runtime.server.service import Served

router = APIRouter(route_class=View, include_in_schema=False)
REFRESH = 5
"""Seconds after which the view is read again. Source: server.md."""
MOST = 20
"""Bench runs, and jobs of the queue, that the view shows, newest first."""

T = TypeVar("T", bound=BaseModel)
Share = Annotated[float, Field(ge=0, le=1)]


class Runner(BaseModel):
    """What a runner said of itself last."""

    id: str = ""
    status: str = ""
    at: str = ""
    suite: str = ""
    model: str = ""
    done: int = 0
    total: int = 0
    accuracy: Share = 0.0
    topology: dict[str, int] = Field(default_factory=dict[str, int])
    """By kind of record: how many its memory holds."""
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    error: str = ""


class Shot(BaseModel):
    """Figures of the problems since the snapshot before."""

    snapshot: int
    accuracy: Share
    without_model: Share


class Figures(BaseModel):
    """Figures of a bench run."""

    problems: int = 0
    accuracy: Share = 0.0
    without_model: Share = 0.0
    calls: int = 0
    tokens: int = 0
    snapshots: list[Shot] = Field(default_factory=list[Shot])

    def curve(self) -> Any:
        """The learning curve by snapshots as SVG; "" if there is only one."""
        shots = self.snapshots
        return charts.shots([each.model_dump() for each in shots]) if len(shots) > 1 else ""


class Bench(BaseModel):
    """A bench run: what it measures, where it stands, and its figures."""

    id: str = ""
    at: str = ""
    status: str = ""
    runner: str = ""
    suite: str = ""
    model: str | None = ""
    figures: Figures | None = None
    error: str | None = ""


@router.get("/runners")
def runners(request: Request, served: Served) -> HTMLResponse:
    """Bench runs, the queue, and the remote runners, as each reported last."""
    queue = Queue(served.fractal.workspace.state)
    return html(
        request,
        "runners.html",
        runners=[_read(Runner, each) for each in queue.runners()],
        jobs=[_read(Bench, {**each["plan"], **each}) for each in queue.jobs()[: -MOST - 1 : -1]],
        benches=[*_here(folder_of(served.fractal))],
        refresh=REFRESH,
    )


def _read(kind: type[T], values: Mapping[str, Any]) -> T:
    """What a runner has sent; what is not as it should be is `broken`, with the fault as its error."""
    try:
        return kind.model_validate(values)
    except ValueError as error:  # of pydantic
        return kind.model_validate({"id": str(values.get("id")), "status": "broken", "error": str(error)})


def _here(folder: Path) -> Iterator[Bench]:
    logs = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
    for log in map(BenchLog, logs[:MOST]):
        try:
            found = log.summary()
        except FractalError as error:
            yield Bench(id=log.id, status="broken", error=str(error))
            continue
        status = "complete" if found["finished"] else "unfinished"
        suite = Path(found["suite"]).name
        yield _read(Bench, {**found, "id": log.id, "status": status, "suite": suite, "figures": found})
