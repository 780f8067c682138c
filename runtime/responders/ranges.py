"""Which digits spell the numbers between two bounds: alternatives of a grammar of llama.cpp."""

from __future__ import annotations

import math

DIGITS = 15  # of a number without a bound: as many as any program reads exactly


def integers(low: float, high: float) -> list[str]:
    """The whole numbers from `low` to `high`; up to DIGITS digits where there is no bound."""
    below, above = int(max(low, -(10**DIGITS) + 1)), int(min(high, 10**DIGITS - 1))
    if low > above:  # beyond what is written without a bound
        above = int(low) * 10 + 9 if high == math.inf else int(high)
    if high < below:
        below = int(high) * 10 - 9 if low == -math.inf else int(low)
    found = [f'"-" ({" | ".join(_naturals(max(1, -above), -below))})'] if below < 0 and below <= above else []
    return found + (_naturals(max(0, below), above) if above >= 0 and below <= above else [])


def _naturals(low: int, high: int) -> list[str]:
    """The numbers from `low` to `high`, neither negative."""
    found: list[str] = []
    while low <= high:
        size = len(str(low))
        found += _same_length(str(low), str(min(high, 10**size - 1)))
        low = 10**size
    return found


def _same_length(low: str, high: str) -> list[str]:
    """The digits from `low` to `high`, both of the same length."""
    if not low or low == high:
        return [f'"{low}"'] if low else [""]
    if set(low[1:]) <= {"0"} and set(high[1:]) <= {"9"}:
        rest = len(low) - 1
        return [f"[{low[0]}-{high[0]}]" + (f" [0-9]{{{rest}}}" if rest else "")]
    if low[0] == high[0]:
        return [f'"{low[0]}" {each}'.strip() for each in _same_length(low[1:], high[1:])]
    zeros, nines = "0" * (len(low) - 1), "9" * (len(low) - 1)
    first = [f'"{low[0]}" {each}' for each in _same_length(low[1:], nines)]
    last = [f'"{high[0]}" {each}' for each in _same_length(zeros, high[1:])]
    after, before = chr(ord(low[0]) + 1), chr(ord(high[0]) - 1)
    middle = _same_length(after + zeros, before + nines) if after <= before else []
    return first + middle + last


def fractions(low: float, high: float) -> list[str]:
    """Numbers strictly between `low` and `high` that are not whole; not all of them."""
    tail = '"." [0-9]{0,5} [1-9]'
    found = [f"({' | '.join(rules)}) {tail}" if (rules := integers(max(0, up(low)), -up(-high) - 1)) else ""]
    below = integers(max(0, up(-high)), -up(low) - 1)
    found.append(f'"-" ({" | ".join(below)}) {tail}' if below else "")
    if not any(found) and low < high:  # no whole number below them: some of those between
        found = [f'"{low + (high - low) * n / 10!r}"' for n in range(1, 10)]
    return [rule for rule in found if rule]


def up(number: float) -> float:
    """Rounded up to a whole number; infinities stay."""
    return number if math.isinf(number) else math.ceil(number)
