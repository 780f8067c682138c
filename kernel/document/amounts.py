"""Numbers that somebody else reports: a provider, a server, a client, a file. Each is taken within bounds."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

MOST = 10**15
"""Upper bound of amounts in a document; a larger one is a typing error."""
MOST_AT_ONCE = 10**9
"""The largest amount of one call: so many of them do not reach `MOST`."""


def clamped(value: Any, instead: T, most: float = MOST_AT_ONCE) -> Any | T:
    """A number from outside, at most `most`; `instead` for what is none, such as -1, NaN, true or "12"."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return instead
    return most if value > most else value


def whole(value: Any, instead: int, most: int = MOST_AT_ONCE) -> int:
    """As `clamped`, for what is counted: a fraction is cut off."""
    return int(clamped(value, instead, most))


def total(*values: float) -> Any:
    """A sum of amounts that a document can hold."""
    return min(sum(values), MOST - 1)
