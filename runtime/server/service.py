"""What the endpoints share: the workspace that is served, and the runs of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Any, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from kernel.errors import FractalError
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.memory.episodes.figures import Figures
from runtime.server.outcomes import Outcomes

WARM = "what is there to do"
"""A task whose search loads the vectors and the embedder."""


@dataclass
class Service:
    """One served workspace. It owns no state but caches: commands work on the workspace side by side."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    began: float = field(default_factory=monotonic)
    recalling: Lock = field(default_factory=Lock)  # what recalls solved tasks is not made for threads
    runs: Runs = field(init=False)
    outcomes: Outcomes = field(init=False)

    def __post_init__(self) -> None:
        self.runs = Runs(self.folder, settings=self.settings)
        self.outcomes = Outcomes(self.fractal)

    @property
    def fractal(self) -> Fractal:
        """The workspace for reading, and for what needs no run."""
        return self.runs.reading

    async def start(self) -> None:
        """Load memory, so that the first requests do not wait for it, and begin to work in the background."""
        with suppress(FractalError):  # each request says what is wrong
            await asyncio.to_thread(self._load)
        self.outcomes.start()

    def _load(self) -> None:
        memory = self.fractal.memory
        if memory.there:
            memory.brain.episodes.similar(WARM, 1)
            Figures.of(memory.brain.shelf).all()

    async def close(self) -> None:
        """Stop all runs, which are saved and can be resumed, and the work on outcomes, which wait."""
        await self.outcomes.close()
        await self.runs.close()


def _service(connection: HTTPConnection) -> Service:
    return cast(Service, connection.app.state.service)


Served = Annotated[Service, Depends(_service)]
"""The parameter of an endpoint that needs the service."""
