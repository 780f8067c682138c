"""Times as semantic memory keeps them: ISO 8601 in UTC to the millisecond, so that they sort as texts."""

from __future__ import annotations

from datetime import UTC, datetime

from kernel.errors import UsageError


def stamp(at: datetime) -> str:
    """A time as it is kept; one without a zone is taken for UTC."""
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at: str) -> datetime:
    """The time that was kept."""
    return datetime.fromisoformat(at.replace("Z", "+00:00"))


def normal(at: str | datetime) -> str:
    """A time however it was given (a date alone is its midnight), as it is kept; "" for none."""
    if not at:
        return ""
    try:
        found = at if isinstance(at, datetime) else datetime.fromisoformat(at.strip().replace("Z", "+00:00"))
        return stamp(found)
    except (ValueError, OverflowError):
        raise UsageError(f"{at!r} is no time; write it as 2026-05-07 or 2026-05-07T15:04:05Z") from None


def days_between(earlier: str, later: str) -> float:
    """Days from one kept time to another."""
    return (moment(later) - moment(earlier)).total_seconds() / 86_400
