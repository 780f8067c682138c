"""The clock of a run."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


class Clock:
    """Counts seconds of activity, without the time spent waiting for a person."""

    def __init__(self, earlier: float = 0.0) -> None:
        self._before = earlier
        self._since = time.monotonic()
        self._patient = 0

    def seconds(self) -> float:
        """Active seconds of this run, including earlier sessions."""
        return self._before + (0.0 if self._patient else time.monotonic() - self._since)

    @contextmanager
    def patient(self) -> Generator[None]:
        """Pause the clock while a person is being asked."""
        if not self._patient:
            self._before = self.seconds()
        self._patient += 1
        try:
            yield
        finally:
            self._patient -= 1
            self._since = time.monotonic()
