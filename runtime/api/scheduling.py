"""Dreams by themselves: every so often, while nobody works and something new is there; in the foreground."""

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
"""Where nothing new came: after so long something is due for review, or has faded."""
Sleep = Callable[[float], Awaitable[None]]
Say = Callable[[str], None]


@dataclass
class Scheduler:
    """Looks every `every` seconds whether it is time to dream. Ends when it is cancelled."""

    fractal: Fractal
    order: Order
    every: float
    say: Say = lambda text: None
    sleep: Sleep = asyncio.sleep
    dreams: list[RunResult] = field(default_factory=list[RunResult])
    _seen: dict[str, int] | None = None
    _at: datetime | None = None

    async def run(self, looks: int | None = None) -> None:
        """Look again and again; so often, or without end."""
        count = 0
        while looks is None or count < looks:
            await self.sleep(self.every)
            count += 1
            try:
                await self.look()
            except FractalError as error:
                self.say(f"no dream: {error}")

    async def look(self) -> RunResult | None:
        """Dream now, unless runs are at work or nothing is new; go on with one that was cut short."""
        if busy := at_work(self.fractal):
            self.say(f"no dream: {len(busy)} run{'' if len(busy) == 1 else 's'} at work")
            return None
        now, there = self.fractal.memory.clock(), self._there()
        left = unfinished(self.fractal)
        rested = self._at is None or now - self._at >= AT_LEAST
        if not left and there == self._seen and not rested:
            return None
        if not left and not there:
            return None
        result = await (resume(self.fractal, left) if left else dream(self.fractal, self.order))
        self._at, self._seen = now, self._there()
        self.dreams.append(result)
        self.say(
            f"dream {result.run}: {result.status}" + ("" if result.status in ENDED else ", to be resumed")
        )
        return result

    def _there(self) -> dict[str, int]:
        """How much of what is remembered."""
        memory = self.fractal.memory
        return {k: n for k, n in memory.brain.shelf.kinds().items() if k != "dream"} if memory.there else {}
