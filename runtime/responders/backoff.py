"""When to try a provider again: growing waits with jitter, and one brake a provider for the whole process."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache


@dataclass
class Brake:
    """Holds back every call to one provider after it said that it is called too often."""

    until: float = 0.0  # on the monotonic clock

    def hold(self, seconds: float) -> None:
        """Let nobody call for that long; a longer hold stays."""
        self.until = max(self.until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Return when calls are allowed; those that waited do not all start at once."""
        while (left := self.until - time.monotonic()) > 0:  # noqa: ASYNC110 (a moment, and it may move on)
            await asyncio.sleep(left + random.uniform(0, 0.1 * min(left, 5)))


@cache
def brake_of(provider: str) -> Brake:
    """The one brake of that provider in this process."""
    return Brake()


def delay(failures: int, base: float, longest: float) -> float:
    """Seconds to wait after that many failures: base, doubled each time, at most `longest`, ± 25 %."""
    return min(longest, base * 2 ** (failures - 1)) * random.uniform(0.75, 1.25)


def retry_after(value: str | None) -> float:
    """Seconds that a Retry-After header asks for, in either of its forms; 0 when it says nothing usable."""
    try:
        return max(0.0, float(value or 0))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value or "") - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
