"""What the endpoints share: the workspace that is served, and the runs of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Any, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from kernel.errors import (
    ConfigurationError,
    DocumentError,
    ForeignEdit,
    FractalError,
    RunLocked,
    StorageError,
    UsageError,
)
from kernel.events import Event
from runtime.api.checkpointing import keep_making
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.memory.episodes.tally import Tally
from runtime.server.figures import Figures
from runtime.server.hub import Hub
from runtime.server.outcomes import Outcomes
from runtime.server.persons import Persons
from runtime.server.run_list import RunList
from runtime.server.watching import Watcher, watch

WARM = "what is there to do"
"""A task whose search loads the vectors and the embedder."""

STATUS: Mapping[type[FractalError], int] = {
    RunLocked: 409,
    UsageError: 400,
    ConfigurationError: 400,
    DocumentError: 409,
    ForeignEdit: 409,
    StorageError: 503,
}


def http_status(error: Exception) -> int:
    """The HTTP status of an error; 500 for any that is not in `STATUS`."""
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)


@dataclass
class Service:
    """One served workspace. It owns no state but caches: commands work on the workspace side by side."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    token: bool = False  # whether each client has shown the server's token
    announce: Callable[[str], None] | None = None  # shows a person the code for the page, and nobody else
    began: float = field(default_factory=monotonic)
    events: Hub = field(default_factory=Hub)
    recalling: Lock = field(default_factory=Lock)  # what recalls solved tasks is not made for threads
    runs: Runs = field(init=False)
    outcomes: Outcomes = field(init=False)
    figures: Figures = field(init=False)
    persons: Persons = field(init=False)
    listing: RunList = field(init=False)
    _watcher: Watcher = field(init=False)
    _background: list[asyncio.Task[Any]] = field(default_factory=list[asyncio.Task[Any]])

    def __post_init__(self) -> None:
        self.runs = Runs(self.folder, settings=self.settings, on_event=self._hear)
        self.outcomes, self.figures = Outcomes(self.fractal), Figures(self.fractal)
        self._watcher = Watcher(self.fractal.workspace.runs)
        self.persons = Persons(self.announce)
        self.listing = RunList(self.fractal)

    @property
    def fractal(self) -> Fractal:
        """The workspace for reading, and for what needs no run."""
        return self.runs.reading

    def _hear(self, event: Event) -> None:
        self.events.hear(event)
        self.figures.hear(event)
        if event.kind == "run_finished":
            self._watcher.know(event.run)

    async def start(self) -> None:
        """Load memory, so that the first requests do not wait for it, and begin to work in the background."""
        self._watcher.begin()  # before any client has seen the runs
        with suppress(FractalError):  # each request says what is wrong
            await asyncio.to_thread(self._load)
        self.outcomes.start()
        going_on = (
            watch(self._watcher, self.runs, self.events),
            keep_making(self.fractal),
            asyncio.to_thread(self.listing.page, 1),
        )
        self._background = [asyncio.create_task(each) for each in going_on]

    def _load(self) -> None:
        memory = self.fractal.memory
        if memory.there:
            memory.brain.episodes.similar(WARM, 1)
            Tally.of(memory.brain.shelf)

    async def close(self) -> None:
        """Stop all runs, which are saved and can be resumed, and the work on outcomes, which wait."""
        self.events.close()
        for task in self._background:
            task.cancel()
        await self.outcomes.close()
        await self.runs.close()


async def _service(connection: HTTPConnection) -> Service:
    return cast(Service, connection.app.state.service)


Served = Annotated[Service, Depends(_service)]
"""The parameter of an endpoint that needs the service."""
