"""Filters over the fields of records, in Python and, as far as SQLite compares alike, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 500
"""Alternatives that go into an SQL statement."""
_EXACT = 2**53
_SEVERAL = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class Between:
    """A filter for numbers or texts from `least` to `most`, both included; None is no bound."""

    least: Any = None
    most: Any = None


Where = Mapping[str, Any]
"""Field paths with dots, and what each must be: a value, one of a list, tuple or set, or `Between`."""


def suits(body: str, where: Where) -> bool:
    """Whether the fields of a JSON body match; a missing field is None."""
    told = json.loads(body)
    return all(_is(_at(told, path), wanted) for path, wanted in where.items())


def _at(told: Any, path: str) -> Any:
    for name in path.split("."):
        told = told.get(name) if isinstance(told, dict) else None
    return told


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Between):
        return _within(value, wanted)
    if isinstance(wanted, _SEVERAL):
        return any(_is(value, each) for each in wanted)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _within(value: Any, bounds: Between) -> bool:
    given = [bound for bound in (bounds.least, bounds.most) if bound is not None]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value is not None and not given
    if any(isinstance(value, str) != isinstance(bound, str) for bound in given):
        return False
    return (bounds.least is None or value >= bounds.least) and (bounds.most is None or value <= bounds.most)


def in_sql(where: Where) -> tuple[list[str], list[Any]]:
    """SQL clauses and their values; they may let more through than the filter, never less."""
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
        several = wanted if isinstance(wanted, _SEVERAL) else [wanted]
        if len(several) <= MOST and all(map(_compares_alike, several)):
            clauses.append(f"({' OR '.join([f'{place} IS ?'] * len(several)) or '0'})")
            values += several
    return clauses, values


def _compares_alike(value: Any) -> bool:
    """Whether SQLite compares this value as Python does."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    return value is None or (isinstance(value, int) and abs(value) < _EXACT)
