"""Whether what comes in about oneself still surprises: prediction errors, two weeks against two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from runtime.memory.semantic.dates import moment
from runtime.memory.semantic.records import Observation

DAYS = 14
MOVED = 0.03
"""How far the mean moves before that is a trend."""
FEW = 5
"""Observations that a judgement needs."""
LOW = 0.10
"""The mean below which nothing surprises any more."""
KINDS = ("identity", "reflection")
"""What is looked at."""


@dataclass(frozen=True)
class Saturation:
    """Mean prediction error now and before, and whether it is too low."""

    count: int = 0
    mean: float | None = None
    before: float | None = None  # of the days before, None where there was nothing
    trend: Literal["rising", "falling", "flat", "unknown"] = "unknown"
    saturated: bool = False


def saturation(
    observations: Iterable[Observation], now: datetime, kinds: Iterable[str] = KINDS
) -> Saturation:
    """Whether nothing contradicts the self that is held any more; then somebody should argue with it."""
    wanted = set(kinds)
    recent: list[float] = []
    earlier: list[float] = []
    for each in observations:
        if each.said not in wanted or each.surprise is None or not each.at:
            continue
        age = now - moment(each.at)
        if timedelta(0) <= age < timedelta(days=DAYS):
            recent.append(each.surprise)
        elif timedelta(days=DAYS) <= age < timedelta(days=2 * DAYS):
            earlier.append(each.surprise)
    mean = sum(recent) / len(recent) if recent else None
    before = sum(earlier) / len(earlier) if earlier else None
    trend: Literal["rising", "falling", "flat", "unknown"] = "unknown"
    if mean is not None and before is not None:
        trend = "rising" if mean > before + MOVED else "falling" if mean < before - MOVED else "flat"
    low = mean is not None and len(recent) >= FEW and mean < LOW
    return Saturation(len(recent), mean, before, trend, low)
