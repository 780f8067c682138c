"""Times as a person writes them on the command line: a date, a time, or a span before now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kernel.errors import UsageError

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Seconds of a span such as `5m`, `90s`, `2h`, `3d`. Raises `UsageError`."""
    hit = _AGO.fullmatch(text.strip())
    if not hit or not float(hit[1]):
        raise UsageError(f"{text!r} is no span of time; write 90s, 5m, 2h or 3d")
    return float(hit[1]) * _SECONDS[hit[2]]


def moment(text: str, now: datetime) -> str:
    """A date, a time, or a span before now, as ISO 8601. Raises `UsageError`."""
    if _AGO.fullmatch(text.strip()):
        return (now - timedelta(seconds=seconds(text))).isoformat(timespec="seconds")
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no date or time; write 2026-11-20, or 3d for 3 days ago") from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).isoformat(timespec="seconds")
