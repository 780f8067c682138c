"""What the endpoints share: the workspace that is served, and the runs of this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.server.figures import Figures


@dataclass
class Service:
    """One served workspace. It owns no state but caches: commands work on the workspace side by side."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    began: float = field(default_factory=monotonic)
    runs: Runs = field(init=False)
    figures: Figures = field(init=False)

    def __post_init__(self) -> None:
        self.runs = Runs(self.folder, settings=self.settings, on_event=lambda event: self.figures.hear(event))
        self.figures = Figures(self.fractal)

    @property
    def fractal(self) -> Fractal:
        """The workspace for reading, and for what needs no run."""
        return self.runs.reading

    async def close(self) -> None:
        """Stop all runs; they are saved and can be resumed."""
        await self.runs.close()


def _service(connection: HTTPConnection) -> Service:
    return cast(Service, connection.app.state.service)


Served = Annotated[Service, Depends(_service)]
"""The parameter of an endpoint that needs the service."""
