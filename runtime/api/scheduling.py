"""Starts dreams at an interval, in the foreground, while no run is active and there is something new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kernel.document.model import ENDED
from kernel.errors import FractalError
from runtime.api.dreaming import at_work, dream, resume, unfinished
from runtime.reflexes.dreaming import Order
from runtime.workspace.runs import RunResult

if TYPE_CHECKING:
    from runtime.api.fractal import Fractal

AT_LEAST = timedelta(days=1)
"""A dream after this time even if nothing is new: something is due for review, or has faded."""
Sleep = Callable[[float], Awaitable[None]]
Say = Callable[[str], None]


@dataclass
class Scheduler:
    """Checks every `every` seconds whether to dream, until it is cancelled."""

    fractal: Fractal
    order: Order
    every: float
    say: Say = lambda text: None
    sleep: Sleep = asyncio.sleep
    dreams: list[RunResult] = field(default_factory=list[RunResult])
    _last_counts: dict[str, int] | None = None
    _at: datetime | None = None

    async def run(self, looks: int | None = None) -> None:
        """Check `looks` times, by default without end."""
        count = 0
        while looks is None or count < looks:
            await self.sleep(self.every)
            count += 1
            try:
                await self.look()
            except FractalError as error:
                self.say(f"no dream: {error}")

    async def look(self) -> RunResult | None:
        """Dream now, unless runs are active or nothing is new; resume an interrupted dream."""
        if busy := at_work(self.fractal):
            self.say(f"no dream: {len(busy)} run{'' if len(busy) == 1 else 's'} at work")
            return None
        now, stored = self.fractal.memory.clock(), self._stored_counts()
        run = unfinished(self.fractal)
        rested = self._at is None or now - self._at >= AT_LEAST
        if not run and (not stored or (stored == self._last_counts and not rested)):
            return None
        result = await (resume(self.fractal, run) if run else dream(self.fractal, self.order))
        self._at, self._last_counts = now, self._stored_counts()
        self.dreams.append(result)
        self.say(
            f"dream {result.run}: {result.status}" + ("" if result.status in ENDED else ", to be resumed")
        )
        return result

    def _stored_counts(self) -> dict[str, int]:
        """The numbers of records by kind."""
        memory = self.fractal.memory
        kinds = memory.brain.shelf.kinds() if memory.there else {}
        return {kind: n for kind, n in kinds.items() if kind not in ("dream", "before-image")}
