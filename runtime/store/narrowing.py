"""What of a filter SQLite can look at by itself; the filter itself is looked at after."""

from __future__ import annotations

from typing import Any

from runtime.store.record import Between, Where

MOST = 500
"""Alternatives that go into a statement."""
_EXACT = 2**53


def narrowed(where: Where) -> tuple[list[str], list[Any]]:
    """Clauses and their values, never stricter than the filter."""
    clauses: list[str] = []
    values: list[Any] = []
    for path, wanted in where.items():
        if not path.replace(".", "").replace("_", "").isalnum() or not path.isascii():
            continue
        place = "json_extract(body, '$." + ".".join(f'"{name}"' for name in path.split(".")) + "')"
        if isinstance(wanted, Between):
            for bound, sign in ((wanted.least, ">="), (wanted.most, "<=")):
                if isinstance(bound, (int, float)) and abs(bound) < _EXACT:
                    slack = (abs(bound) + 1) * 1e-9
                    clauses.append(f"{place} {sign} ?")
                    values.append(bound - slack if sign == ">=" else bound + slack)
            continue
        several = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        if len(several) <= MOST and all(map(_binds, several)):
            alternatives = [f"{place} IS ?"] * len(several)
            clauses.append(f"({' OR '.join(alternatives) or '0'})")
            values += several
    return clauses, values


def _binds(value: Any) -> bool:
    """Whether SQLite compares this value as Python does."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    return value is None or (isinstance(value, int) and abs(value) < _EXACT)
